package embedded

import (
	"database/sql"
	"strings"
)

// spanWriter writes observations within one transaction.
type spanWriter struct {
	insert, describe *sql.Stmt
	newer, demote    *sql.Stmt
	forget           *sql.Stmt
	prompts          map[promptKey]string
	described        map[string]bool
	tx               *transaction
	cfg              Config
	prices           priceList
}

type promptKey struct {
	name    string
	version int64
}

func newSpanWriter(tx *transaction, cfg Config) (*spanWriter, error) {
	columns := observationColumns + ioColumns + legacyColumns
	w := &spanWriter{tx: tx, cfg: cfg, prompts: map[promptKey]string{}, described: map[string]bool{}}
	for _, one := range []struct {
		into **sql.Stmt
		text string
	}{
		{&w.insert, "INSERT OR REPLACE INTO observations(" + columns + ") VALUES(?" + strings.Repeat(",?", strings.Count(columns, ",")) + ")"},
		{&w.newer, "SELECT count(*) FROM observations WHERE trace_id = ? AND span_id = ? AND start_ms > ?"},
		{&w.demote, "UPDATE observations SET is_item_root = 0 WHERE trace_id = ? AND span_id = ? AND start_ms < ?"},
		{&w.forget, "DELETE FROM observations WHERE trace_id = ? AND span_id = ? AND start_ms != ?"},
		{&w.describe, `INSERT INTO experiments(id, name, description, dataset_id, metadata) VALUES(?,?,?,?,?)
			ON CONFLICT(id) DO UPDATE SET
				name = CASE name WHEN '' THEN excluded.name ELSE name END,
				description = CASE description WHEN '' THEN excluded.description ELSE description END,
				dataset_id = CASE dataset_id WHEN '' THEN excluded.dataset_id ELSE dataset_id END,
				metadata = CASE metadata WHEN '' THEN excluded.metadata ELSE metadata END`},
	} {
		stmt, err := tx.Prepare(one.text)
		if err != nil {
			return nil, err
		}
		*one.into = stmt // closed with the transaction
	}
	var err error
	w.prices, err = readPrices(tx)
	return w, err
}

// write stores one observation. The same span with the same start replaces what
// is there; with another start it stands beside it in Langfuse 4, while Langfuse
// 3 keeps one row per span, moves an end before the start to the start, and
// knows nothing of experiments.
func (w *spanWriter) write(o observation) error {
	if !w.cfg.Mode.events() {
		if o.end != 0 {
			o.end = max(o.end, o.start)
		}
		o.forgetExperiment()
		if _, err := w.forget.Exec(o.trace, o.span, o.start); err != nil {
			return err
		}
	}
	w.prices.price(&o)
	if err := w.double(o); err != nil {
		return err
	}
	if err := w.linkPrompt(&o); err != nil {
		return err
	}
	if err := w.markRoot(&o); err != nil {
		return err
	}
	values := []any{o.trace, o.span, o.start, o.end, o.parent, o.root, o.kind, o.name, o.level, o.statusMessage,
		o.environment, o.version, o.release, o.user, o.session, o.traceName, o.tags, o.public, o.model,
		o.parameters, o.usage, o.cost, o.totalCost, o.completionStart, o.promptID, o.promptName,
		o.promptVersion, o.experiment, o.experimentName, o.experimentDataset, o.experimentItem,
		o.experimentItemVersion, o.itemRoot, o.created, o.updated, o.experimentDescription,
		o.experimentMetadata, o.experimentItemValues, o.metadata, o.input, o.output, o.expected, o.eventAt, o.legacyMetadata}
	if _, err := w.insert.Exec(values...); err != nil {
		return err
	}
	return w.describeExperiment(o)
}

// forgetExperiment empties what only Langfuse 4 reads.
func (o *observation) forgetExperiment() {
	o.experiment, o.experimentName, o.experimentDescription, o.experimentMetadata = "", "", "", ""
	o.experimentDataset, o.experimentItem, o.experimentItemValues = "", "", ""
	o.experimentItemVersion, o.expected, o.itemRoot = sql.NullInt64{}, sql.NullString{}, false
}

// markRoot sees to it that of an item's root span only the row with the latest
// start is listed and counted as the item.
func (w *spanWriter) markRoot(o *observation) error {
	if !o.itemRoot {
		return nil
	}
	var newer int
	if err := w.newer.QueryRow(o.trace, o.span, o.start).Scan(&newer); err != nil {
		return err
	}
	o.itemRoot = newer == 0
	_, err := w.demote.Exec(o.trace, o.span, o.start)
	return err
}

// describeExperiment keeps the first name, description, dataset and metadata
// that the spans of an experiment carry.
func (w *spanWriter) describeExperiment(o observation) error {
	if o.experiment == "" {
		return nil
	}
	said := joined([]string{o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset, o.experimentMetadata})
	if w.described[said] {
		return nil
	}
	w.described[said] = true
	_, err := w.describe.Exec(o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset, o.experimentMetadata)
	return err
}

// linkPrompt finds the id of the prompt version that a generation names.
func (w *spanWriter) linkPrompt(o *observation) error {
	if o.promptName == "" {
		return nil
	}
	key := promptKey{o.promptName, o.promptVersion.Int64}
	id, known := w.prompts[key]
	if !known {
		ids, err := collect(w.tx, scanText, "SELECT id FROM prompts WHERE name = ? AND version = ?", key.name, key.version)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			id = ids[0]
		}
		w.prompts[key] = id
	}
	o.promptID = id
	return nil
}
