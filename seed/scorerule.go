package seed

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/langfuse"
)

// ScoreRule is a condition on a score: "validated>=1", "quality>0.8",
// "verdict=correct".
type ScoreRule struct {
	Name     string
	Operator string // >=, <=, >, <, =, !=
	Value    string
	number   float64
	isNumber bool
}

var operators = []string{">=", "<=", "!=", "==", ">", "<", "="}

// ParseScoreRule reads NAME, operator and VALUE: a number, true or false (which
// are 1 and 0), or with = and != a text. The name alone is "NAME>=1".
func ParseScoreRule(text string) (ScoreRule, error) {
	at := strings.IndexAny(text, "<>=!")
	if at < 0 {
		text, at = text+">=1", len(text)
	}
	r := ScoreRule{Name: strings.TrimSpace(text[:at])}
	value := strings.TrimLeft(text[at:], "<>=!")
	r.Operator, r.Value = strings.TrimSuffix(text[at:], value), strings.TrimSpace(value)
	if r.Operator != "" && !slices.Contains(operators, r.Operator) {
		meant := map[string]string{"=>": ">=", "=<": "<=", "=!": "!=", "<>": "!=", "===": "=", "!": "!="}[r.Operator]
		return ScoreRule{}, malformed("score %q: %s is no operator (there are %s): write '%s%s%s'", text, r.Operator, strings.Join(operators, " "), r.Name, cmp.Or(meant, ">="), r.Value)
	}
	if r.Operator == "==" {
		r.Operator = "="
	}
	if r.Name == "" || r.Operator == "" || r.Value == "" {
		return ScoreRule{}, malformed("score %q: expected such as 'validated>=1' or 'verdict=correct'", text)
	}
	if strings.Contains(r.Name, ",") {
		return ScoreRule{}, malformed("score %q: Langfuse cannot be asked for a name with a comma", text)
	}
	number, err := strconv.ParseFloat(r.Value, 64)
	r.number, r.isNumber = number, err == nil && number-number == 0
	switch r.Value {
	case "true":
		r.number, r.isNumber = 1, true
	case "false":
		r.number, r.isNumber = 0, true
	}
	if !r.isNumber && r.Operator != "=" && r.Operator != "!=" {
		return ScoreRule{}, malformed("score %q: %s compares numbers, %q is none", text, r.Operator, r.Value)
	}
	return r, nil
}

// String returns the rule as it is written.
func (r ScoreRule) String() string { return r.Name + r.Operator + r.Value }

// Holds reports whether a score is of the rule's name and satisfies it. Numbers
// and booleans compare as numbers, texts as they are; a score of another kind
// satisfies nothing.
func (r ScoreRule) Holds(s langfuse.Score) bool {
	if s.Name != r.Name {
		return false
	}
	if number, ok := s.Value.Number(); ok && r.isNumber {
		switch r.Operator {
		case ">=":
			return number >= r.number
		case "<=":
			return number <= r.number
		case ">":
			return number > r.number
		case "<":
			return number < r.number
		case "!=":
			return number != r.number
		}
		return number == r.number
	}
	text, ok := s.Value.Text()
	if !ok || r.Operator != "=" && (r.Operator != "!=" || r.isNumber) {
		return false
	}
	return (text == r.Value) == (r.Operator == "=")
}

// narrowed asks the server for no more scores than needed, where it can say so.
func (r ScoreRule) narrowed(q langfuse.ScoresQuery) langfuse.ScoresQuery {
	q.Names = []string{r.Name}
	if r.isNumber && r.Operator == ">=" {
		q.Min = &r.number
	}
	return q
}
