package embedded

import (
	"database/sql"
	"slices"
	"strconv"
	"strings"
)

// plainTypes are the data types that the first version of the scores API shows.
const plainTypes = "'NUMERIC', 'BOOLEAN', 'CATEGORICAL', 'TEXT'"

// legacyScore is a score as the versions 1 and 2 of the API show it: booleans
// are 0 and 1 with a text beside, texts stand beside the value 0.
func (s *Server) legacyScore(sc score) object {
	out := object{
		"id": sc.id, "projectId": s.cfg.ProjectID, "name": sc.name, "value": sc.value.Float64, "dataType": sc.dataType,
		"stringValue": orNull(sc.text), "source": sc.source, "environment": sc.environment, "timestamp": iso(sc.timestamp),
		"traceId": nullable(sc.trace), "observationId": nullable(sc.observation), "sessionId": nullable(sc.session),
		"datasetRunId": nullable(sc.run), "comment": nullable(sc.comment), "metadata": jsonOr(sc.metadata, "{}"),
		"authorUserId": nullable(sc.author), "configId": nullable(sc.config), "queueId": nullable(sc.queue),
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated),
	}
	switch sc.dataType {
	case "BOOLEAN":
		out["stringValue"] = map[bool]string{true: "True", false: "False"}[sc.value.Float64 == 1]
	case "TEXT":
		delete(out, "value")
	}
	return out
}

// listLegacyScores answers GET /v2/scores, and GET /scores, which leaves out
// corrections and the scores of runs and sessions; the newest first.
func (s *Server) listLegacyScores(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	w, err := legacyScoreWhere(c)
	if err != nil {
		return reply{}, err
	}
	if !c.second() {
		w.add("trace_id != '' AND data_type IN (" + plainTypes + ")")
	}
	total, err := count(s.store.r, "SELECT count(*) FROM scores WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	found, err := collect(s.store.r, scanScore, wholeScores+w.String()+" ORDER BY timestamp DESC, id LIMIT ? OFFSET ?",
		append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	data := make([]object, len(found))
	withTrace := len(c.list("fields")) == 0 || slices.Contains(c.list("fields"), "trace")
	for i, sc := range found {
		data[i] = s.legacyScore(sc)
		if !withTrace {
			continue
		}
		if data[i]["trace"], err = s.traceOfScore(sc); err != nil {
			return reply{}, err
		}
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// second says whether the request came by the second version of the API.
func (c *call) second() bool {
	return strings.HasPrefix(c.r.URL.Path, "/api/public/v2/")
}

func (s *Server) traceOfScore(sc score) (any, error) {
	if sc.trace == "" {
		return nil, nil
	}
	found, err := readTraces(s.store.r, false, "WHERE t.id = ?", sc.trace)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := found[0]
	return object{"userId": nullable(t.user), "tags": jsonOr(t.tags, "[]"), "environment": t.environment,
		"sessionId": nullable(t.session)}, nil
}

func legacyScoreWhere(c *call) (where, error) {
	var w where
	keys := map[string]string{"name": "name", "source": "source", "dataType": "data_type", "configId": "config_id", "queueId": "queue_id"}
	if c.second() {
		for key, column := range map[string]string{"traceId": "trace_id", "sessionId": "session_id", "datasetRunId": "run_id"} {
			keys[key] = column
		}
		w.in("observation_id", c.list("observationId"))
	}
	for key, column := range keys {
		if text := c.query.Get(key); text != "" {
			w.add(column+" = ? AND "+column+" != ''", text) // the second part lets a partial index be used
		}
	}
	w.in("id", c.list("scoreIds"))
	w.in("environment", c.all("environment"))
	if text := c.query.Get("userId"); text != "" {
		w.add("trace_id IN (SELECT id FROM traces WHERE user_id = ?)", text)
	}
	for _, tag := range c.all("traceTags") {
		w.add("EXISTS (SELECT 1 FROM traces t, json_each(t.tags) j WHERE t.id = trace_id AND j.value = ?)", tag)
	}
	if err := legacyValueWhere(c, &w); err != nil {
		return w, err
	}
	return w, w.between(c, "timestamp", "fromTimestamp", "toTimestamp")
}

// legacyValueWhere compares the value where both value and operator are given.
func legacyValueWhere(c *call, w *where) error {
	value, operator := c.query.Get("value"), c.query.Get("operator")
	if operator != "" && !slices.Contains([]string{"<", ">", "<=", ">=", "!=", "="}, operator) {
		return badQuery("operator", "Invalid option: expected one of <|>|<=|>=|!=|=")
	}
	if value == "" {
		return nil
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return badQuery("value", "Invalid input: expected number")
	}
	if operator != "" {
		w.add("coalesce(value, 0) "+operator+" ?", number)
	}
	return nil
}

// getLegacyScore answers GET /scores/{id} and GET /v2/scores/{id}.
func (s *Server) getLegacyScore(c *call) (reply, error) {
	condition := "id = ?"
	if !c.second() {
		condition += " AND trace_id != '' AND data_type IN (" + plainTypes + ")"
	}
	found, err := collect(s.store.r, func(rows *sql.Rows) (object, error) {
		sc, err := scanScore(rows)
		return s.legacyScore(sc), err
	}, wholeScores+condition, c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Score not found")
	}
	return ok(found[0])
}
