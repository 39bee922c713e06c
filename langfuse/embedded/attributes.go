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

// origin is what the spans of one resource and scope have in common.
type origin struct {
	resource                attributes
	scopeName, scopeVersion string
}

// attributes holds string, bool, int64, float64, []any and map[string]any.
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

// text returns the first of the keys whose value is a text that is not empty.
func (a attributes) text(keys ...string) string {
	for _, key := range keys {
		if s, isText := a[key].(string); isText && s != "" {
			return s
		}
	}
	return ""
}

// content returns the first of the keys that is there, as text; the empty text
// is a content too.
func (a attributes) content(keys ...string) sql.NullString {
	for _, key := range keys {
		if v, given := a[key]; given && v != nil {
			return sql.NullString{String: asText(v), Valid: true}
		}
	}
	return sql.NullString{}
}

// first looks for each key in the span, then in the resource.
func first(a, resource attributes, keys ...string) string {
	for _, key := range keys {
		if s := cmp.Or(a.text(key), resource.text(key)); s != "" {
			return s
		}
	}
	return ""
}

// observe maps a span of a message, with its attributes, to an observation by the
// attribute names of Langfuse. Instants that are missing are replaced by the other one or
// by the receipt.
func observe(b origin, sp *tracev1.Span, a attributes, m message) observation {
	o := observation{
		trace: idText(m.kind, sp.GetTraceId()), span: idText(m.kind, sp.GetSpanId()),
		parent: idText(m.kind, sp.GetParentSpanId()), created: m.received, updated: m.received,
		name: cmp.Or(a.text("gen_ai.tool.name", "logfire.msg"), sp.GetName()),
		kind: kindOf(a), level: levelOf(a, sp.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR),
		statusMessage: cmp.Or(a.text("langfuse.observation.status_message"), sp.GetStatus().GetMessage()),
		environment:   environment(first(a, b.resource, "langfuse.environment", "deployment.environment.name", "deployment.environment")),
		release:       first(a, b.resource, "langfuse.release"),
		version:       cmp.Or(first(a, b.resource, "langfuse.version"), b.resource.text("service.version")),
		user:          a.text("langfuse.user.id", "user.id"),
		session:       a.text("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
		traceName:     a.text("langfuse.trace.name"),
		model:         a.text("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model"),
		parameters:    objectText(a.text("langfuse.observation.model.parameters")),
		tags:          tagsOf(a["langfuse.trace.tags"]),
		input:         a.content("langfuse.observation.input", "gen_ai.prompt", "input.value"),
		output:        a.content("langfuse.observation.output", "gen_ai.completion", "output.value"),
	}
	o.root = o.parent == "" || a["langfuse.internal.as_root"] == true || a["langfuse.internal.is_app_root"] == true
	o.public, _ = a["langfuse.trace.public"].(bool)
	end := millis(sp.GetEndTimeUnixNano())
	o.start = cmp.Or(millis(sp.GetStartTimeUnixNano()), end, m.received)
	o.end = cmp.Or(end, o.start)
	first := strings.Trim(a.text("langfuse.observation.completion_start_time"), `"`)
	o.completionStart.Int64, o.completionStart.Valid = parseInstant(first)
	o.usage, o.cost, o.totalCost = accounts(a)
	// A link to a prompt: generations only, both parts or none.
	version, err := strconv.ParseInt(a.content("langfuse.observation.prompt.version").String, 10, 64)
	if name := a.text("langfuse.observation.prompt.name"); o.kind == "GENERATION" && name != "" && err == nil {
		o.promptName, o.promptVersion = name, sql.NullInt64{Int64: version, Valid: true}
	}
	if o.experiment = a.text("langfuse.experiment.id"); o.experiment != "" {
		o.readExperiment(a)
	}
	o.readMetadata(b, a)
	return o
}

// experimentKey begins the attributes of an experiment.
const experimentKey = "langfuse.experiment."

func (o *observation) readExperiment(a attributes) {
	o.experimentName = a.text("langfuse.experiment.name")
	o.experimentDescription = a.text("langfuse.experiment.description")
	o.experimentDataset = a.text("langfuse.experiment.dataset.id")
	o.experimentItem = a.text("langfuse.experiment.item.id")
	o.experimentMetadata = objectOrFlat(a, "langfuse.experiment.metadata")
	o.experimentItemValues = objectOrFlat(a, "langfuse.experiment.item.metadata")
	o.expected = a.content("langfuse.experiment.item.expected_output")
	o.itemRoot = a.text("langfuse.experiment.item.root_observation_id") == o.span
	version := &o.experimentItemVersion
	version.Int64, version.Valid = parseInstant(a.text("langfuse.experiment.item.version"))
}

// kindOf tells the type of an observation: by Langfuse's own attribute, else by
// a model.
func kindOf(a attributes) string {
	given := strings.ToUpper(a.text("langfuse.observation.type"))
	switch {
	case slices.Contains([]string{"SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
		"GUARDRAIL"}, given):
		return given
	case a.text("langfuse.observation.model.name", "gen_ai.request.model", "gen_ai.response.model") != "":
		return "GENERATION"
	}
	return "SPAN"
}

func levelOf(a attributes, failed bool) string {
	level := strings.ToUpper(a.text("langfuse.observation.level"))
	switch {
	case slices.Contains([]string{"DEBUG", "DEFAULT", "WARNING", "ERROR"}, level):
		return level
	case failed:
		return "ERROR"
	}
	return "DEFAULT"
}

// environment brings a name into the form that Langfuse accepts: lower case,
// without "langfuse" in front, at most 40 of letters, digits, - and _; any other
// name is "default".
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

// objectText returns a text that is a JSON object, or nothing.
func objectText(s string) string {
	raw := []byte(s)
	if !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") || !storable(raw) {
		return ""
	}
	return s
}

