package embedded

import (
	"database/sql"
	"slices"
	"strings"
)

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

func scanTrace(rows *sql.Rows) (trace, error) {
	var t trace
	err := rows.Scan(t.columns()...)
	return t, err
}

// traceOf is what a span says of its trace: all of it where it is the root,
// what it carries as attributes of the trace, or else only that it exists.
func traceOf(sp span, o observation) trace {
	a := sp.attributes
	t := trace{id: o.trace, timestamp: o.start, created: o.created, updated: o.updated, environment: o.environment}
	isRoot := sp.parent == "" || a["langfuse.internal.as_root"] == true
	if !isRoot && !speaksOfTrace(a) {
		return t
	}
	t.name, t.user, t.session, t.release, t.version, t.tags = o.traceName, o.user, o.session, o.release, o.version, o.tags
	t.public = o.public
	t.metadata = flatText(a, "langfuse.trace.metadata")
	t.input, t.output = a.content("langfuse.trace.input"), a.content("langfuse.trace.output")
	if !isRoot {
		return t
	}
	t.name = orElse(t.name, o.name)
	if !t.input.Valid {
		t.input = o.input
	}
	if !t.output.Valid {
		t.output = o.output
	}
	return t
}

func speaksOfTrace(a attributes) bool {
	for key := range a {
		if strings.HasPrefix(key, "langfuse.trace.") || slices.Contains([]string{"langfuse.user.id", "user.id",
			"langfuse.session.id", "session.id"}, key) {
			return true
		}
	}
	return false
}

// store lays what was said of a trace over what is stored of it: each field is
// the last that was given. Tags are united, metadata is merged, the first instant
// stays.
func (t trace) store(tx *transaction) error {
	t.tags = orElse(t.tags, "[]")
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
		"bookmarked": false, "tags": jsonOr(t.tags, "[]"), "createdAt": iso(t.created), "updatedAt": iso(t.updated),
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
	t, exists, err := one(s.store.r, scanTrace, "SELECT "+traceColumns+" FROM traces WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, notFound("Trace %s not found within authorized project", clip(id, 300))
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
	out["scores"], err = collect(s.store.r, func(rows *sql.Rows) (object, error) {
		sc, err := scanScore(rows)
		return sc.legacyJSON(), err
	}, selectScores+"trace_id = ? AND trace_id != '' AND data_type != 'CORRECTION' ORDER BY timestamp DESC, id", id)
	return out, err
}

// listTraces answers GET /traces, the newest first. Without ?fields whole inputs
// and outputs are returned, whatever their size; observations, scores and metrics
// are not. Every one of the tags has to be there.
func (s *Server) listTraces(c *call) (any, error) {
	if order := orElse(c.query.Get("orderBy"), "timestamp.desc"); order != "timestamp.desc" {
		c.blame(badQuery("orderBy", "Invalid input: expected timestamp.desc"))
	}
	c.unfiltered()
	var w where
	for key, column := range map[string]string{"name": "name", "userId": "user_id", "sessionId": "session_id",
		"version": "version", "release": "release"} {
		w.equal(column, c.query.Get(key))
	}
	w.in("environment", c.all("environment"))
	for _, tag := range c.all("tags") {
		w.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)
	}
	w.between(c, "timestamp", "fromTimestamp", "toTimestamp")
	contents := len(c.list("fields")) == 0 || slices.Contains(c.list("fields"), "io")
	return s.listed(c, 50, func(rows *sql.Rows) (object, error) {
		t, err := scanTrace(rows)
		return t.json(contents), err
	}, traceColumns, "traces", &w, "timestamp DESC, id")
}
