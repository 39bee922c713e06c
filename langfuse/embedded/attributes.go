package embedded

import (
	"cmp"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"extraction-experiment/internal/textutil"
)

// spanScope holds what the spans of one resource and instrumentation scope share.
type spanScope struct {
	resource                attributes
	scopeName, scopeVersion string
}

// attributes maps names to values of type string, bool, int64, float64, []any or map[string]any.
type attributes map[string]any

func attributesOf(list []*commonv1.KeyValue) attributes {
	attrs := make(attributes, len(list))
	for _, kv := range list {
		attrs[kv.GetKey()] = valueOf(kv.GetValue())
	}
	return attrs
}

func valueOf(v *commonv1.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_BoolValue:
		return v.BoolValue
	case *commonv1.AnyValue_IntValue:
		return v.IntValue
	case *commonv1.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonv1.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(v.BytesValue)
	case *commonv1.AnyValue_ArrayValue:
		list := []any{}
		for _, element := range v.ArrayValue.GetValues() {
			list = append(list, valueOf(element))
		}
		return list
	case *commonv1.AnyValue_KvlistValue:
		return map[string]any(attributesOf(v.KvlistValue.GetValues()))
	}
	return nil
}

// text returns the value of the first key that holds a non-empty string, or "".
func (a attributes) text(keys ...string) string {
	for _, key := range keys {
		if s, isText := a[key].(string); isText && s != "" {
			return s
		}
	}
	return ""
}

// content returns the value of the first key that is present, as text. An empty string counts as
// present.
func (a attributes) content(keys ...string) sql.NullString {
	for _, key := range keys {
		if v := a[key]; v != nil {
			return sql.NullString{String: asText(v), Valid: true}
		}
	}
	return sql.NullString{}
}

// firstText looks up each key in the span, then in the resource, and returns the first non-empty
// string.
func firstText(a, resource attributes, keys ...string) string {
	for _, key := range keys {
		if s := cmp.Or(a.text(key), resource.text(key)); s != "" {
			return s
		}
	}
	return ""
}

