package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
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
	promptID, promptName                     string // no id is ever known
	promptVersion                            sql.NullInt64
	experiment, experimentName               string
	experimentDataset, experimentItem        string
	experimentItemVersion                    sql.NullInt64
	itemRoot                                 bool
	created, updated                         int64
	experimentDescription                    string
	experimentMetadata, experimentItemValues string
	metadata                                 string // flat: its values are texts
	said                                     int64  // see sayings
	input, output, expected                  sql.NullString
}

const observationColumns = `trace_id, span_id, start_ms, end_ms, parent_id, is_root, kind, name, level, status_message,
	environment, version, release, user_id, session_id, trace_name, tags, public, model, model_parameters, usage, cost,
	total_cost, completion_start, prompt_id, prompt_name, prompt_version, experiment_id, experiment_name,
	experiment_dataset_id, experiment_item_id, experiment_item_version, is_item_root, created, updated,
	experiment_description, experiment_metadata, experiment_item_metadata, metadata, said`

const contentColumns = `, input, output, expected`

// columns are the fields in the order of observationColumns and contentColumns,
// to be read into or written from.
func (o *observation) columns() []any {
	return []any{&o.trace, &o.span, &o.start, &o.end, &o.parent, &o.root, &o.kind, &o.name, &o.level, &o.statusMessage,
		&o.environment, &o.version, &o.release, &o.user, &o.session, &o.traceName, &o.tags, &o.public, &o.model,
		&o.parameters, &o.usage, &o.cost, &o.totalCost, &o.completionStart, &o.promptID, &o.promptName,
		&o.promptVersion, &o.experiment, &o.experimentName, &o.experimentDataset, &o.experimentItem,
		&o.experimentItemVersion, &o.itemRoot, &o.created, &o.updated, &o.experimentDescription,
		&o.experimentMetadata, &o.experimentItemValues, &o.metadata, &o.said, &o.input, &o.output, &o.expected}
}

// sayings are the attributes of an experiment that a span can have, whose values stand
// in other columns. Those that Langfuse shows in the metadata besides are not stored
// twice: bit i of said says that the span had the one at i.
func (o *observation) sayings() [10][2]string {
	version, root := "", o.parent
	if o.experimentItemVersion.Valid {
		version = iso(o.experimentItemVersion.Int64)
	}
	if o.itemRoot {
		root = o.span
	}
	return [10][2]string{{"id", o.experiment}, {"name", o.experimentName}, {"description", o.experimentDescription},
		{"metadata", o.experimentMetadata}, {"dataset.id", o.experimentDataset}, {"item.id", o.experimentItem}, {"item.version", version},
		{"item.metadata", o.experimentItemValues}, {"item.expected_output", o.expected.String}, {"item.root_observation_id", root}}
}

// expand puts into the metadata what said says, and makes those of the experiment flat.
// The observation must have its contents.
func (o *observation) expand() {
	if o.said != 0 {
		more := map[string]string{}
		for i, saying := range o.sayings() {
			if o.said>>i&1 == 1 {
				more["attributes."+experimentKey+saying[0]] = saying[1]
			}
		}
		o.metadata, o.said = merged(o.metadata, asText(more)), 0
	}
	o.experimentMetadata = flatText(attributes{"": o.experimentMetadata}, "")
	o.experimentItemValues = flatText(attributes{"": o.experimentItemValues}, "")
}

// readObservations selects observations; the wide columns, which expand needs, only where
// asked for.
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

// write stores one observation in place of what was sent of the same span
// before. Langfuse 3 moves an end before the start to the start, and knows nothing
// of experiments.
func (o observation) write(tx *transaction, mode Mode, described map[string]bool) error {
	if !mode.events() {
		if o.end != 0 {
			o.end = max(o.end, o.start)
		}
		o.expand()
		o.experiment, o.experimentName, o.experimentDescription, o.experimentMetadata = "", "", "", ""
		o.experimentDataset, o.experimentItem, o.experimentItemValues = "", "", ""
		o.experimentItemVersion, o.expected, o.itemRoot = sql.NullInt64{}, sql.NullString{}, false
	}
	const columns = observationColumns + contentColumns
	inserted, err := tx.insert("observations", columns, o.columns()...)
	if err == nil && !inserted {
		if _, err = tx.Exec("DELETE FROM observations WHERE trace_id = ? AND span_id = ?", o.trace, o.span); err == nil {
			_, err = tx.insert("observations", columns, o.columns()...)
		}
	}
	if err != nil {
		return err
	}
	return o.describeExperiment(tx, described)
}

