package embedded

import (
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

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
	for _, key := range slices.Sorted(maps.Keys(numbers)) { // in one order: sums of floats depend on it
		sum += numbers[key]
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
