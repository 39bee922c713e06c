package embedded

import "database/sql"

// schemaDoubles remembers the spans that came again while they could be read.
// Until the background merge of Langfuse 4 has passed, they show twice.
const schemaDoubles = `
CREATE TABLE doubles(
	trace_id TEXT NOT NULL, span_id TEXT NOT NULL, start_ms INTEGER NOT NULL, until INTEGER NOT NULL,
	PRIMARY KEY(trace_id, span_id, start_ms)) WITHOUT ROWID;
`

// spanKey is what makes a row of observations.
type spanKey struct {
	trace, span string
	start       int64
}

// double notes that a span which is about to be written is there already.
func (w *spanWriter) double(o observation) error {
	if w.cfg.MergeDelay <= 0 || !w.cfg.Mode.events() {
		return nil
	}
	_, err := w.tx.Exec(`INSERT OR REPLACE INTO doubles SELECT trace_id, span_id, start_ms, ? FROM observations
		WHERE trace_id = ? AND span_id = ? AND start_ms = ?`, o.updated+w.cfg.MergeDelay.Milliseconds(), o.trace, o.span, o.start)
	return err
}

// showDoubles puts a second row behind each span that has not been merged yet.
func (s *Server) showDoubles(found []observation) ([]observation, error) {
	if s.cfg.MergeDelay <= 0 {
		return found, nil
	}
	keys, err := collect(s.store.r, func(rows *sql.Rows) (spanKey, error) {
		var k spanKey
		err := rows.Scan(&k.trace, &k.span, &k.start)
		return k, err
	}, "SELECT trace_id, span_id, start_ms FROM doubles WHERE until > ?", s.now())
	if err != nil || len(keys) == 0 {
		return found, err
	}
	twice := map[spanKey]bool{}
	for _, k := range keys {
		twice[k] = true
	}
	shown := make([]observation, 0, len(found)+len(keys))
	for _, o := range found {
		shown = append(shown, o)
		if twice[spanKey{o.trace, o.span, o.start}] {
			shown = append(shown, o)
		}
	}
	return shown, nil
}