// flatText gathers an attribute that is a JSON object and the attributes below
// it into one flat JSON object of texts; nested keys are joined by dots.
func flatText(a attributes, key string) string {
	flat := map[string]string{}
	flattenAttribute(flat, a, key)
	if len(flat) == 0 {
		return ""
	}
	return asText(flat)
}

func flattenAttribute(flat map[string]string, a attributes, key string) {
	if s := a.text(key); s != "" {
		if objectText(s) != "" {
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

// flatten puts the fields of objects under joined keys. An object whose joined
// keys would be many times as long as the whole text stays JSON.
func flatten(flat map[string]string, prefix string, raw json.RawMessage, budget *int) {
	fields := maps.Collect(textutil.JSONMembers(raw))
	cost := len(fields) * len(prefix)
	switch {
	case raw[0] == '{' && cost <= *budget:
		*budget -= cost
		for key, child := range fields {
			if prefix != "" {
				key = prefix + "." + key
			}
			flatten(flat, key, child, budget)
		}
	case raw[0] == '{' || raw[0] == '[':
		flat[prefix] = asText(parsedText(string(raw)))
	case raw[0] == '"':
		flat[prefix] = textutil.JSONText(raw)
	default:
		flat[prefix] = string(raw)
	}
}

// objectOrFlat returns what flatText makes flat, as it came where it is all in one
// attribute: it is made flat when it is read.
func objectOrFlat(a attributes, key string) string {
	for name := range a {
		if strings.HasPrefix(name, key+".") {
			return flatText(a, key)
		}
	}
	if s := a.text(key); strings.Trim(s, "{} \t\r\n") != "" {
		return s
	}
	return ""
}

// readMetadata reads what was said as metadata, and besides, unless a Langfuse SDK sent
// the span, every attribute that has no column of its own; said has those that have one.
func (o *observation) readMetadata(b origin, a attributes) {
	flat, said := map[string]string{}, map[string]bool{}
	others := !strings.HasPrefix(b.scopeName, "langfuse-sdk")
	for i, saying := range o.sayings() {
		if key := experimentKey + saying[0]; others && saying[1] != "" && a[key] == saying[1] {
			o.said |= 1 << i
			said[key] = true
		}
	}
	flattenAttribute(flat, a, "langfuse.trace.metadata")
	flattenAttribute(flat, a, "langfuse.observation.metadata")
	for key, v := range a {
		if others && !mapped(key) && !said[key] {
			flat["attributes."+key] = asText(v)
		}
	}
	for key, v := range b.resource {
		flat["resourceAttributes."+key] = asText(v)
	}
	for key, text := range map[string]string{"scope.name": b.scopeName, "scope.version": b.scopeVersion} {
		if text != "" {
			flat[key] = text
		}
	}
	o.metadata = asText(flat)
}

// mapped says whether an attribute has a field of its own.
func mapped(key string) bool {
	return strings.HasPrefix(key, "langfuse.observation.") || strings.HasPrefix(key, "langfuse.trace.") ||
		slices.Contains([]string{"langfuse.environment", "langfuse.release", "langfuse.version", "langfuse.user.id",
			"user.id", "langfuse.session.id", "session.id"}, key)
}

// tagsOf reads tags from a list or from the text of a JSON list.
func tagsOf(v any) string {
	if s, isText := v.(string); isText && s != "" {
		if v, isText = parsedText(s).([]any); !isText {
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
	return joined(tags)
}

// numbers are those of a usage or cost object, by kind.
type numbers map[string]float64

// accounts reads tokens and money. Both attributes are texts of JSON objects. A
// total that is not given is the sum of the rest.
func accounts(a attributes) (usage, cost string, total sql.NullFloat64) {
	tokens := numbersOf(a.text("langfuse.observation.usage_details"))
	maps.DeleteFunc(tokens, func(_ string, n float64) bool { return n != math.Trunc(n) })
	if len(tokens) > 0 {
		usage = asText(tokens.withTotal())
	}
	if money := numbersOf(a.text("langfuse.observation.cost_details")); len(money) > 0 {
		money = money.withTotal()
		cost, total = asText(money), sql.NullFloat64{Float64: money["total"], Valid: true}
	}
	return usage, cost, total
}

func (n numbers) withTotal() numbers {
	if _, given := n["total"]; given {
		return n
	}
	sum := 0.0
	for _, kind := range slices.Sorted(maps.Keys(n)) { // in one order: sums of floats depend on it
		sum += n[kind]
	}
	n["total"] = sum
	return n
}

// numbersOf reads a JSON object of numbers that are not negative; other values
// are left out.
func numbersOf(text string) numbers {
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nil
	}
	n := numbers{}
	for key, field := range fields {
		if value, isNumber := field.(float64); isNumber && value >= 0 {
			n[key] = value
		}
	}
	return n
}
