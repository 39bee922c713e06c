package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// observation is a span as Langfuse stores it. Absent strings are empty. The JSON columns hold an
// object or "".
type observation struct {
	trace, span, parent                        string
	start, end                                 int64
	root                                       bool
	kind, name, level, statusMessage           string
	environment, version, release              string
	user, session, traceName                   string
	tags                                       string
	public                                     bool
	model, parameters, usage, cost             string
	totalCost                                  sql.NullFloat64
	completionStart                            sql.NullInt64
	promptID, promptName                       string // the id is always empty
	promptVersion                              sql.NullInt64
	experiment, experimentName                 string
	experimentDataset, experimentItem          string
	experimentItemVersion                      sql.NullInt64
	itemRoot                                   bool
	created, updated                           int64
	experimentDescription                      string
	experimentMetadata, experimentItemMetadata string
	metadata                                   string // flat, with string values
	experimentBits                             int64  // see experimentAttributes
	input, output, expected                    sql.NullString
}

const observationColumns = `trace_id, span_id, start_ms, end_ms, parent_id, is_root, kind, name, level, status_message,
	environment, version, release, user_id, session_id, trace_name, tags, public, model, model_parameters, usage, cost,
	total_cost, completion_start, prompt_id, prompt_name, prompt_version, experiment_id, experiment_name,
	experiment_dataset_id, experiment_item_id, experiment_item_version, is_item_root, created, updated,
	experiment_description, experiment_metadata, experiment_item_metadata, metadata, said`

const contentColumns = `, input, output, expected`

// columns returns pointers to the fields in the order of observationColumns and contentColumns,
// for reading and writing.
func (o *observation) columns() []any {
	return []any{&o.trace, &o.span, &o.start, &o.end, &o.parent, &o.root, &o.kind, &o.name, &o.level, &o.statusMessage,
		&o.environment, &o.version, &o.release, &o.user, &o.session, &o.traceName, &o.tags, &o.public, &o.model,
		&o.parameters, &o.usage, &o.cost, &o.totalCost, &o.completionStart, &o.promptID, &o.promptName,
		&o.promptVersion, &o.experiment, &o.experimentName, &o.experimentDataset, &o.experimentItem,
		&o.experimentItemVersion, &o.itemRoot, &o.created, &o.updated, &o.experimentDescription,
		&o.experimentMetadata, &o.experimentItemMetadata, &o.metadata, &o.experimentBits, &o.input, &o.output, &o.expected}
}

// experimentAttributes returns the names and values of the attributes of an experiment that a
// span can have. Their values are in other columns. Langfuse shows the attributes in the
// metadata, too. To store each value only once, bit i of experimentBits says that the span had
// attribute i.
func (o *observation) experimentAttributes() [10][2]string {
	version, root := "", o.parent
	if o.experimentItemVersion.Valid {
		version = iso(o.experimentItemVersion.Int64)
	}
	if o.itemRoot {
		root = o.span
	}
	return [10][2]string{{"id", o.experiment}, {"name", o.experimentName}, {"description", o.experimentDescription},
		{"metadata", o.experimentMetadata}, {"dataset.id", o.experimentDataset}, {"item.id", o.experimentItem},
		{"item.version", version}, {"item.metadata", o.experimentItemMetadata},
		{"item.expected_output", o.expected.String}, {"item.root_observation_id", root}}
}

// expand adds the attributes in experimentBits to the metadata and flattens the metadata of
// experiment and item. The observation must have been read with its contents.
func (o *observation) expand() {
	if o.experimentBits != 0 {
		more := map[string]string{}
		for i, attribute := range o.experimentAttributes() {
			if o.experimentBits>>i&1 == 1 {
				more["attributes."+experimentKey+attribute[0]] = attribute[1]
			}
		}
		o.metadata, o.experimentBits = mergeJSON(o.metadata, asText(more)), 0
	}
	o.experimentMetadata = flatJSON(attributes{"": o.experimentMetadata}, "")
	o.experimentItemMetadata = flatJSON(attributes{"": o.experimentItemMetadata}, "")
}

