package embedded

import (
	"database/sql"
	"strings"
)

// observation is one span as Langfuse understands it. Texts that are absent are
// empty; the JSON columns hold an object or nothing.
type observation struct {
	trace, span, parent                      string
	start, end                               int64
	root                                     bool
	kind, name, level, statusMessage         string
	environment, version, release            string
	user, session, traceName                 string
	tags                                     string
	public                                   bool
	model, parameters, usage, cost           string
	totalCost                                sql.NullFloat64
	completionStart                          sql.NullInt64
	promptID, promptName                     string
	promptVersion                            sql.NullInt64
	experiment, experimentName               string
	experimentDataset, experimentItem        string
	experimentItemVersion                    sql.NullInt64
	itemRoot                                 bool
	created, updated                         int64
	experimentDescription                    string
	experimentMetadata, experimentItemValues string
	metadata                                 string
	input, output, expected                  sql.NullString
}

const observationColumns = `trace_id, span_id, start_ms, end_ms, parent_id, is_root, kind, name, level, status_message,
	environment, version, release, user_id, session_id, trace_name, tags, public, model, model_parameters, usage, cost,
	total_cost, completion_start, prompt_id, prompt_name, prompt_version, experiment_id, experiment_name,
	experiment_dataset_id, experiment_item_id, experiment_item_version, is_item_root, created, updated,
	experiment_description, experiment_metadata, experiment_item_metadata, metadata`

const ioColumns = `, input, output, expected`

func (o *observation) columns() []any {
	return []any{&o.trace, &o.span, &o.start, &o.end, &o.parent, &o.root, &o.kind, &o.name, &o.level, &o.statusMessage,
		&o.environment, &o.version, &o.release, &o.user, &o.session, &o.traceName, &o.tags, &o.public, &o.model,
		&o.parameters, &o.usage, &o.cost, &o.totalCost, &o.completionStart, &o.promptID, &o.promptName,
		&o.promptVersion, &o.experiment, &o.experimentName, &o.experimentDataset, &o.experimentItem,
		&o.experimentItemVersion, &o.itemRoot, &o.created, &o.updated, &o.experimentDescription,
		&o.experimentMetadata, &o.experimentItemValues, &o.metadata}
}

// readObservations selects observations; the wide columns only where asked for.
func readObservations(q querier, io bool, rest string, args ...any) ([]observation, error) {
	columns := observationColumns
	if io {
		columns += ioColumns
	}
	return collect(q, func(rows *sql.Rows) (observation, error) {
		var o observation
		into := o.columns()
		if io {
			into = append(into, &o.input, &o.output, &o.expected)
		}
		err := rows.Scan(into...)
		return o, err
	}, "SELECT "+columns+" FROM observations o "+rest, args...)
}

// spanWriter writes observations within one transaction.
type spanWriter struct {
	insert, describe *sql.Stmt
	newer, demote    *sql.Stmt
	prompts          map[promptKey]string
	described        map[string]bool
	tx               *sql.Tx
}

type promptKey struct {
	name    string
	version int64
}

func newSpanWriter(tx *sql.Tx) (*spanWriter, error) {
	columns := observationColumns + ioColumns
	w := &spanWriter{tx: tx, prompts: map[promptKey]string{}, described: map[string]bool{}}
	for _, one := range []struct {
		into **sql.Stmt
		text string
	}{
		{&w.insert, "INSERT OR REPLACE INTO observations(" + columns + ") VALUES(?" + strings.Repeat(",?", strings.Count(columns, ",")) + ")"},
		{&w.newer, "SELECT count(*) FROM observations WHERE trace_id = ? AND span_id = ? AND start_ms > ?"},
		{&w.demote, "UPDATE observations SET is_item_root = 0 WHERE trace_id = ? AND span_id = ? AND start_ms < ?"},
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
	return w, nil
}

// write stores one observation. The same span with the same start replaces what
// is there; with another start it stands beside it, as in Langfuse.
func (w *spanWriter) write(o observation) error {
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
		o.experimentMetadata, o.experimentItemValues, o.metadata, o.input, o.output, o.expected}
	if _, err := w.insert.Exec(values...); err != nil {
		return err
	}
	return w.describeExperiment(o)
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

func scanText(rows *sql.Rows) (string, error) {
	var s string
	err := rows.Scan(&s)
	return s, err
}