// newObservation maps a span of a message, with its attributes, to an observation by Langfuse's
// attribute names. A missing start or end is replaced by the other one or by the time of receipt.
func newObservation(scope spanScope, span *tracev1.Span, a attributes, m message) observation {
	o := observation{
		trace: idText(m.kind, span.GetTraceId()), span: idText(m.kind, span.GetSpanId()),
		parent: idText(m.kind, span.GetParentSpanId()), created: m.received, updated: m.received,
		name:          cmp.Or(a.text("gen_ai.tool.name", "logfire.msg"), span.GetName()),
		kind:          observationType(a),
		statusMessage: cmp.Or(a.text("langfuse.observation.status_message"), span.GetStatus().GetMessage()),
		environment:   environment(firstText(a, scope.resource, "langfuse.environment", "deployment.environment.name", "deployment.environment")),
		release:       firstText(a, scope.resource, "langfuse.release"),
		version:       cmp.Or(firstText(a, scope.resource, "langfuse.version"), scope.resource.text("service.version")),
		user:          a.text("langfuse.user.id", "user.id"),
		session:       a.text("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
		traceName:     a.text("langfuse.trace.name"),
		model:         a.text("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model"),
		parameters:    objectOrEmpty(a.text("langfuse.observation.model.parameters")),
		tags:          tagsOf(a["langfuse.trace.tags"]),
		input:         a.content("langfuse.observation.input", "gen_ai.prompt", "input.value"),
		output:        a.content("langfuse.observation.output", "gen_ai.completion", "output.value"),
	}
	statusLevel := "DEFAULT"
	if span.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR {
		statusLevel = "ERROR"
	}
	o.level = a.oneOf("langfuse.observation.level", statusLevel, "DEBUG", "DEFAULT", "WARNING", "ERROR")
	o.root = o.parent == "" || a["langfuse.internal.as_root"] == true || a["langfuse.internal.is_app_root"] == true
	o.public, _ = a["langfuse.trace.public"].(bool)
	end := millis(span.GetEndTimeUnixNano())
	o.start = cmp.Or(millis(span.GetStartTimeUnixNano()), end, m.received)
	o.end = cmp.Or(end, o.start)
	completionStart := strings.Trim(a.text("langfuse.observation.completion_start_time"), `"`)
	o.completionStart.Int64, o.completionStart.Valid = parseInstant(completionStart)
	o.usage, o.cost, o.totalCost = usageAndCost(a)
	// Only a generation is linked to a prompt, and only by both name and version.
	version, err := strconv.ParseInt(a.content("langfuse.observation.prompt.version").String, 10, 64)
	if name := a.text("langfuse.observation.prompt.name"); o.kind == "GENERATION" && name != "" && err == nil {
		o.promptName, o.promptVersion = name, sql.NullInt64{Int64: version, Valid: true}
	}
	if o.experiment = a.text("langfuse.experiment.id"); o.experiment != "" {
		o.readExperiment(a)
	}
	o.readMetadata(scope, a)
	return o
}

// experimentKey is the prefix of the attributes of an experiment.
const experimentKey = "langfuse.experiment."

func (o *observation) readExperiment(a attributes) {
	o.experimentName = a.text("langfuse.experiment.name")
	o.experimentDescription = a.text("langfuse.experiment.description")
	o.experimentDataset = a.text("langfuse.experiment.dataset.id")
	o.experimentItem = a.text("langfuse.experiment.item.id")
	o.experimentMetadata = experimentJSON(a, "langfuse.experiment.metadata")
	o.experimentItemMetadata = experimentJSON(a, "langfuse.experiment.item.metadata")
	o.expected = a.content("langfuse.experiment.item.expected_output")
	o.itemRoot = a.text("langfuse.experiment.item.root_observation_id") == o.span
	version := &o.experimentItemVersion
	version.Int64, version.Valid = parseInstant(a.text("langfuse.experiment.item.version"))
}

// observationType returns the type of an observation: that of Langfuse's own attribute, or
// GENERATION if the span names a model, or SPAN.
func observationType(a attributes) string {
	inferred := "SPAN"
	if a.text("langfuse.observation.model.name", "gen_ai.request.model", "gen_ai.response.model") != "" {
		inferred = "GENERATION"
	}
	return a.oneOf("langfuse.observation.type", inferred, "SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER",
		"EVALUATOR", "EMBEDDING", "GUARDRAIL")
}

// oneOf returns the value of a key in upper case if it is one of the options, and else the default.
func (a attributes) oneOf(key, defaultValue string, options ...string) string {
	if given := strings.ToUpper(a.text(key)); slices.Contains(options, given) {
		return given
	}
	return defaultValue
}

// environment converts a name into the form that Langfuse accepts: lower case, without a leading
// "langfuse", cut to 40 bytes of letters, digits, - and _. Any other name becomes "default".
func environment(name string) string {
	name = strings.ToLower(name)
	for strings.HasPrefix(name, "langfuse") {
		name = strings.TrimPrefix(name, "langfuse")
		if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "_") {
			name = name[1:]
		}
	}
	name = name[:min(len(name), 40)]
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "default"
	}
	return name
}

// objectOrEmpty returns s if it is a JSON object, and "" otherwise.
func objectOrEmpty(s string) string {
	if !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") || !storable([]byte(s)) {
		return ""
	}
	return s
}

// flatJSON merges an attribute that is a JSON object and the attributes below its key into one
// flat JSON object of strings; nested keys are joined by dots. It returns "" if there are none.
func flatJSON(a attributes, key string) string {
	flat := map[string]string{}
	flattenAttribute(flat, a, key)
	if len(flat) == 0 {
		return ""
	}
	return asText(flat)
}

func flattenAttribute(flat map[string]string, a attributes, key string) {
	if s := a.text(key); s != "" {
		if objectOrEmpty(s) != "" {
			budget := 4*len(s) + 64<<10
			flatten(flat, "", json.RawMessage(strings.TrimSpace(s)), &budget)
		} else {
			flat["metadata"] = s
		}
	}
	for name, v := range a {
		if rest, below := strings.CutPrefix(name, key+"."); below && rest != "" {
			flat[rest] = asText(v)
		}
	}
}

// flatten stores the fields of an object under joined keys. An object whose joined keys would be
// many times as long as the whole text is stored as JSON.
func flatten(flat map[string]string, prefix string, raw json.RawMessage, budget *int) {
	fields := maps.Collect(textutil.JSONMembers(raw))
	cost := len(fields) * len(prefix)
	switch {
	case raw[0] == '{' && cost <= *budget:
		*budget -= cost
		for _, key := range slices.Sorted(maps.Keys(fields)) { // in a fixed order, because two paths can be the same key
			child := fields[key]
			if prefix != "" {
				key = prefix + "." + key
			}
			flatten(flat, key, child, budget)
		}
	case raw[0] == '{' || raw[0] == '[':
		flat[prefix] = asText(parseIfJSON(string(raw)))
	case raw[0] == '"':
		flat[prefix] = textutil.JSONText(raw)
	default:
		flat[prefix] = string(raw)
	}
}