// readObservations selects observations. It reads the wide columns, which expand needs, only if
// contents is set.
func readObservations(q querier, contents bool, clause string, args ...any) ([]observation, error) {
	columns, skipped := observationColumns, strings.Count(contentColumns, ",")
	if contents {
		columns, skipped = columns+contentColumns, 0
	}
	return queryRows(q, func(rows *sql.Rows) (observation, error) {
		var o observation
		into := o.columns()
		err := rows.Scan(into[:len(into)-skipped]...)
		return o, err
	}, "SELECT "+columns+" FROM observations o "+clause, args...)
}

// write stores an observation and replaces an earlier one of the same span. Like Langfuse 3,
// ModeV3 moves an end before the start to the start and stores nothing about experiments.
func (o observation) write(tx *transaction, mode Mode) {
	if !mode.hasExperiments() {
		o.end = max(o.end, o.start)
		o.expand()
		o.experiment, o.experimentName, o.experimentDescription, o.experimentMetadata = "", "", "", ""
		o.experimentDataset, o.experimentItem, o.experimentItemMetadata = "", "", ""
		o.experimentItemVersion, o.expected, o.itemRoot = sql.NullInt64{}, sql.NullString{}, false
	}
	const columns = observationColumns + contentColumns
	if !tx.insert("observations", columns, o.columns()...) {
		tx.exec("DELETE FROM observations WHERE trace_id = ? AND span_id = ?", o.trace, o.span)
		tx.insert("observations", columns, o.columns()...)
	}
	o.describeExperiment(tx)
}

// describeExperiment stores the first non-empty name, description, dataset and metadata that the
// spans of an experiment have. It skips descriptions that it has stored in this transaction.
func (o observation) describeExperiment(tx *transaction) {
	key := strings.Join([]string{o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset,
		o.experimentMetadata}, "\x00")
	if o.experiment == "" || tx.described[key] {
		return
	}
	tx.described[key] = true
	tx.exec(`INSERT INTO experiments(id, name, description, dataset_id, metadata) VALUES(?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET
			name = CASE name WHEN '' THEN excluded.name ELSE name END,
			description = CASE description WHEN '' THEN excluded.description ELSE description END,
			dataset_id = CASE dataset_id WHEN '' THEN excluded.dataset_id ELSE dataset_id END,
			metadata = CASE metadata WHEN '' THEN excluded.metadata ELSE metadata END`,
		o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset, o.experimentMetadata)
}

// endTime returns the formatted end, or nil. Observations that earlier versions stored may have no
// end.
func (o observation) endTime() any {
	return isoOrNull(sql.NullInt64{Int64: o.end, Valid: o.end != 0})
}

// latency returns the duration in seconds, or nil without an end.
func (o observation) latency() any {
	return valueOrNull(sql.NullFloat64{Float64: float64(o.end-o.start) / 1000, Valid: o.end != 0})
}

func (o observation) timeToFirstToken() any {
	first := o.completionStart
	return valueOrNull(sql.NullFloat64{Float64: float64(first.Int64-o.start) / 1000, Valid: first.Valid})
}

// observationPage answers with a page of the observations that the conditions of the call select,
// latest start first.
func (s *Server) observationPage(c *call, contents bool, limit int,
	show func(observation) (object, error)) (any, error) {
	if at, given := c.cursor(); given {
		c.add("(o.start_ms, o.trace_id, o.span_id) < (?, ?, ?)", at.At, at.Trace, at.ID)
	}
	if c.err != nil {
		return nil, c.err
	}
	found, err := readObservations(s.store.r, contents, "WHERE "+c.sql()+
		" ORDER BY o.start_ms DESC, o.trace_id DESC, o.span_id DESC LIMIT ?", append(c.args, limit+1)...)
	if err != nil {
		return nil, err
	}
	last := func(o observation) cursor { return cursor{At: o.start, Trace: o.trace, ID: o.span} }
	return cursorPage(found, limit, object{}, last, show)
}