// describeExperiment keeps the first name, description, dataset and metadata
// that the spans of an experiment carry. What was described already, in the same
// request, is not written again.
func (o observation) describeExperiment(tx *transaction, described map[string]bool) error {
	key := strings.Join([]string{o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset,
		o.experimentMetadata}, "\x00")
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
		o.experiment, o.experimentName, o.experimentDescription, o.experimentDataset, o.experimentMetadata)
	return err
}

// ended is the end of an observation as it is written out. One that was made by
// an event may have none.
func (o observation) ended() any {
	return isoOrNull(sql.NullInt64{Int64: o.end, Valid: o.end != 0})
}

// latency is in seconds.
func (o observation) latency() any {
	return orNull(sql.NullFloat64{Float64: float64(o.end-o.start) / 1000, Valid: o.end != 0})
}

func (o observation) timeToFirstToken() any {
	first := o.completionStart
	return orNull(sql.NullFloat64{Float64: float64(first.Int64-o.start) / 1000, Valid: first.Valid})
}

// observationPage answers with a page of observations, the latest start first.
func (s *Server) observationPage(c *call, contents bool, w *where, limit int,
	show func(observation) (object, error)) (any, error) {
	if at, given := c.cursor(); given {
		w.add("(o.start_ms, o.trace_id, o.span_id) < (?, ?, ?)", at.At, at.Trace, at.ID)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	found, err := readObservations(s.store.r, contents, "WHERE "+w.String()+
		" ORDER BY o.start_ms DESC, o.trace_id DESC, o.span_id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return nil, err
	}
	last := func(o observation) cursor { return cursor{At: o.start, Trace: o.trace, ID: o.span} }
	return paged(found, limit, object{}, last, show)
}

// listObservations answers GET /v2/observations, up to 1000 a page.
func (s *Server) listObservations(c *call) (any, error) {
	c.strictly("traceId", "name", "environment", "isRootObservation", "filter", "fromStartTime", "toStartTime", "fields",
		"expandMetadata", "limit", "cursor")
	groups := map[string]bool{"core": true, "basic": !c.query.Has("fields")}
	for _, group := range c.list("fields") { // unknown ones are passed over
		groups[group] = true
	}
	limit := c.number("limit", 50, 1000)
	var w where
	w.filter(c, map[string]string{"id": "o.span_id", "traceId": "o.trace_id", "name": "o.name", "traceName": "o.trace_name",
		"environment": "o.environment", "tags": "o.tags"})
	w.equal("o.trace_id", c.query.Get("traceId"))
	w.equal("o.name", c.query.Get("name"))
	w.in("o.environment", c.all("environment"))
	switch c.query.Get("isRootObservation") {
	case "":
	case "true":
		w.add("o.is_root = 1") // a constant, so that the partial index can be used
	default:
		c.blame(badQuery("isRootObservation", "Invalid input: expected true"))
	}
	w.between(c, "o.start_ms", "fromStartTime", "toStartTime")
	c.blame(s.onlyV4("observations v2")) // only now: a bad query is 400 in Langfuse 3 too
	return s.observationPage(c, groups["io"] || groups["metadata"], &w, limit, func(o observation) (object, error) {
		return o.json(groups, c.list("expandMetadata")), nil
	})
}

func (o observation) json(groups map[string]bool, expanded []string) object {
	out := object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.ended(),
		"projectId": DefaultProjectID, "parentObservationId": nullable(o.parent), "type": o.kind,
		"modelId": nil, "inputPrice": nil, "outputPrice": nil, "totalPrice": nil}
	choose(out, groups, map[string]object{
		"basic": {"isRootObservation": o.root, "name": o.name, "level": o.level, "statusMessage": nullable(o.statusMessage),
			"version": nullable(o.version), "environment": o.environment, "bookmarked": false, "public": o.public,
			"userId": nullable(o.user), "sessionId": nullable(o.session)},
		"time": {"completionStartTime": isoOrNull(o.completionStart), "createdAt": iso(o.created), "updatedAt": iso(o.updated)},
		"io":   {"input": orNull(o.input), "output": orNull(o.output)},
		"model": {"providedModelName": nullable(o.model), "internalModelId": nil,
			"modelParameters": jsonText(o.parameters)},
		"usage": {"usageDetails": jsonText(cmp.Or(o.usage, "{}")), "costDetails": jsonText(cmp.Or(o.cost, "{}")),
			"totalCost": orNull(o.totalCost)},
		"prompt": {"promptId": nil, "promptName": nullable(o.promptName),
			"promptVersion": orNull(o.promptVersion)},
		"metrics":       {"latency": o.latency(), "timeToFirstToken": o.timeToFirstToken()},
		"trace_context": {"tags": jsonText(cmp.Or(o.tags, "[]")), "release": nullable(o.release), "traceName": nullable(o.traceName)},
	})
	if groups["metadata"] {
		o.expand()
		out["metadata"] = cutMetadata(o.metadata, expanded)
	}
	return out
}

