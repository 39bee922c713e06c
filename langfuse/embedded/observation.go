package embedded

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
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
	promptName                               string
	promptVersion                            sql.NullInt64
	experiment, experimentName               string
	experimentDataset, experimentItem        string
	experimentItemVersion                    sql.NullInt64
	itemRoot                                 bool
	created, updated                         int64
	experimentDescription                    string
	experimentMetadata, experimentItemValues string
	metadata                                 string // flat: its values are texts
	input, output, expected                  sql.NullString
}

const observationColumns = `trace_id, span_id, start_ms, end_ms, parent_id, is_root, kind, name, level, status_message,
	environment, version, release, user_id, session_id, trace_name, tags, public, model, model_parameters, usage, cost,
	total_cost, completion_start, prompt_name, prompt_version, experiment_id, experiment_name,
	experiment_dataset_id, experiment_item_id, experiment_item_version, is_item_root, created, updated,
	experiment_description, experiment_metadata, experiment_item_metadata, metadata`

const contentColumns = `, input, output, expected`

// columns are the fields in the order of observationColumns and contentColumns,
// to be read into or written from.
func (o *observation) columns() []any {
	return []any{&o.trace, &o.span, &o.start, &o.end, &o.parent, &o.root, &o.kind, &o.name, &o.level, &o.statusMessage,
		&o.environment, &o.version, &o.release, &o.user, &o.session, &o.traceName, &o.tags, &o.public, &o.model,
		&o.parameters, &o.usage, &o.cost, &o.totalCost, &o.completionStart, &o.promptName,
		&o.promptVersion, &o.experiment, &o.experimentName, &o.experimentDataset, &o.experimentItem,
		&o.experimentItemVersion, &o.itemRoot, &o.created, &o.updated, &o.experimentDescription,
		&o.experimentMetadata, &o.experimentItemValues, &o.metadata, &o.input, &o.output, &o.expected}
}

// readObservations selects observations; the wide columns only where asked for.
func readObservations(q querier, contents bool, rest string, args ...any) ([]observation, error) {
	columns, wide := observationColumns, strings.Count(contentColumns, ",")
	if contents {
		columns, wide = columns+contentColumns, 0
	}
	return collect(q, func(rows *sql.Rows) (observation, error) {
		var o observation
		into := o.columns()
		err := rows.Scan(into[:len(into)-wide]...)
		return o, err
	}, "SELECT "+columns+" FROM observations o "+rest, args...)
}

// write stores one observation in the place of what was sent of the same span
// before. Langfuse 3 moves an end before the start to the start, and knows nothing
// of experiments.
func (o observation) write(tx *transaction, mode Mode, described map[string]bool) error {
	if !mode.events() {
		if o.end != 0 {
			o.end = max(o.end, o.start)
		}
		o.experiment, o.experimentName, o.experimentDescription, o.experimentMetadata = "", "", "", ""
		o.experimentDataset, o.experimentItem, o.experimentItemValues = "", "", ""
		o.experimentItemVersion, o.expected, o.itemRoot = sql.NullInt64{}, sql.NullString{}, false
	}
	_, err := tx.Exec("DELETE FROM observations WHERE trace_id = ? AND span_id = ? AND start_ms != ?", o.trace, o.span, o.start)
	if err != nil {
		return err
	}
	values := o.columns()
	_, err = tx.Exec("INSERT OR REPLACE INTO observations("+observationColumns+contentColumns+", prompt_id) VALUES("+
		strings.Repeat("?,", len(values))+"'')", values...)
	if err != nil {
		return err
	}
	return o.describeExperiment(tx, described)
}

// describeExperiment keeps the first name, description, dataset and metadata
// that the spans of an experiment carry. What was described already, in the same
// request, is not written again.
func (o observation) describeExperiment(tx *transaction, described map[string]bool) error {
	said := []string{o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset, o.experimentMetadata}
	key := strings.Join(said, "\x00")
	if o.experiment == "" || described[key] {
		return nil
	}
	described[key] = true
	_, err := tx.Exec(`INSERT INTO experiments(id, name, description, dataset_id, metadata) VALUES(?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET
			name = CASE name WHEN '' THEN excluded.name ELSE name END,
			description = CASE description WHEN '' THEN excluded.description ELSE description END,
			dataset_id = CASE dataset_id WHEN '' THEN excluded.dataset_id ELSE dataset_id END,
			metadata = CASE metadata WHEN '' THEN excluded.metadata ELSE metadata END`,
		said[0], said[1], said[2], said[3], said[4])
	return err
}