// listObservations answers GET /v2/observations with up to 1000 observations per page.
func (s *Server) listObservations(c *call) (any, error) {
	c.allowKeys("traceId", "name", "environment", "isRootObservation", "filter", "fromStartTime", "toStartTime", "fields",
		"expandMetadata", "limit", "cursor")
	groups := map[string]bool{"core": true, "basic": !c.query.Has("fields")}
	for _, group := range c.list("fields") { // unknown groups are ignored
		groups[group] = true
	}
	limit := c.number("limit", 50, 1000)
	c.filter(map[string]string{"id": "o.span_id", "traceId": "o.trace_id", "name": "o.name", "traceName": "o.trace_name",
		"environment": "o.environment", "tags": "o.tags"})
	c.equal("o.trace_id", c.query.Get("traceId"))
	c.equal("o.name", c.query.Get("name"))
	c.in("o.environment", c.values("environment"))
	switch c.query.Get("isRootObservation") {
	case "":
	case "true":
		c.add("o.is_root = 1") // a constant makes the partial index usable
	default:
		c.reject(invalidQuery("isRootObservation", "Invalid input: expected true"))
	}
	c.between("o.start_ms", "fromStartTime", "toStartTime")
	c.reject(s.requireV4("observations v2")) // last, because an invalid query is 400 in Langfuse 3 too
	return s.observationPage(c, groups["io"] || groups["metadata"], limit, func(o observation) (object, error) {
		return o.json(groups, c.list("expandMetadata")), nil
	})
}

func (o observation) json(groups map[string]bool, expanded []string) object {
	out := object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.endTime(),
		"projectId": DefaultProjectID, "parentObservationId": textOrNull(o.parent), "type": o.kind,
		"modelId": nil, "inputPrice": nil, "outputPrice": nil, "totalPrice": nil}
	addGroups(out, groups, map[string]object{
		"basic": {"isRootObservation": o.root, "name": o.name, "level": o.level, "statusMessage": textOrNull(o.statusMessage),
			"version": textOrNull(o.version), "environment": o.environment, "bookmarked": false, "public": o.public,
			"userId": textOrNull(o.user), "sessionId": textOrNull(o.session)},
		"time": {"completionStartTime": isoOrNull(o.completionStart), "createdAt": iso(o.created), "updatedAt": iso(o.updated)},
		"io":   {"input": valueOrNull(o.input), "output": valueOrNull(o.output)},
		"model": {"providedModelName": textOrNull(o.model), "internalModelId": nil,
			"modelParameters": jsonOrNull(o.parameters)},
		"usage": {"usageDetails": jsonOrNull(cmp.Or(o.usage, "{}")), "costDetails": jsonOrNull(cmp.Or(o.cost, "{}")),
			"totalCost": valueOrNull(o.totalCost)},
		"prompt": {"promptId": nil, "promptName": textOrNull(o.promptName),
			"promptVersion": valueOrNull(o.promptVersion)},
		"metrics": {"latency": o.latency(), "timeToFirstToken": o.timeToFirstToken()},
		"trace_context": {"tags": jsonOrNull(cmp.Or(o.tags, "[]")), "release": textOrNull(o.release),
			"traceName": textOrNull(o.traceName)},
	})
	if groups["metadata"] {
		o.expand()
		out["metadata"] = cutMetadata(o.metadata, expanded)
	}
	return out
}