// cutMetadata shortens values of more than 200 characters, those of the named
// keys excepted.
func cutMetadata(text string, expanded []string) any {
	const most = 200
	var flat map[string]string
	if json.Unmarshal([]byte(cmp.Or(text, "{}")), &flat) != nil {
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

// legacyJSON is an observation as Langfuse 3 shows it, with parsed contents.
func (o observation) legacyJSON() object {
	o.expand()
	return object{
		"id": o.span, "traceId": nullable(o.trace), "projectId": DefaultProjectID, "type": o.kind, "name": nullable(o.name),
		"parentObservationId": nullable(o.parent), "environment": o.environment, "version": nullable(o.version),
		"startTime": iso(o.start), "endTime": o.ended(), "completionStartTime": isoOrNull(o.completionStart),
		"createdAt": iso(o.created), "updatedAt": iso(o.updated), "level": o.level, "statusMessage": nullable(o.statusMessage),
		"input": parsedContent(o.input), "output": parsedContent(o.output), "metadata": parsedMetadata(o.metadata),
		"model": nullable(o.model), "modelParameters": jsonText(o.parameters), "modelId": nil,
		"promptId": nil, "promptName": nullable(o.promptName),
		"promptVersion": orNull(o.promptVersion), "usageDetails": jsonText(cmp.Or(o.usage, "{}")),
		"costDetails":         jsonText(cmp.Or(o.cost, "{}")),
		"calculatedTotalCost": orNull(o.totalCost), "latency": o.latency(), "timeToFirstToken": o.timeToFirstToken(),
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
	fields, _ := parsedText(cmp.Or(text, "{}")).(map[string]any)
	for key, v := range fields {
		if s, isText := v.(string); isText {
			fields[key] = parsedText(s)
		}
	}
	return fields
}

// trace is one row of traces: what the events and spans of one trace add up to.
type trace struct {
	id                  string
	timestamp           int64
	name, user, session string
	release, version    string
	environment         string
	public              bool
	tags                string // a JSON list of texts, in order
	created, updated    int64
	metadata            string // a JSON object, or nothing
	input, output       sql.NullString
}

const traceColumns = `id, timestamp, name, user_id, session_id, release, version, environment, public, tags, created, updated,
	metadata, input, output`

func (t *trace) columns() []any {
	return []any{&t.id, &t.timestamp, &t.name, &t.user, &t.session, &t.release, &t.version, &t.environment, &t.public, &t.tags,
		&t.created, &t.updated, &t.metadata, &t.input, &t.output}
}

// traceOf is what a span says of its trace: all of it where it is the root,
// what it carries as attributes of the trace, or else only that it exists.
func traceOf(o observation, a attributes) trace {
	t := trace{id: o.trace, timestamp: o.start, created: o.created, updated: o.updated, environment: o.environment,
		metadata: flatText(a, "langfuse.trace.metadata"), input: a.content("langfuse.trace.input"),
		output: a.content("langfuse.trace.output")}
	isRoot := o.parent == "" || a["langfuse.internal.as_root"] == true
	says := o.traceName+o.user+o.session+t.metadata != "" || o.tags != "[]" || o.public || t.input.Valid || t.output.Valid
	if isRoot || says {
		t.name, t.user, t.session, t.release, t.version, t.tags = o.traceName, o.user, o.session, o.release, o.version, o.tags
		t.public = o.public
	}
	if isRoot {
		t.name = cmp.Or(t.name, o.name)
		t.input, t.output = cmp.Or(t.input, o.input), cmp.Or(t.output, o.output)
	}
	return t
}

// store lays what was said of a trace over what is stored of it: each field is
// the last that was given. Tags are united, metadata is merged, the first instant
// stays.
func (t trace) store(tx *transaction) error {
	t.tags = cmp.Or(t.tags, "[]")
	values := t.columns()
	last := func(column string) string {
		return column + " = CASE excluded." + column + " WHEN '' THEN " + column + " ELSE excluded." + column + " END, "
	}
	_, err := tx.Exec("INSERT INTO traces("+traceColumns+", event_at) VALUES("+strings.Repeat("?,", len(values))+`0)
		ON CONFLICT(id) DO UPDATE SET `+last("name")+last("user_id")+last("session_id")+last("release")+last("version")+`
			public = max(public, excluded.public), updated = excluded.updated,
			environment = CASE excluded.environment WHEN 'default' THEN environment ELSE excluded.environment END,
			tags = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(tags)
				UNION SELECT value FROM json_each(excluded.tags))),
			metadata = CASE WHEN metadata = '' OR excluded.metadata = '' THEN metadata || excluded.metadata
				ELSE json_patch(metadata, excluded.metadata) END,
			input = coalesce(excluded.input, input), output = coalesce(excluded.output, output)`, values...)
	return err
}

// json is a trace without its observations, scores and metrics, as a list shows
// it; those are empty lists and -1 until they are filled in.
func (t trace) json(contents bool) object {
	out := object{"id": t.id, "externalId": nil, "timestamp": iso(t.timestamp), "name": nullable(t.name),
		"userId": nullable(t.user), "sessionId": nullable(t.session), "release": nullable(t.release),
		"version": nullable(t.version), "projectId": DefaultProjectID, "environment": t.environment, "public": t.public,
		"bookmarked": false, "tags": jsonText(cmp.Or(t.tags, "[]")), "createdAt": iso(t.created), "updatedAt": iso(t.updated),
		"htmlPath": "/project/" + DefaultProjectID + "/traces/" + t.id, "observations": []any{}, "scores": []any{},
		"latency": -1, "totalCost": -1, "metadata": object{}}
	if contents {
		out["metadata"] = parsedMetadata(t.metadata)
		out["input"], out["output"] = parsedContent(t.input), parsedContent(t.output)
	}
	return out
}

// getTrace answers GET /traces/{id}: the trace with its observations and scores.
// Its latency is the time from the first start to the last end in seconds, its
// cost the sum of theirs in US dollars.
func (s *Server) getTrace(c *call) (any, error) {
	id := c.path("id")
	missing := notFound("Trace %s not found within authorized project", textutil.Cut(id, 300))
	t, err := mustOne(s.store.r, missing, scanned[trace], "SELECT "+traceColumns+" FROM traces WHERE id = ?", id)
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
	out["scores"], err = s.scores(score.legacyJSON, -1, "trace_id = ? AND trace_id != '' AND data_type != 'CORRECTION'", id)
	return out, err
}

// listTraces answers GET /traces, the newest first. Without ?fields whole inputs
// and outputs are returned, whatever their size; observations, scores and metrics
// are not. Every one of the tags has to be there.
func (s *Server) listTraces(c *call) (any, error) {
	c.strictly("name", "environment", "tags", "fromTimestamp", "toTimestamp", "orderBy", "fields", "page", "limit")
	if order := cmp.Or(c.query.Get("orderBy"), "timestamp.desc"); order != "timestamp.desc" {
		c.blame(badQuery("orderBy", "Invalid input: expected timestamp.desc"))
	}
	var w where
	w.equal("name", c.query.Get("name"))
	w.in("environment", c.all("environment"))
	for _, tag := range c.all("tags") {
		w.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)
	}
	w.between(c, "timestamp", "fromTimestamp", "toTimestamp")
	contents := len(c.list("fields")) == 0 || slices.Contains(c.list("fields"), "io")
	show := func(t trace) object { return t.json(contents) }
	return listed(s, c, 50, shown(show), traceColumns, "traces", &w, "timestamp DESC, id")
}
