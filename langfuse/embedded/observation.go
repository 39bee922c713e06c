package embedded

import "database/sql"

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
	eventAt                                  int64  // of the latest event, where events made it
	legacyMetadata                           string // nested, as Langfuse 3 shows it
}

const observationColumns = `trace_id, span_id, start_ms, end_ms, parent_id, is_root, kind, name, level, status_message,
	environment, version, release, user_id, session_id, trace_name, tags, public, model, model_parameters, usage, cost,
	total_cost, completion_start, prompt_id, prompt_name, prompt_version, experiment_id, experiment_name,
	experiment_dataset_id, experiment_item_id, experiment_item_version, is_item_root, created, updated,
	experiment_description, experiment_metadata, experiment_item_metadata, metadata`

const ioColumns = `, input, output, expected`

const legacyColumns = `, event_at, legacy_metadata`

func (o *observation) columns() []any {
	return []any{&o.trace, &o.span, &o.start, &o.end, &o.parent, &o.root, &o.kind, &o.name, &o.level, &o.statusMessage,
		&o.environment, &o.version, &o.release, &o.user, &o.session, &o.traceName, &o.tags, &o.public, &o.model,
		&o.parameters, &o.usage, &o.cost, &o.totalCost, &o.completionStart, &o.promptID, &o.promptName,
		&o.promptVersion, &o.experiment, &o.experimentName, &o.experimentDataset, &o.experimentItem,
		&o.experimentItemVersion, &o.itemRoot, &o.created, &o.updated, &o.experimentDescription,
		&o.experimentMetadata, &o.experimentItemValues, &o.metadata}
}

// ended is the end of an observation as it is written out. One that was made by
// an event may have none.
func (o observation) ended() any {
	if o.end == 0 {
		return nil
	}
	return iso(o.end)
}

// latency is in seconds.
func (o observation) latency() any {
	return numberOrNull(float64(o.end-o.start)/1000, o.end != 0)
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

// readWhole selects observations with every column.
func readWhole(q querier, rest string, args ...any) ([]observation, error) {
	return collect(q, func(rows *sql.Rows) (observation, error) {
		var o observation
		err := rows.Scan(append(o.columns(), &o.input, &o.output, &o.expected, &o.eventAt, &o.legacyMetadata)...)
		return o, err
	}, "SELECT "+observationColumns+ioColumns+legacyColumns+" FROM observations o "+rest, args...)
}

func scanText(rows *sql.Rows) (string, error) {
	var s string
	err := rows.Scan(&s)
	return s, err
}