// cutMetadata cuts values to 200 characters, except those of the keys in expanded.
func cutMetadata(text string, expanded []string) any {
	const maxCharacters = 200
	var flat map[string]string
	if json.Unmarshal([]byte(cmp.Or(text, "{}")), &flat) != nil {
		return jsonOrNull(text)
	}
	for key, value := range flat {
		if len(value) > maxCharacters && !slices.Contains(expanded, key) {
			runes := []rune(value)
			flat[key] = string(runes[:min(len(runes), maxCharacters)])
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

// legacyJSON returns an observation in the form of Langfuse 3, with parsed contents.
func (o observation) legacyJSON() object {
	o.expand()
	return object{
		"id": o.span, "traceId": textOrNull(o.trace), "projectId": DefaultProjectID, "type": o.kind,
		"name": textOrNull(o.name), "parentObservationId": textOrNull(o.parent), "environment": o.environment,
		"version": textOrNull(o.version), "startTime": iso(o.start), "endTime": o.endTime(), "completionStartTime": isoOrNull(o.completionStart),
		"createdAt": iso(o.created), "updatedAt": iso(o.updated), "level": o.level,
		"statusMessage": textOrNull(o.statusMessage),
		"input":         parsedContent(o.input), "output": parsedContent(o.output), "metadata": parsedMetadata(o.metadata),
		"model": textOrNull(o.model), "modelParameters": jsonOrNull(o.parameters), "modelId": nil,
		"promptId": nil, "promptName": textOrNull(o.promptName),
		"promptVersion": valueOrNull(o.promptVersion), "usageDetails": jsonOrNull(cmp.Or(o.usage, "{}")),
		"costDetails":         jsonOrNull(cmp.Or(o.cost, "{}")),
		"calculatedTotalCost": valueOrNull(o.totalCost), "latency": o.latency(), "timeToFirstToken": o.timeToFirstToken(),
	}
}

// parsedContent returns an input or output as Langfuse 3 does: JSON is decoded, any other text
// unchanged.
func parsedContent(text sql.NullString) any {
	if !text.Valid {
		return nil
	}
	return parseIfJSON(text.String)
}

// parsedMetadata returns metadata as Langfuse 3 does: strings that contain JSON are decoded.
func parsedMetadata(text string) any {
	fields, _ := parseIfJSON(cmp.Or(text, "{}")).(map[string]any)
	for key, v := range fields {
		if s, isText := v.(string); isText {
			fields[key] = parseIfJSON(s)
		}
	}
	return fields
}

// trace is a row of the table traces, merged from the events and spans of the trace.
type trace struct {
	id                  string
	timestamp           int64
	name, user, session string
	release, version    string
	environment         string
	public              bool
	tags                string // a sorted JSON list of strings
	created, updated    int64
	metadata            string // a JSON object or ""
	input, output       sql.NullString
}

const traceColumns = `id, timestamp, name, user_id, session_id, release, version, environment, public, tags, created, updated,
	metadata, input, output`

func (t *trace) columns() []any {
	return []any{&t.id, &t.timestamp, &t.name, &t.user, &t.session, &t.release, &t.version, &t.environment, &t.public, &t.tags,
		&t.created, &t.updated, &t.metadata, &t.input, &t.output}
}

// traceOf returns the trace of a span: from all fields if it is the root, from the trace
// attributes if it has any, and otherwise with the id, environment and times only.
func traceOf(o observation, a attributes) trace {
	t := trace{id: o.trace, timestamp: o.start, created: o.created, updated: o.updated, environment: o.environment,
		metadata: flatJSON(a, "langfuse.trace.metadata"), input: a.content("langfuse.trace.input"),
		output: a.content("langfuse.trace.output")}
	isRoot := o.parent == "" || a["langfuse.internal.as_root"] == true
	hasFields := o.traceName+o.user+o.session+t.metadata != "" || o.tags != "[]" || o.public ||
		t.input.Valid || t.output.Valid
	if isRoot || hasFields {
		t.name, t.user, t.session, t.release, t.version, t.tags = o.traceName, o.user, o.session, o.release, o.version, o.tags
		t.public = o.public
	}
	if isRoot {
		t.name = cmp.Or(t.name, o.name)
		t.input, t.output = cmp.Or(t.input, o.input), cmp.Or(t.output, o.output)
	}
	return t
}

// store merges the trace into the stored one: the last given value of a field counts, tags are
// united, metadata is merged, and the first timestamp stays.
func (t trace) store(tx *transaction) {
	t.tags = cmp.Or(t.tags, "[]")
	values := t.columns()
	set := func(column string) string {
		return column + " = CASE excluded." + column + " WHEN '' THEN " + column + " ELSE excluded." + column + " END, "
	}
	tx.exec("INSERT INTO traces("+traceColumns+", event_at) VALUES("+strings.Repeat("?,", len(values))+`0)
		ON CONFLICT(id) DO UPDATE SET `+set("name")+set("user_id")+set("session_id")+set("release")+set("version")+`
			public = max(public, excluded.public), updated = excluded.updated,
			environment = CASE excluded.environment WHEN 'default' THEN environment ELSE excluded.environment END,
			tags = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(tags)
				UNION SELECT value FROM json_each(excluded.tags))),
			metadata = CASE WHEN metadata = '' OR excluded.metadata = '' THEN metadata || excluded.metadata
				ELSE json_patch(metadata, excluded.metadata) END,
			input = coalesce(excluded.input, input), output = coalesce(excluded.output, output)`, values...)
}

// json returns a trace in the form of a list entry. Observations and scores are empty lists, and
// the metrics are -1, unless the caller sets them.
func (t trace) json(contents bool) object {
	out := object{"id": t.id, "externalId": nil, "timestamp": iso(t.timestamp), "name": textOrNull(t.name),
		"userId": textOrNull(t.user), "sessionId": textOrNull(t.session), "release": textOrNull(t.release),
		"version": textOrNull(t.version), "projectId": DefaultProjectID, "environment": t.environment, "public": t.public,
		"bookmarked": false, "tags": jsonOrNull(cmp.Or(t.tags, "[]")), "createdAt": iso(t.created),
		"updatedAt": iso(t.updated),
		"htmlPath":  "/project/" + DefaultProjectID + "/traces/" + t.id, "observations": []any{}, "scores": []any{},
		"latency": -1, "totalCost": -1, "metadata": object{}}
	if contents {
		out["metadata"] = parsedMetadata(t.metadata)
		out["input"], out["output"] = parsedContent(t.input), parsedContent(t.output)
	}
	return out
}

// getTrace answers GET /traces/{id} with the trace, its observations and its scores. The latency
// is the time in seconds from the first start to the last end, and the cost is the sum over the
// observations in US dollars.
func (s *Server) getTrace(c *call) (any, error) {
	id := c.path("id")
	errMissing := notFound("Trace %s not found within authorized project", textutil.Cut(id, 300))
	t, err := requireRow(s.store.r, errMissing, scanRow[trace], "SELECT "+traceColumns+" FROM traces WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	out := t.json(true)
	spans, err := readObservations(s.store.r, true, "WHERE o.trace_id = ? ORDER BY o.start_ms, o.span_id", id)
	if err != nil {
		return nil, err
	}
	observations, last, cost := make([]object, len(spans)), int64(0), 0.0
	for i, o := range spans {
		observations[i], last, cost = o.legacyJSON(), max(last, o.end), cost+o.totalCost.Float64
	}
	latency := 0.0
	if len(spans) > 0 {
		latency = float64(max(0, last-spans[0].start)) / 1000
	}
	out["observations"], out["latency"], out["totalCost"] = observations, latency, cost
	out["scores"], err = s.newestScores(score.legacyJSON, -1,
		"trace_id = ? AND trace_id != '' AND data_type != 'CORRECTION'", id)
	return out, err
}

// listTraces answers GET /traces, newest first. Without ?fields it returns complete inputs and
// outputs of any size, but no observations, scores and metrics. A trace must have all tags in
// ?tags.
func (s *Server) listTraces(c *call) (any, error) {
	c.allowKeys("name", "environment", "tags", "fromTimestamp", "toTimestamp", "orderBy", "fields", "page", "limit")
	if order := cmp.Or(c.query.Get("orderBy"), "timestamp.desc"); order != "timestamp.desc" {
		c.reject(invalidQuery("orderBy", "Invalid input: expected timestamp.desc"))
	}
	c.equal("name", c.query.Get("name"))
	c.in("environment", c.values("environment"))
	for _, tag := range c.values("tags") {
		c.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)
	}
	c.between("timestamp", "fromTimestamp", "toTimestamp")
	contents := len(c.list("fields")) == 0 || slices.Contains(c.list("fields"), "io")
	show := func(t trace) object { return t.json(contents) }
	return numberedPage(s, c, 50, scanObject(show), traceColumns, "traces", "timestamp DESC, id")
}