// ended is the end of an observation as it is written out. One that was made by
// an event may have none.
func (o observation) ended() any {
	return isoOrNull(sql.NullInt64{Int64: o.end, Valid: o.end != 0})
}

// latency is in seconds.
func (o observation) latency() any {
	return numberOrNull(float64(o.end-o.start)/1000, o.end != 0)
}

func (o observation) timeToFirstToken() any {
	return numberOrNull(float64(o.completionStart.Int64-o.start)/1000, o.completionStart.Valid)
}

// observationPage reads a page of observations, the latest start first.
func (s *Server) observationPage(c *call, contents bool, w *where, limit int) ([]observation, object, error) {
	if at, given := c.cursor(); given {
		w.add("(o.start_ms, o.trace_id, o.span_id) < (?, ?, ?)", at.At, at.Trace, at.ID)
	}
	if err := c.err(); err != nil {
		return nil, nil, err
	}
	found, err := readObservations(s.store.r, contents, "WHERE "+w.String()+
		" ORDER BY o.start_ms DESC, o.trace_id DESC, o.span_id DESC LIMIT ?", append(w.args, limit+1)...)
	meta := object{}
	found = cut(found, limit, meta, func(o observation) cursor { return cursor{At: o.start, Trace: o.trace, ID: o.span} })
	return found, meta, err
}

// listObservations answers GET /v2/observations, up to 1000 a page. A condition
// of ?filter takes the place of the parameter for its column; the other
// parameters stay.
func (s *Server) listObservations(c *call) (any, error) {
	groups := map[string]bool{"core": true, "basic": !c.query.Has("fields")}
	for _, group := range c.list("fields") { // unknown ones are passed over
		groups[group] = true
	}
	limit := c.number("limit", 50, 1, 1000)
	columns := map[string]string{"id": "o.span_id", "traceId": "o.trace_id", "name": "o.name", "type": "o.kind",
		"level": "o.level", "userId": "o.user_id", "sessionId": "o.session_id", "version": "o.version",
		"environment": "o.environment", "parentObservationId": "o.parent_id", "traceName": "o.trace_name", "tags": "o.tags"}
	var w where
	filtered := w.filter(c, columns)
	for _, key := range []string{"traceId", "name", "type", "level", "userId", "sessionId", "version", "parentObservationId"} {
		if !filtered[key] {
			w.equal(columns[key], c.query.Get(key))
		}
	}
	if !filtered["environment"] {
		w.in("o.environment", c.all("environment"))
	}
	if text := c.query.Get("isRootObservation"); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			c.blame(badQuery("isRootObservation", "Invalid input: expected true or false"))
		}
		w.add("o.is_root = " + map[bool]string{true: "1", false: "0"}[on]) // a constant, so that the partial index can be used
	}
	w.between(c, "o.start_ms", "fromStartTime", "toStartTime")
	c.blame(s.onlyV4("observations v2")) // only now: a bad query is 400 in Langfuse 3 too
	found, meta, err := s.observationPage(c, groups["io"], &w, limit)
	if err != nil {
		return nil, err
	}
	data := make([]object, len(found))
	for i, o := range found {
		data[i] = o.json(groups, c.list("expandMetadata"))
	}
	return object{"data": data, "meta": meta}, nil
}

func (o observation) json(groups map[string]bool, expanded []string) object {
	out := object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.ended(),
		"projectId": DefaultProjectID, "parentObservationId": nullable(o.parent), "type": o.kind,
		"modelId": nil, "inputPrice": nil, "outputPrice": nil, "totalPrice": nil}
	for group, fields := range map[string]object{
		"basic": {"isRootObservation": o.root, "name": o.name, "level": o.level, "statusMessage": nullable(o.statusMessage),
			"version": nullable(o.version), "environment": o.environment, "bookmarked": false, "public": o.public,
			"userId": nullable(o.user), "sessionId": nullable(o.session)},
		"time": {"completionStartTime": isoOrNull(o.completionStart), "createdAt": iso(o.created), "updatedAt": iso(o.updated)},
		"io":   {"input": orNull(o.input), "output": orNull(o.output)},
		"model": {"providedModelName": nullable(o.model), "internalModelId": nil,
			"modelParameters": jsonText(o.parameters)},
		"usage": {"usageDetails": jsonOr(o.usage, "{}"), "costDetails": jsonOr(o.cost, "{}"),
			"totalCost": numberOrNull(o.totalCost.Float64, o.totalCost.Valid)},
		"prompt": {"promptId": nil, "promptName": nullable(o.promptName),
			"promptVersion": numberOrNull(o.promptVersion.Int64, o.promptVersion.Valid)},
		"metrics":       {"latency": o.latency(), "timeToFirstToken": o.timeToFirstToken()},
		"trace_context": {"tags": jsonOr(o.tags, "[]"), "release": nullable(o.release), "traceName": nullable(o.traceName)},
	} {
		if groups[group] {
			maps.Copy(out, fields)
		}
	}
	if groups["metadata"] {
		out["metadata"] = cutMetadata(o.metadata, expanded)
	}
	return out
}

