package embedded

import (
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// asText writes an attribute as text: a text as it is, anything else as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := encodeJSON(v)
	if err != nil { // a number that JSON cannot write
		return ""
	}
	return text
}

// objectText returns an attribute that is the text of a JSON object, or nothing.
func objectText(v any) string {
	s, isText := v.(string)
	if !isText {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &fields) != nil || fields == nil {
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
	if s, isText := a[key].(string); isText && s != "" {
		decoded, err := decodeJSON([]byte(s))
		if _, isObject := decoded.(map[string]any); err == nil && isObject {
			flatten(flat, "", decoded)
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

func flatten(flat map[string]string, prefix string, v any) {
	fields, isObject := v.(map[string]any)
	if !isObject {
		flat[prefix] = asText(v)
		return
	}
	for key, child := range fields {
		if prefix != "" {
			key = prefix + "." + key
		}
		flatten(flat, key, child)
	}
}

// observationMetadata is what was said as metadata, and besides, unless a
// Langfuse SDK sent the span, every attribute that has no field of its own.
func observationMetadata(b batch, a attributes) string {
	flat := map[string]string{}
	flattenAttribute(flat, a, "langfuse.trace.metadata")
	flattenAttribute(flat, a, "langfuse.observation.metadata")
	if !strings.HasPrefix(b.scopeName, "langfuse-sdk") {
		for key, v := range a {
			if !mapped(key) {
				flat["attributes."+key] = asText(v)
			}
		}
	}
	for key, v := range b.resource {
		flat["resourceAttributes."+key] = asText(v)
	}
	if b.scopeName != "" {
		flat["scope.name"] = b.scopeName
	}
	if b.scopeVersion != "" {
		flat["scope.version"] = b.scopeVersion
	}
	return asText(flat)
}

func mapped(key string) bool {
	if strings.HasPrefix(key, "langfuse.observation.") || strings.HasPrefix(key, "langfuse.trace.") {
		return true
	}
	return slices.Contains([]string{"langfuse.environment", "langfuse.release", "langfuse.version", "langfuse.user.id",
		"user.id", "langfuse.session.id", "session.id"}, key)
}

// tagsOf reads tags from a list or from the text of a JSON list.
func tagsOf(v any) string {
	if s, isText := v.(string); isText && s != "" {
		decoded, err := decodeJSON([]byte(s))
		if _, isList := decoded.([]any); err != nil || !isList {
			decoded = []any{s}
		}
		v = decoded
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

func wholeNumber(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// accounts reads tokens and money. Both attributes are texts of JSON objects;
// without usage the conventions of generative AI are read. A total that is not
// given is the sum of the rest.
func accounts(a attributes) (usage, cost string, total sql.NullFloat64) {
	tokens := numbersOf(a["langfuse.observation.usage_details"], true)
	if tokens == nil {
		tokens = conventionalUsage(a)
	}
	tokens = canonicalUsage(tokens)
	money := numbersOf(a["langfuse.observation.cost_details"], false)
	if len(tokens) > 0 {
		usage = asText(withTotal(tokens))
	}
	if len(money) > 0 {
		money = withTotal(money)
		cost, total = asText(money), sql.NullFloat64{Float64: money["total"], Valid: true}
	}
	return usage, cost, total
}

func withTotal(numbers map[string]float64) map[string]float64 {
	if _, given := numbers["total"]; given {
		return numbers
	}
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	numbers["total"] = sum
	return numbers
}

// numbersOf reads a JSON object of numbers that are not negative; other values
// are left out, fractions too where only whole numbers count.
func numbersOf(v any, whole bool) map[string]float64 {
	s, isText := v.(string)
	if !isText {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal([]byte(s), &fields) != nil {
		return nil
	}
	numbers := map[string]float64{}
	for key, field := range fields {
		n, isNumber := field.(float64)
		if isNumber && n >= 0 && (!whole || n == math.Trunc(n)) {
			numbers[key] = n
		}
	}
	return numbers
}

// canonicalUsage renames the shapes of OpenAI, where the keys are exactly theirs.
func canonicalUsage(tokens map[string]float64) map[string]float64 {
	for _, names := range [][2]string{{"prompt_tokens", "completion_tokens"}, {"input_tokens", "output_tokens"}} {
		input, hasInput := tokens[names[0]]
		output, hasOutput := tokens[names[1]]
		total, hasTotal := tokens["total_tokens"]
		if len(tokens) == 3 && hasInput && hasOutput && hasTotal {
			return map[string]float64{"input": input, "output": output, "total": total}
		}
	}
	return tokens
}

func conventionalUsage(a attributes) map[string]float64 {
	tokens := map[string]float64{}
	for name, keys := range map[string][]string{
		"input":  {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"},
		"output": {"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"},
	} {
		for _, key := range keys {
			if n, whole := wholeNumber(a[key]); whole && n >= 0 {
				tokens[name] = float64(n)
				break
			}
		}
	}
	return tokens
}
