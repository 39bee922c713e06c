package embedded

import (
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
)

// observationKind returns the type of observation that an event speaks of, or
// nothing where it speaks of none.
func observationKind(event string, body *form) string {
	kind, action, _ := strings.Cut(event, "-")
	switch {
	case kind == "observation" && (action == "create" || action == "update"):
		kind = strings.ToLower(body.text("type"))
		if !slices.Contains([]string{"span", "generation", "event"}, kind) {
			body.add("invalid_value", "type", `Invalid option: expected one of "GENERATION"|"SPAN"|"EVENT"`)
		}
		return strings.ToUpper(kind)
	case action == "update" && (kind == "span" || kind == "generation"):
	case action == "create" && slices.Contains([]string{"span", "generation", "event", "agent", "tool", "chain", "retriever",
		"evaluator", "embedding", "guardrail"}, kind):
	default:
		return ""
	}
	return strings.ToUpper(kind)
}

// readTrace reads the body of a trace-create event.
func readTrace(f *form, at, now int64) trace {
	t := trace{id: f.text("id"), timestamp: at, name: f.text("name"), user: f.text("userId"), session: f.text("sessionId"),
		release: f.text("release"), version: f.text("version"), environment: environment(f.text("environment")),
		tags: joined(append([]string{}, f.texts("tags")...)), eventAt: at, created: now, updated: now,
		metadata: nestedText(f), input: contentOf(f, "input"), output: contentOf(f, "output")}
	t.tags = unitedTags(t.tags)
	if given, said := f.instant("timestamp"); said {
		t.timestamp = given
	}
	if f.has("public") {
		t.public.Valid = true
		if json.Unmarshal(f.raw("public"), &t.public.Bool) != nil {
			f.add("invalid_type", "public", "Invalid input: expected boolean")
		}
	}
	if len([]rune(t.name)) > 1000 {
		f.add("too_big", "name", "Too big: expected string to have <=1000 characters")
	}
	return t
}

// readObservation reads the body of an event that creates or updates an
// observation. Zero values stand for what it leaves out.
func readObservation(f *form, kind string, at, now int64) observation {
	o := observation{trace: f.text("traceId"), span: f.text("id"), parent: f.text("parentObservationId"), kind: kind,
		name: f.text("name"), level: f.text("level"), statusMessage: f.text("statusMessage"), version: f.text("version"),
		environment: environment(f.text("environment")), eventAt: at, created: now, updated: now,
		input: contentOf(f, "input"), output: contentOf(f, "output"), legacyMetadata: nestedText(f), model: f.text("model")}
	if !slices.Contains([]string{"", "DEBUG", "DEFAULT", "WARNING", "ERROR"}, o.level) {
		f.add("invalid_value", "level", `Invalid option: expected one of "DEBUG"|"DEFAULT"|"WARNING"|"ERROR"`)
	}
	o.start, _ = f.instant("startTime")
	o.end, _ = f.instant("endTime")
	if first, given := f.instant("completionStartTime"); given {
		o.completionStart = sql.NullInt64{Int64: first, Valid: true}
	}
	if f.has("modelParameters") {
		o.parameters = objectText(string(f.raw("modelParameters")))
		if o.parameters == "" {
			f.add("invalid_type", "modelParameters", "Invalid input: expected record")
		}
	}
	o.readUsage(f)
	version := nullNumber(f, "promptVersion")
	o.promptName, o.promptVersion = f.text("promptName"), sql.NullInt64{Int64: int64(version.Float64), Valid: version.Valid}
	if (o.promptName != "") != (version.Float64 != 0) {
		f.add("custom", "promptName", "Invalid input: promptName and promptVersion belong together")
	}
	return o
}

// readUsage reads tokens and money from usage, usageDetails and costDetails.
func (o *observation) readUsage(f *form) {
	a := attributes{}
	for field, key := range map[string]string{"usageDetails": "usage_details", "costDetails": "cost_details"} {
		if f.has(field) {
			a["langfuse.observation."+key] = string(f.raw(field))
		}
	}
	if f.has("usage") {
		given := numbersOf(string(f.raw("usage")), false)
		tokens, money := renamed(given, map[string]string{"input": "input", "output": "output", "total": "total",
			"promptTokens": "input", "completionTokens": "output", "totalTokens": "total"}),
			renamed(given, map[string]string{"inputCost": "input", "outputCost": "output", "totalCost": "total"})
		for key, numbers := range map[string]map[string]float64{"usage_details": tokens, "cost_details": money} {
			if key = "langfuse.observation." + key; a[key] == nil && len(numbers) > 0 {
				a[key] = asText(numbers)
			}
		}
	}
	o.usage, o.cost, o.totalCost = accounts(a)
}

func renamed(numbers map[string]float64, names map[string]string) map[string]float64 {
	out := map[string]float64{}
	for from, to := range names {
		if n, given := numbers[from]; given {
			out[to] = n
		}
	}
	return out
}

// contentOf returns an input or output as text: a text as it is, anything else
// as JSON.
func contentOf(f *form, key string) sql.NullString {
	if !f.has(key) {
		return sql.NullString{}
	}
	var text string
	if json.Unmarshal(f.raw(key), &text) != nil {
		text = string(f.raw(key))
	}
	return sql.NullString{String: text, Valid: true}
}

// nestedText returns the metadata of a body as a JSON object.
func nestedText(f *form) string {
	if !f.has("metadata") {
		return ""
	}
	return asText(metadataFields(string(f.raw("metadata"))))
}