// experimentJSON returns the result of flatJSON if the value is spread over several attributes. A
// value in a single attribute is returned unchanged, and flattened when it is read.
func experimentJSON(a attributes, key string) string {
	for name := range a {
		if strings.HasPrefix(name, key+".") {
			return flatJSON(a, key)
		}
	}
	if s := a.text(key); strings.Trim(s, "{} \t\r\n") != "" {
		return s
	}
	return ""
}

// readMetadata collects the metadata attributes, the resource attributes and the scope. Unless a
// Langfuse SDK sent the span, it adds every attribute that has no column of its own.
func (o *observation) readMetadata(scope spanScope, a attributes) {
	flat, stored := map[string]string{}, map[string]bool{}
	keepOthers := !strings.HasPrefix(scope.scopeName, "langfuse-sdk")
	for i, attribute := range o.experimentAttributes() {
		if key := experimentKey + attribute[0]; keepOthers && attribute[1] != "" && a[key] == attribute[1] {
			o.experimentBits |= 1 << i
			stored[key] = true
		}
	}
	flattenAttribute(flat, a, "langfuse.trace.metadata")
	flattenAttribute(flat, a, "langfuse.observation.metadata")
	for key, v := range a {
		if keepOthers && !hasField(key) && !stored[key] {
			flat["attributes."+key] = asText(v)
		}
	}
	for key, v := range scope.resource {
		flat["resourceAttributes."+key] = asText(v)
	}
	for key, text := range map[string]string{"scope.name": scope.scopeName, "scope.version": scope.scopeVersion} {
		if text != "" {
			flat[key] = text
		}
	}
	o.metadata = asText(flat)
}

// hasField reports whether an observation has a field for the attribute.
func hasField(key string) bool {
	return strings.HasPrefix(key, "langfuse.observation.") || strings.HasPrefix(key, "langfuse.trace.") ||
		slices.Contains([]string{"langfuse.environment", "langfuse.release", "langfuse.version", "langfuse.user.id",
			"user.id", "langfuse.session.id", "session.id"}, key)
}

// tagsOf reads tags from a list or from a string with a JSON list, and returns a JSON list.
func tagsOf(v any) string {
	if s, isText := v.(string); isText && s != "" {
		if v, isText = parseIfJSON(s).([]any); !isText {
			v = []any{s}
		}
	}
	list, _ := v.([]any)
	tags := []string{}
	for _, tag := range list {
		if s, isText := tag.(string); isText && s != "" && !slices.Contains(tags, s) {
			tags = append(tags, s)
		}
	}
	return jsonList(tags)
}

// usageAndCost reads tokens and costs, each from an attribute with a JSON object.
func usageAndCost(a attributes) (usage, cost string, total sql.NullFloat64) {
	isWhole := func(n float64) bool { return n == math.Trunc(n) }
	if tokens := numbersOf(a.text("langfuse.observation.usage_details"), isWhole); len(tokens) > 0 {
		usage = asText(tokens)
	}
	isAny := func(float64) bool { return true }
	if costs := numbersOf(a.text("langfuse.observation.cost_details"), isAny); len(costs) > 0 {
		cost, total = asText(costs), sql.NullFloat64{Float64: costs["total"], Valid: true}
	}
	return usage, cost, total
}

// numbersOf reads the numbers in a JSON object that are not negative and that keep accepts, and
// leaves out all other values. A missing total is the sum of the others.
func numbersOf(text string, keep func(float64) bool) map[string]float64 {
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nil
	}
	numbers, sum := map[string]float64{}, 0.0
	for _, key := range slices.Sorted(maps.Keys(fields)) { // in a fixed order, because sums of floats depend on it
		if value, isNumber := fields[key].(float64); isNumber && value >= 0 && keep(value) {
			numbers[key], sum = value, sum+value
		}
	}
	if _, given := numbers["total"]; !given && len(numbers) > 0 {
		numbers["total"] = sum
	}
	return numbers
}
