package embedded

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxMetadataValue is where a value of metadata is cut unless it is asked for.
const maxMetadataValue = 200

// observationFilter maps the columns of a filter, which are also the names of
// the query parameters where such exist.
func observationFilter() map[string]string {
	return map[string]string{"id": "o.span_id", "traceId": "o.trace_id", "name": "o.name", "type": "o.kind",
		"level": "o.level", "userId": "o.user_id", "sessionId": "o.session_id", "version": "o.version",
		"release": "o.release", "environment": "o.environment", "parentObservationId": "o.parent_id",
		"statusMessage": "o.status_message", "traceName": "o.trace_name", "tags": "o.tags", "traceTags": "o.tags",
		"model": "o.model", "promptName": "o.prompt_name", "promptVersion": "o.prompt_version",
		"startTime": "o.start_ms", "endTime": "o.end_ms", "totalCost": "o.total_cost", "isRootObservation": "o.is_root",
		"latency": "(o.end_ms - o.start_ms) / 1000.0"}
}

// listObservations answers GET /v2/observations, the latest start first, up to
// 1000 a page. A span that was sent with two starts shows twice, as in Langfuse.
func (s *Server) listObservations(c *call) (reply, error) {
	groups := map[string]bool{"core": true, "basic": !c.query.Has("fields")}
	for _, group := range c.list("fields") { // unknown ones are passed over
		groups[group] = true
	}
	limit, err := c.number("limit", 50, 1, 1000)
	if err != nil {
		return reply{}, err
	}
	w, err := observationWhere(c)
	if err != nil {
		return reply{}, err
	}
	if c.query.Get("parseIoAsJson") == "true" {
		return reply{}, badQuery("parseIoAsJson", "parseIoAsJson=true is no longer supported on the v2 observations endpoint.")
	}
	if !s.cfg.Mode.events() { // only now: a bad query is 400 in Langfuse 3 too
		return reply{}, notFound("%s", onlyV4Text("observations v2"))
	}
	found, err := readObservations(s.store.r, groups["io"], "WHERE "+w.String()+
		" ORDER BY o.start_ms DESC, o.trace_id DESC, o.span_id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return reply{}, err
	}
	if found, err = s.showDoubles(found); err != nil {
		return reply{}, err
	}
	found, meta := cutPage(found, limit, object{})
	expanded := c.list("expandMetadata")
	data := make([]object, len(found))
	for i, o := range found {
		data[i] = s.observationJSON(o, groups, expanded)
	}
	return ok(object{"data": data, "meta": meta})
}

// observationWhere reads the query. A condition of ?filter takes the place of
// the parameter for its column; the other parameters stay.
func observationWhere(c *call) (where, error) {
	var w where
	columns := observationFilter()
	conditions, err := c.conditions()
	if err != nil {
		return w, err
	}
	replaced := map[string]bool{}
	for _, cond := range conditions {
		if err := w.condition(cond, columns); err != nil {
			return w, err
		}
		replaced[cond.Column] = true
	}
	for _, key := range []string{"traceId", "name", "type", "level", "userId", "sessionId", "version", "parentObservationId"} {
		if text := c.query.Get(key); text != "" && !replaced[key] {
			w.add(columns[key]+" = ?", text)
		}
	}
	if !replaced["environment"] {
		w.in("o.environment", slices.DeleteFunc(slices.Clone(c.query["environment"]), func(s string) bool { return s == "" }))
	}
	if text := c.query.Get("isRootObservation"); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return w, badQuery("isRootObservation", "Invalid input: expected true or false")
		}
		w.add("o.is_root = " + map[bool]string{true: "1", false: "0"}[on])
	}
	for key, comparison := range map[string]string{"fromStartTime": "o.start_ms >= ?", "toStartTime": "o.start_ms < ?"} {
		at, given, err := c.instant(key)
		if err != nil {
			return w, err
		}
		if given && !replaced["startTime"] {
			w.add(comparison, at)
		}
	}
	return w, w.after(c)
}

func (s *Server) observationJSON(o observation, groups map[string]bool, expanded []string) object {
	out := object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.ended(),
		"projectId": s.cfg.ProjectID, "parentObservationId": nullable(o.parent), "type": o.kind,
		"modelId": nil, "inputPrice": nil, "outputPrice": nil, "totalPrice": nil}
	add := func(group string, fields object) {
		if !groups[group] {
			return
		}
		for key, value := range fields {
			out[key] = value
		}
	}
	add("basic", object{"isRootObservation": o.root, "name": o.name, "level": o.level, "statusMessage": nullable(o.statusMessage),
		"version": nullable(o.version), "environment": o.environment, "bookmarked": false, "public": o.public,
		"userId": nullable(o.user), "sessionId": nullable(o.session)})
	add("time", object{"completionStartTime": isoOrNull(o.completionStart), "createdAt": iso(o.created), "updatedAt": iso(o.updated)})
	add("io", object{"input": orNull(o.input), "output": orNull(o.output)})
	add("model", object{"providedModelName": nullable(o.model), "internalModelId": nil, "modelParameters": jsonText(o.parameters)})
	add("usage", object{"usageDetails": jsonOr(o.usage, "{}"), "costDetails": jsonOr(o.cost, "{}"), "totalCost": numberOrNull(o.totalCost.Float64, o.totalCost.Valid)})
	add("prompt", object{"promptId": nullable(o.promptID), "promptName": nullable(o.promptName),
		"promptVersion": numberOrNull(o.promptVersion.Int64, o.promptVersion.Valid)})
	add("metrics", object{"latency": o.latency(),
		"timeToFirstToken": numberOrNull(float64(o.completionStart.Int64-o.start)/1000, o.completionStart.Valid)})
	add("trace_context", object{"tags": jsonOr(o.tags, "[]"), "release": nullable(o.release), "traceName": nullable(o.traceName)})
	if groups["metadata"] {
		out["metadata"] = cutMetadata(o.metadata, expanded)
	}
	return out
}

func jsonOr(s, fallback string) json.RawMessage {
	return json.RawMessage(orElse(s, fallback))
}

func numberOrNull[T int64 | float64](n T, valid bool) any {
	if !valid {
		return nil
	}
	return n
}

// cutMetadata shortens long values, those of the named keys excepted.
func cutMetadata(text string, expanded []string) any {
	var flat map[string]string
	if json.Unmarshal([]byte(orElse(text, "{}")), &flat) != nil {
		return jsonText(text)
	}
	for key, value := range flat {
		if len(value) > maxMetadataValue && !slices.Contains(expanded, key) {
			runes := []rune(value)
			flat[key] = strings.Clone(string(runes[:min(len(runes), maxMetadataValue)]))
		}
	}
	return flat
}