// cutMetadata shortens values of more than 200 characters, those of the named
// keys excepted.
func cutMetadata(text string, expanded []string) any {
	const most = 200
	var flat map[string]string
	if json.Unmarshal([]byte(orElse(text, "{}")), &flat) != nil {
		return jsonText(text)
	}
	for key, value := range flat {
		if len(value) > most && !slices.Contains(expanded, key) {
			runes := []rune(value)
			flat[key] = string(runes[:min(len(runes), most)])
		}
	}
	return flat
}

// getLegacyObservation answers GET /observations/{id}.
func (s *Server) getLegacyObservation(c *call) (any, error) {
	found, err := readObservations(s.store.r, true, "WHERE o.span_id = ? ORDER BY o.updated DESC, o.rowid DESC LIMIT 1", c.path("id"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, notFound("Observation not found within authorized project")
	}
	return found[0].legacyJSON(), nil
}

// legacyJSON is an observation as Langfuse 3 shows it: contents parsed, usage
// and cost in the new and in the old fields.
func (o observation) legacyJSON() object {
	usage, cost := details(o.usage), details(o.cost)
	input, output := usage.sum("input"), usage.sum("output")
	return object{
		"id": o.span, "traceId": nullable(o.trace), "projectId": DefaultProjectID, "type": o.kind, "name": nullable(o.name),
		"parentObservationId": nullable(o.parent), "environment": o.environment, "version": nullable(o.version),
		"startTime": iso(o.start), "endTime": o.ended(), "completionStartTime": isoOrNull(o.completionStart),
		"createdAt": iso(o.created), "updatedAt": iso(o.updated), "level": o.level, "statusMessage": nullable(o.statusMessage),
		"input": parsedContent(o.input), "output": parsedContent(o.output), "metadata": parsedMetadata(o.metadata),
		"model": nullable(o.model), "modelParameters": jsonText(o.parameters), "modelId": nil,
		"promptId": nil, "promptName": nullable(o.promptName),
		"promptVersion": numberOrNull(o.promptVersion.Int64, o.promptVersion.Valid),
		"usageDetails":  usage, "costDetails": cost, "unit": "TOKENS",
		"usage":        object{"unit": "TOKENS", "input": input, "output": output, "total": usage["total"]},
		"promptTokens": input, "completionTokens": output, "totalTokens": usage["total"],
		"inputPrice": nil, "outputPrice": nil, "totalPrice": nil,
		"calculatedTotalCost": numberOrNull(o.totalCost.Float64, o.totalCost.Valid),
		"latency":             o.latency(), "timeToFirstToken": o.timeToFirstToken(),
	}
}

// parsedContent is an input or output as Langfuse 3 returns it: what is JSON as
// its value, any other text as it is.
func parsedContent(text sql.NullString) any {
	if !text.Valid {
		return nil
	}
	return parsedText(text.String)
}

// parsedMetadata is metadata as Langfuse 3 returns it: texts that are JSON as
// their values.
func parsedMetadata(text string) any {
	fields, _ := parsedText(orElse(text, "{}")).(map[string]any)
	for key, v := range fields {
		if s, isText := v.(string); isText {
			fields[key] = parsedText(s)
		}
	}
	return fields
}

// numbers are those of a usage or cost object.
type numbers map[string]float64

func details(text string) numbers {
	n := numbers{}
	if json.Unmarshal([]byte(orElse(text, "{}")), &n) != nil || n == nil {
		return numbers{}
	}
	return n
}

// sum adds up the buckets of a kind: input and input_cached_tokens are input.
func (n numbers) sum(kind string) float64 {
	total := 0.0
	for _, key := range slices.Sorted(maps.Keys(n)) {
		if strings.HasPrefix(key, kind) {
			total += n[key]
		}
	}
	return total
}
