package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
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

// ruleForm is what a rule looks like; the value is read by its metric.
var ruleForm = textutil.Pattern(`^(pooled\( ?)?([^ ()<>=!"']+)( ?\))? ?(>=|<=|>|<) ?(base)? ?(.*)$`)

func parseRule(text string) (Rule, error) {
	if len(text) > maxRule {
		return Rule{}, fmt.Errorf("it is longer than %d characters", maxRule)
	}
	m := ruleForm().FindStringSubmatch(text)
	if m == nil {
		return Rule{}, errors.New("expected >=, >, <= or < between a score and a value, such as entity_f1 >= base - 0.1")
	}
	r := Rule{Text: text, Metric: m[2], Pooled: m[1] != "", Op: m[4], Relative: m[5] != "", Factor: 1}
	value := m[6]
	if closed := m[3] != ""; closed != r.Pooled || r.Pooled && slices.Contains(measures, r.Metric) {
		return r, errors.New("expected pooled(SCORE)")
	}
	var err error
	switch {
	case !r.Relative:
		r.Offset, err = r.number(value, false)
	case value != "":
		err = r.readMargin(value[0], strings.TrimSpace(value[1:]))
	}
	if err != nil {
		return r, err
	}
	return r, r.possible()
}

// readMargin reads what follows the base: a sign and a number.
func (r *Rule) readMargin(sign byte, number string) error {
	if !strings.ContainsRune("+-*", rune(sign)) {
		return fmt.Errorf("expected base, base - NUMBER, base + NUMBER or base * NUMBER, not base %c%s", sign, number)
	}
	n, err := r.number(number, sign == '*')
	switch {
	case err != nil:
		return err
	case n < 0:
		return fmt.Errorf("%c %s has two signs", sign, number)
	case sign == '*' && !r.measure():
		return errors.New("a score is compared with base - NUMBER, not with a multiple of the base")
	case sign == '*':
		r.Factor = n
	case sign == '-':
		r.Offset = -n
	default:
		r.Offset = n
	}
	return nil
}

