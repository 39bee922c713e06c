package embedded

import (
	"database/sql"
	"errors"
	"time"
)

// listExperimentItems answers GET /experiment-items: the root span of every
// item, every attempt of it, the latest start first.
func (s *Server) listExperimentItems(c *call) (reply, error) {
	groups, err := c.fields([]string{"core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores"},
		[]string{"core", "dataset"})
	if err != nil {
		return reply{}, err
	}
	limit, err := c.number("limit", 50, 1, 100)
	if err != nil {
		return reply{}, err
	}
	scoreLimit, err := c.number("scoreLimit", 50, 1, 50)
	if err != nil {
		return reply{}, err
	}
	w, err := experimentItemWhere(c)
	if err != nil {
		return reply{}, err
	}
	if !s.cfg.Mode.events() { // only now: a bad query is 400 in Langfuse 3 too
		return reply{}, notFound("%s", onlyV4Text("experiment items"))
	}
	found, err := readObservations(s.store.r, groups["io"], "WHERE "+w.String()+
		" ORDER BY o.start_ms DESC, o.trace_id DESC, o.span_id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return reply{}, err
	}
	found, meta := cutPage(found, limit, object{})
	data := make([]object, len(found))
	for i, o := range found {
		data[i] = o.itemJSON(groups)
	}
	if groups["scores"] {
		err = s.addItemScores(data, found, scoreLimit)
	}
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": meta})
}

// addItemScores adds the scores of the root spans and of their traces that lie
// within a day of the item.
func (s *Server) addItemScores(data []object, found []observation, limit int) (err error) {
	day := (24 * time.Hour).Milliseconds()
	stmt, err := s.store.r.Prepare(wholeScores + `trace_id = ? AND trace_id != '' AND observation_id IN ('', ?)
		AND timestamp BETWEEN ? AND ? ORDER BY timestamp DESC, id LIMIT ?`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for i, o := range found {
		rows, err := stmt.Query(o.trace, o.span, o.start-day, o.end+day, limit)
		if data[i]["scores"], err = gather(rows, err, s.wholeScore); err != nil {
			return err
		}
	}
	return nil
}

// cutPage drops the row that was read only to know whether there is more, and
// then sets the cursor.
func cutPage(found []observation, limit int, meta object) ([]observation, object) {
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1]
		meta["cursor"] = cursor{At: last.start, Trace: last.trace, ID: last.span}.String()
	}
	return found, meta
}

func (w *where) after(c *call) error {
	at, given, err := c.cursor()
	if given {
		w.add("(o.start_ms, o.trace_id, o.span_id) < (?, ?, ?)", at.At, at.Trace, at.ID)
	}
	return err
}

func experimentItemWhere(c *call) (where, error) {
	var w where
	from, to, err := c.window()
	if err != nil {
		return w, err
	}
	w.add("o.experiment_id != '' AND o.is_item_root = 1 AND o.start_ms >= ? AND o.start_ms < ?", from, to)
	columns := map[string]string{"experimentId": "o.experiment_id", "experimentName": "o.experiment_name",
		"experimentItemId": "o.experiment_item_id", "datasetId": "o.experiment_dataset_id"}
	if err := c.filterOr(&w, columns, func() {
		for key, column := range columns {
			w.in(column, c.list(key))
		}
	}); err != nil {
		return w, err
	}
	return w, w.after(c)
}

func (o observation) itemJSON(groups map[string]bool) object {
	out := object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.ended(), "level": o.level,
		"environment": o.environment, "experimentId": o.experiment, "experimentName": o.experimentName,
		"experimentItemId": o.experimentItem}
	if groups["dataset"] {
		out["experimentDatasetId"] = nullable(o.experimentDataset)
		out["experimentItemVersion"] = isoOrNull(o.experimentItemVersion)
	}
	if groups["io"] {
		out["input"], out["output"], out["expectedOutput"] = orNull(o.input), orNull(o.output), orNull(o.expected)
	}
	if groups["metadata"] {
		out["metadata"] = jsonText(o.metadata)
	}
	if groups["itemMetadata"] {
		out["experimentItemMetadata"] = jsonText(o.experimentItemValues)
	}
	if groups["experimentMetadata"] {
		out["experimentMetadata"] = jsonText(o.experimentMetadata)
		out["experimentDescription"] = nullable(o.experimentDescription)
	}
	return out
}

func isoOrNull(ms sql.NullInt64) any {
	if !ms.Valid {
		return nil
	}
	return iso(ms.Int64)
}

// jsonText passes stored JSON on as it is; nothing stored is null.
func jsonText(s string) any {
	return rawOrNull(sql.NullString{String: s, Valid: true})
}
