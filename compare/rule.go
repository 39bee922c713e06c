package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/nearest"
	"extraction-experiment/internal/printable"
)

// Rule is one condition of a gate:
//
//	entity_f1 >= base - 0.02        a score against the base: the 95 % interval decides
//	entity_f1 > base                better than the base, shown
//	pooled(entity_f1) >= base - 1%  the pooled value, by its bootstrap interval; where items failed, none
//	relationship_f1 >= 0.6          a score by itself: the mean decides, failures as 0
//	coverage >= 99%                 share of the items that did not fail
//	weighted_score >= 0.5           that of answers about a document, as it is
//	failures <= 2                   items that failed
//	cost <= base * 1.1              USD; also cost_per_item
//	latency_p95 <= 2s               also latency_p50, latency_mean, latency_max
//
// The operators are >=, >, <= and <; numbers that differ by no more than Epsilon
// are equal. Shares and multiples may end in %, a time ends in ms or s, a cost may
// begin with $. A bound that no amount can meet, or that all do, is an error; for
// scores see Decides.
type Rule struct {
	Text     string
	Metric   string
	Pooled   bool
	Op       string
	Relative bool    // against the base
	Factor   float64 // of the base; 1 for a score
	Offset   float64 // added to it, or the number itself; latency in milliseconds
}

// measures are what can be asked of a run beside its scores: observed amounts,
// compared as they are.
var measures = []string{"coverage", "failures", "cost", "cost_per_item", "latency_mean", "latency_p50", "latency_p95", "latency_max", weightedScore}

// weightedScore is called as in the summary.
const weightedScore = "weighted_score"

// maxRule bounds the text of a rule.
const maxRule = 500

// ParseRule reads a rule. Errors say what was expected.
func ParseRule(text string) (Rule, error) {
	text = strings.Join(strings.Fields(text), " ")
	r, err := parseRule(text)
	if err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", cut(text), err)
	}
	return r, nil
}

func parseRule(text string) (Rule, error) {
	if len(text) > maxRule {
		return Rule{}, fmt.Errorf("it is longer than %d characters", maxRule)
	}
	at := strings.IndexAny(text, "<>=!")
	if at <= 0 {
		return Rule{}, fmt.Errorf("expected a score, an operator and a value, such as entity_f1 >= base - 0.1")
	}
	r := Rule{Text: text, Metric: strings.TrimSpace(text[:at]), Factor: 1}
	rest := text[at:]
	end := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune("<>=!", c) })
	if end < 0 {
		return r, fmt.Errorf("expected a value behind %s", rest)
	}
	r.Op = rest[:end]
	if !slices.Contains([]string{">=", ">", "<=", "<"}, r.Op) {
		return r, fmt.Errorf("expected >=, >, <= or <, not %s", r.Op)
	}
	if inner, ok := strings.CutPrefix(r.Metric, "pooled("); ok {
		r.Metric, r.Pooled = strings.TrimSpace(strings.TrimSuffix(inner, ")")), true
		if !strings.HasSuffix(inner, ")") || slices.Contains(measures, r.Metric) {
			return r, fmt.Errorf("expected pooled(SCORE)")
		}
	}
	if r.Metric == "" || strings.ContainsAny(r.Metric, " ()\"'") {
		return r, fmt.Errorf("%q is no name of a score", r.Metric)
	}
	return r.value(strings.TrimSpace(rest[end:]))
}

// value reads what stands behind the operator.
func (r Rule) value(text string) (Rule, error) {
	rest, relative := strings.CutPrefix(text, "base")
	if !relative {
		var err error
		if r.Offset, err = r.number(text, false); err != nil {
			return r, err
		}
		return r, r.possible()
	}
	r.Relative = true
	rest = strings.TrimSpace(rest)
	if rest == "" {
		return r, nil
	}
	sign, number := rest[0], strings.TrimSpace(rest[1:])
	if !strings.ContainsRune("+-*", rune(sign)) {
		return r, fmt.Errorf("expected base, base - NUMBER, base + NUMBER or base * NUMBER, not base %s", rest)
	}
	n, err := r.number(number, sign == '*')
	switch {
	case err != nil:
		return r, err
	case n < 0:
		return r, fmt.Errorf("%s has two signs", rest)
	case sign == '*' && !r.measure():
		return r, fmt.Errorf("a score is compared with base - NUMBER, not with a multiple of the base")
	case sign == '*':
		r.Factor = n
	case sign == '-':
		r.Offset = -n
	default:
		r.Offset = n
	}
	return r, r.possible()
}

// number reads a number with the unit that the metric allows, or a multiple of
// the base. A time has a unit: 2 might be seconds.
func (r Rule) number(text string, multiple bool) (float64, error) {
	digits, factor := text, 1.0
	latency := strings.HasPrefix(r.Metric, "latency_") && !multiple
	switch {
	case strings.HasSuffix(text, "%"):
		digits, factor = strings.TrimSuffix(text, "%"), 0.01
		if err := r.percent(multiple); err != nil {
			return 0, err
		}
	case latency && strings.HasSuffix(text, "ms"):
		digits = strings.TrimSuffix(text, "ms")
	case latency && strings.HasSuffix(text, "s"):
		digits, factor = strings.TrimSuffix(text, "s"), 1000
	case strings.HasPrefix(r.Metric, "cost"):
		digits = strings.TrimPrefix(text, "$")
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1e12 || strings.ContainsAny(digits, "xXpP_") {
		return 0, fmt.Errorf("expected a number or base, not %q", text)
	}
	if latency && digits == text && v != 0 {
		return 0, fmt.Errorf("expected a time with its unit, such as %ss or %sms", text, text)
	}
	if factor == 0.01 {
		return v / 100, nil // 2 % is 0.02 to the last digit
	}
	return v * factor, nil
}

func (r Rule) measure() bool { return !r.Pooled && slices.Contains(measures, r.Metric) }

// upper reports whether the rule keeps a value from growing.
func (r Rule) upper() bool { return r.Op == "<=" || r.Op == "<" }

// holds compares two numbers with the operator. Up to Epsilon they are equal:
// 0.78 - 0.8 is a little less than -0.02.
func (r Rule) holds(value, threshold float64) bool {
	if math.Abs(value-threshold) <= Epsilon {
		return r.Op == ">=" || r.Op == "<="
	}
	switch r.Op {
	case ">=", ">":
		return value > threshold
	}
	return value < threshold
}

// unknown is the error of a rule about a score that is not there.
func (r Rule) unknown(scores []string) error {
	names := slices.Concat(scores, measures)
	return fmt.Errorf("%w%s", &MetricError{Metric: r.Metric, Known: names}, nearest.Hint(r.Metric, names))
}

// cut shortens what a message repeats of a rule.
func cut(text string) string { return printable.Cut(text, 100) }