// number reads a number with the unit that the metric allows, or a multiple of
// the base. A time has a unit: 2 might be seconds.
func (r Rule) number(text string, multiple bool) (float64, error) {
	digits, factor := text, 1.0
	latency := strings.HasPrefix(r.Metric, "latency_") && !multiple
	switch {
	case strings.HasSuffix(text, "%"):
		digits, factor = strings.TrimSuffix(text, "%"), 0.01
		if r.measure() && !multiple && !r.share() {
			return 0, fmt.Errorf("%s is not a share: a share of the items is coverage, such as coverage >= 98%%, "+
				"and 10 %% more than the base is base * 1.1", r.Metric)
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
	if r.upper() {
		return value < threshold
	}
	return value > threshold
}

// cut shortens what a message repeats of a rule.
func cut(text string) string { return textutil.Cut(text, 100) }

// Decides is an error where a rule about a score that lies from lo to hi decides
// nothing: every value keeps it, none does, or it keeps the candidate from being
// better than the base. What ParseRule can say itself, of amounts, it says.
func (r Rule) Decides(lo, hi float64, lowerIsBetter bool) error {
	if r.Relative && r.upper() != lowerIsBetter {
		better := map[bool]string{true: "less", false: "more"}[lowerIsBetter]
		return fmt.Errorf("%s of %s is better, and the rule keeps the candidate from it: did you mean %s?", better, r.name(), strings.Replace(r.Text, r.Op, opposite(r.Op), 1))
	}
	return r.within(lo, hi)
}

// opposite is the operator of the other direction.
func opposite(op string) string {
	return strings.NewReplacer("<", ">", ">", "<").Replace(op)
}

// Complement writes the rule about the score of that name which asks the same where
// the score is 1 less the rule's own.
func (r Rule) Complement(score string) string {
	bound := decimal(1 - r.Offset)
	if r.Relative {
		bound = "base"
		if r.Offset != 0 {
			bound += fmt.Sprintf(" %c %s", map[bool]rune{true: '-', false: '+'}[r.Offset > 0], decimal(math.Abs(r.Offset)))
		}
	}
	if r.Pooled {
		score = "pooled(" + score + ")"
	}
	return score + " " + opposite(r.Op) + " " + bound
}

// within is an error where every value from lo to hi keeps the rule, or none.
func (r Rule) within(lo, hi float64) error {
	what := r.name()
	if r.Relative {
		lo, hi, what = lo-hi, hi-lo, "a difference of "+what
	}
	low, high := r.holds(lo, r.Offset), r.holds(hi, r.Offset)
	if low != high {
		return nil
	}
	says := map[bool]string{true: "everything keeps it", false: "nothing can keep it"}[low]
	lies := fmt.Sprintf("lies from %s to %s", decimal(lo), decimal(hi))
	if math.IsInf(hi, 1) {
		lies = "is never below " + decimal(lo)
	}
	hint := ""
	if v := math.Abs(r.Offset); hi == 1 && v > 1 && v <= 100 {
		hint = fmt.Sprintf("; did you mean %s%%?", decimal(v))
	}
	return fmt.Errorf("%s: %s %s%s", says, what, lies, hint)
}

// possible checks the bound of a rule about an amount; what a score can be is
// not known here.
func (r Rule) possible() error {
	switch {
	case !r.measure():
		return nil
	case r.share() && r.Factor == 1:
		return r.within(0, 1)
	case r.Relative:
		return nil
	}
	return r.within(0, math.Inf(1))
}

// share reports whether the rule is about an amount that lies from 0 to 1.
func (r Rule) share() bool { return r.Metric == "coverage" || r.Metric == weightedScore }

// judge answers a rule for a candidate; Rule of the result is left to the caller.
func (r Rule) judge(base Side, result Result) (RuleResult, error) {
	switch {
	case r.measure():
		return r.judgeMeasure(&base.Summary, result.Candidate.Summary), nil
	case !r.Relative:
		if out, known := r.judgeRun(result.Candidate.Summary); known {
			return out, nil
		}
	}
	for _, s := range result.Scores {
		if r.Relative && s.Name == r.Metric {
			return r.judgeDifference(s, result), nil
		}
	}
	return RuleResult{}, unknownMetric(r.Metric, slices.Concat(scoreNames(result.Candidate.Summary), measures))
}

// judgeDifference answers a rule about a score against the base by the
// interval of the difference: pass when all of it keeps the rule, fail when none
// of it does, inconclusive when it lies on both sides or there is none. Identical
// results need none: they do not differ. An answer that no difference at all would
// not get claims one, and needs the p-value too.
func (r Rule) judgeDifference(s Score, result Result) RuleResult {
	out := RuleResult{Threshold: r.Offset, Value: s.Difference, CI95: s.CI95}
	if s.Incomparable != "" {
		return out.unclear(s.Name + " " + s.Incomparable)
	}
	if result.Identical && s.same() {
		out.CI95, out.Answer = nil, answer(r.holds(0, r.Offset))
		out.Reason = fmt.Sprintf("identical results in all %s; allowed is %s %s", textutil.Counted(result.Items, "item"), r.Op, signed(r.Offset))
		return out
	}
	why := ""
	switch {
	case s.N == 0:
		why = "it is not defined in both runs for any item"
	case !s.enough():
		out.CI95, why = nil, grouping(s)+" are too few to claim anything"
	case s.CI95 == nil:
		why = "it changed by the same in all of " + grouping(s) + ", which leaves no interval"
	}
	if r.Pooled {
		out.Value, out.CI95 = nil, nil
		why = "it has no pooled value"
		if p := s.Pooled; p != nil {
			out.Value, out.CI95 = &p.Difference, p.CI95
			why = fmt.Sprintf("there is no interval of a pooled value below %d items or clusters, or where nothing varies", stats.LeastResampled)
			if failed := s.N - p.N; failed > 0 {
				out.CI95, why = nil, leavesOut(failed, s.N, "item")
			}
		}
	}
	if out.Value == nil || out.CI95 == nil {
		return out.unclear(r.name() + ": " + why)
	}
	low, high := r.holds(out.CI95[0], r.Offset), r.holds(out.CI95[1], r.Offset)
	if out.Answer = answer(low); low != high {
		out.Answer = Inconclusive
	}
	return r.claimed(out, s)
}

// claimed says what was found in the interval, and takes back a claim that the
// p-value does not bear.
func (r Rule) claimed(out RuleResult, s Score) RuleResult {
	out.Reason = fmt.Sprintf("%s changed by %s, 95 %% interval %s to %s; allowed is %s %s",
		r.name(), signed(*out.Value), signed(out.CI95[0]), signed(out.CI95[1]), r.Op, signed(r.Offset))
	claims := out.Answer != Inconclusive && answer(r.holds(0, r.Offset)) != out.Answer
	if claims && !r.Pooled && !s.significant() {
		out.Answer = Inconclusive
		out.Reason += "; a claim needs p (Holm) of at most " + decimal(alpha)
		if s.PHolm != nil {
			out.Reason += ", and it is " + decimal(math.Round(*s.PHolm*1e4)/1e4)
		}
	}
	return out
}

// grouping says over how much a score is compared.
func grouping(s Score) string {
	if s.Clusters > 0 && s.N >= LeastItems {
		return textutil.Counted(s.Clusters, "cluster")
	}
	return textutil.Counted(s.N, "item")
}

// leavesOut says why a pooled value decides nothing where something failed: it
// would favour whoever fails on what is hard.
func leavesOut(failed, all int, noun string) string {
	return fmt.Sprintf("%d of %s failed and have no counts, which a pooled value leaves out; ask for the mean, in which they count as 0", failed, textutil.Counted(all, noun))
}

func (r Rule) name() string {
	if r.Pooled {
		return "pooled " + r.Metric
	}
	return r.Metric
}

// judgeRun answers a rule about a score of one run by itself; known is false when the
// run does not have the score.
func (r Rule) judgeRun(s outcome.Summary) (out RuleResult, known bool) {
	stat, known := s.Scores.Lookup(r.Metric)
	out = RuleResult{Threshold: r.Offset, Value: stat.FailuresAsZero, CI95: stat.CI95AsZero}
	if out.Value == nil { // a score of what was extracted alone, or of no item
		out.Value, out.CI95 = stat.Mean, stat.CI95
	}
	if r.Pooled {
		out.Value, out.CI95 = stat.Pooled, nil
	}
	if out.Value == nil {
		return out.unclear(r.name() + " is not defined for any item"), known
	}
	if stat.Unanswered > 0 { // their values could be anything
		return out.unclear(fmt.Sprintf("%s has no value for %s: the evaluator gave none", r.name(), unanswered(stat))), known
	}
	failed, all, noun := stat.Failed, stat.Failed+stat.N, "item"
	if s.Trials != nil { // pooled over all outcomes, and Failed counts items of which all did
		failed, all, noun = s.Items.Failed, s.Items.Failed+s.Items.Scored, "outcome"
	}
	if r.Pooled && failed > 0 {
		return out.unclear(r.name() + ": " + leavesOut(failed, all, noun)), known
	}
	out.Answer = answer(r.holds(*out.Value, r.Offset))
	out.Reason = fmt.Sprintf("%s is %s", r.name(), decimal(*out.Value))
	return out, known
}

// judgeMeasure answers a rule about an observed amount. Without a base nothing
// may be relative. A cost that is only partly known is a lower bound.
func (r Rule) judgeMeasure(base *outcome.Summary, cand outcome.Summary) RuleResult {
	value, bound := measured(r.Metric, cand)
	out := RuleResult{Threshold: r.Offset, Value: value}
	if r.Relative {
		of, partly := measured(r.Metric, *base)
		if of == nil || partly {
			return out.unclear(r.Metric + " of the base is not known")
		}
		out.Threshold = *of*r.Factor + r.Offset
	}
	if value == nil {
		return out.unclear(r.Metric + " is not known")
	}
	is := r.unit(*value)
	out.Answer = answer(r.holds(*value, out.Threshold))
	if bound && (out.Answer == Pass) == r.upper() {
		out.Answer, is = Inconclusive, "at least "+is+" and not known of every item"
	}
	out.Reason = fmt.Sprintf("%s is %s; allowed is %s %s", r.Metric, is, r.Op, r.unit(out.Threshold))
	return out
}

// unit writes an amount with what it is measured in.
func (r Rule) unit(v float64) string {
	switch {
	case strings.HasPrefix(r.Metric, "latency_"):
		return decimal(v) + " ms"
	case strings.HasPrefix(r.Metric, "cost"):
		return "$" + decimal(v)
	}
	return decimal(v)
}
