package embedded

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scoreFilter names the query keys of GET /v3/scores that hold lists, with
// their columns.
func scoreFilter() map[string]string {
	return map[string]string{"id": "id", "name": "name", "source": "source", "dataType": "data_type",
		"environment": "environment", "configId": "config_id", "queueId": "queue_id", "authorUserId": "author_id",
		"traceId": "trace_id", "observationId": "observation_id", "sessionId": "session_id", "experimentId": "run_id"}
}

// scoreOptions are the values of the query keys that take no others.
func scoreOptions() map[string][]string {
	return map[string][]string{"source": {"API", "ANNOTATION", "EVAL"},
		"dataType": {"NUMERIC", "CATEGORICAL", "BOOLEAN", "CORRECTION", "TEXT"}}
}

// listScores answers GET /v3/scores, newest first. Unknown query keys are 400.
func (s *Server) listScores(c *call) (reply, error) {
	if err := checkScoreQuery(c); err != nil {
		return reply{}, err
	}
	groups, err := c.fields([]string{"core", scoreDetails, scoreSubject, scoreAnnotation}, []string{"core"})
	if err != nil {
		return reply{}, err
	}
	limit, err := c.number("limit", 50, 1, 100)
	if err != nil {
		return reply{}, err
	}
	w, err := scoreWhere(c)
	if err != nil {
		return reply{}, err
	}
	found, err := collect(s.store.r, scanScore, "SELECT "+scoreColumns+" FROM scores WHERE "+w.String()+
		" ORDER BY timestamp DESC, id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return reply{}, err
	}
	meta := object{"limit": limit}
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1]
		meta["cursor"] = cursor{At: last.timestamp, ID: last.id}.String()
	}
	data := make([]object, len(found))
	for i, sc := range found {
		data[i] = s.scoreJSON(sc, groups)
	}
	return ok(object{"data": data, "meta": meta})
}

func checkScoreQuery(c *call) error {
	known := scoreFilter()
	for key := range c.query {
		if known[key] == "" && !slices.Contains([]string{"limit", "cursor", "fields", "value", "valueMin", "valueMax",
			"fromTimestamp", "toTimestamp"}, key) {
			return badData(issue{Code: "unrecognized_keys", Path: []any{}, Keys: []string{clip(key, 100)},
				Message: fmt.Sprintf("Unrecognized key: %q", clip(key, 100))})
		}
	}
	subjects := 0
	for _, key := range []string{"traceId", "sessionId", "experimentId"} {
		if len(c.list(key)) > 0 {
			subjects++
		}
	}
	if subjects > 1 {
		return badQuery("traceId", "traceId, sessionId and experimentId are mutually exclusive")
	}
	if len(c.list("observationId")) > 0 && len(c.list("traceId")) == 0 {
		return badQuery("observationId", "observationId requires traceId")
	}
	return nil
}

func scoreWhere(c *call) (where, error) {
	var w where
	for key, column := range scoreFilter() {
		values := c.list(key)
		if known := scoreOptions()[key]; known != nil {
			values = c.upper(key)
			if at := slices.IndexFunc(values, func(value string) bool { return !slices.Contains(known, value) }); at >= 0 {
				return w, badQuery(key, fmt.Sprintf("Invalid %s value: %q. Allowed: %s", key, clip(values[at], 100), strings.Join(known, ", ")))
			}
		}
		w.in(column, values)
		if len(values) > 0 && slices.Contains([]string{"trace_id", "session_id", "run_id"}, column) {
			w.add(column + " != ''") // lets the partial index be used
		}
	}
	for key, comparison := range map[string]string{"fromTimestamp": "timestamp >= ?", "toTimestamp": "timestamp < ?"} {
		at, given, err := c.instant(key)
		if err != nil {
			return w, err
		}
		if given {
			w.add(comparison, at)
		}
	}
	if err := scoreValueWhere(c, &w); err != nil {
		return w, err
	}
	at, given, err := c.cursor()
	if given {
		w.add("(timestamp, id) < (?, ?)", at.At, at.ID)
	}
	return w, err
}

// scoreValueWhere reads value, which needs one data type to be understood, and
// the bounds valueMin and valueMax, which need NUMERIC.
func scoreValueWhere(c *call, w *where) error {
	types, values := c.upper("dataType"), c.list("value")
	for key, comparison := range map[string]string{"valueMin": "value >= ?", "valueMax": "value <= ?"} {
		text := c.query.Get(key)
		if text == "" {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return badQuery(key, "Invalid input: expected number")
		}
		if len(types) != 1 || types[0] != "NUMERIC" {
			return badQuery(key, "valueMin and valueMax require dataType=NUMERIC as a single value")
		}
		w.add(comparison, n)
	}
	if len(values) == 0 {
		return nil
	}
	if len(types) != 1 {
		return badQuery("value", "value filter requires a single dataType from: NUMERIC, BOOLEAN, CATEGORICAL")
	}
	numbers := make([]float64, len(values))
	var err error
	for i, text := range values {
		switch {
		case types[0] == "NUMERIC":
			numbers[i], err = strconv.ParseFloat(text, 64)
		case types[0] == "BOOLEAN" && text == "true":
			numbers[i] = 1
		case types[0] == "BOOLEAN" && text != "false":
			err = strconv.ErrSyntax
		}
		if err != nil || math.IsInf(numbers[i], 0) || math.IsNaN(numbers[i]) {
			return badQuery("value", "Invalid value for dataType="+types[0])
		}
	}
	switch types[0] {
	case "NUMERIC", "BOOLEAN":
		w.add("value IN (SELECT value FROM json_each(?))", asText(numbers))
	case "CATEGORICAL":
		w.in("text", values)
	default:
		return badQuery("value", "value filter requires dataType to be NUMERIC, BOOLEAN, or CATEGORICAL")
	}
	return nil
}

// upper returns a list whose values count in upper case.
func (c *call) upper(key string) []string {
	values := c.list(key)
	for i := range values {
		values[i] = strings.ToUpper(values[i])
	}
	return values
}
