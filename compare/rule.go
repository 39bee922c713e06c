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
//	pooled(entity_f1) >= base - 0.1 the pooled value, by its bootstrap interval; none if items failed
//	relationship_f1 >= 0.6          a score of one run: the mean decides, failures count as 0
//	coverage >= 99%                 share of the items that did not fail
//	weighted_score >= 0.5           the score of answers about a document, as it is
//	failures <= 2                   number of failed items
//	cost <= base * 1.1              USD; also cost_per_item
//	latency_p95 <= 2s               also latency_p50, latency_mean, latency_max
//
// The operators are >=, >, <= and <. Numbers that differ by at most Epsilon are equal. Shares and
// multiples may end in %, but not what is added to the base; a time ends in ms or s, a cost may
// begin with $. A bound on an amount that no value meets or all values meet is an error; Decides
// checks bounds on scores. Make a Rule with ParseRule, since Gate.Check refuses others.
type Rule struct {
	Text     string
	Metric   string
	Pooled   bool
	Op       string
	Relative bool    // compared with the base
	Factor   float64 // the base is multiplied by it; 1 for a score
	Offset   float64 // added to the base, or the bound itself; latency in milliseconds
}

// measures are the names of observed amounts, which rules can compare besides scores.
var measures = []string{"coverage", "failures", "cost", "cost_per_item", "latency_mean", "latency_p50", "latency_p95", "latency_max", weightedScore}

// weightedScore is the name of the score in the summary of answers.
const weightedScore = "weighted_score"

// maxRule is the most bytes of a rule.
const maxRule = 500

// ParseRule reads a rule. An error says what was expected. The Text of the result has single
// spaces.
func ParseRule(text string) (Rule, error) {
	text = strings.Join(strings.Fields(text), " ")
	r, err := parseRule(text)
	if err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", cut(text), err)
	}
	return r, nil
}

// ruleForm matches a rule up to its value, whose form depends on the metric.
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
		err = r.readMargin(value)
	}
	if err != nil {
		return r, err
	}
	return r, r.checkAmount()
}

// readMargin reads the sign and the number after base. The text is not empty.
func (r *Rule) readMargin(text string) error {
	sign, number := text[0], strings.TrimSpace(text[1:])
	if !strings.ContainsRune("+-*", rune(sign)) {
		return fmt.Errorf("expected base, base - NUMBER, base + NUMBER or base * NUMBER, not base %s", text)
	}
	n, err := r.number(number, sign == '*')
	switch {
	case err != nil:
		return err
	case n < 0:
		return fmt.Errorf("%c %s has two signs", sign, number)
	case sign == '*' && !r.isMeasure():
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

// number reads a number with a unit that the metric allows, or, if multiple is true, a factor of
// the base. A time needs a unit, since 2 could be seconds or milliseconds.
func (r Rule) number(text string, multiple bool) (float64, error) {
	digits, factor := text, 1.0
	latency := strings.HasPrefix(r.Metric, "latency_") && !multiple
	switch {
	case strings.HasSuffix(text, "%"):
		digits, factor = strings.TrimSuffix(text, "%"), 0.01
		if r.isMeasure() && !multiple && !r.isShare() {
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
	if factor == 0.01 && r.Relative && !multiple {
		return 0, fmt.Errorf("%s could be a share of the base: write %s, the difference itself", text, decimal(v/100))
	}
	if factor == 0.01 {
		return v / 100, nil // 2 % is 0.02 to the last digit
	}
	return v * factor, nil
}

func (r Rule) isMeasure() bool { return !r.Pooled && slices.Contains(measures, r.Metric) }

// isUpper reports whether the rule is an upper bound.
func (r Rule) isUpper() bool { return r.Op == "<=" || r.Op == "<" }

// holds compares two numbers with the operator. Numbers that differ by at most Epsilon are equal:
// 0.78 - 0.8 is a little less than -0.02.
func (r Rule) holds(value, threshold float64) bool {
	if math.Abs(value-threshold) <= Epsilon {
		return r.Op == ">=" || r.Op == "<="
	}
	if r.isUpper() {
		return value < threshold
	}
	return value > threshold
}

// cut shortens the text of a rule for a message.
func cut(text string) string { return textutil.Cut(text, 100) }

// Decides returns an error if a rule about a score from lo to hi decides nothing: every value
// keeps it, none does, or it keeps the candidate from being better than the base. For amounts,
// ParseRule returns such errors.
func (r Rule) Decides(lo, hi float64, lowerIsBetter bool) error {
	if r.Relative && r.isUpper() != lowerIsBetter {
		return r.wrongWay(lowerIsBetter)
	}
	return r.checkBound(lo, hi)
}

// wrongWay is the error of a rule that keeps the candidate from being better than the base.
func (r Rule) wrongWay(lowerIsBetter bool) error {
	better := map[bool]string{true: "less", false: "more"}[lowerIsBetter]
	return fmt.Errorf("%s of %s is better, and the rule keeps the candidate from it: did you mean %s?", better, r.name(), strings.Replace(r.Text, r.Op, oppositeOp(r.Op), 1))
}

// oppositeOp returns the operator of the other direction.
func oppositeOp(op string) string {
	return strings.NewReplacer("<", ">", ">", "<").Replace(op)
}

// Complement returns the text of the equivalent rule about another score that always is 1 minus
// the score of r.
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
	return score + " " + oppositeOp(r.Op) + " " + bound
}

// checkBound returns an error if all values from lo to hi keep the rule, or none does.
func (r Rule) checkBound(lo, hi float64) error {
	what := r.name()
	if r.Relative {
		lo, hi, what = lo-hi, hi-lo, "a difference of "+what
	}
	low, high := r.holds(lo, r.Offset), r.holds(hi, r.Offset)
	if low != high {
		return nil
	}
	problem := map[bool]string{true: "everything keeps it", false: "nothing can keep it"}[low]
	span := fmt.Sprintf("lies from %s to %s", decimal(lo), decimal(hi))
	if math.IsInf(hi, 1) {
		span = "is never below " + decimal(lo)
	}
	hint := ""
	if v := math.Abs(r.Offset); hi == 1 && v > 1 && v <= 100 {
		share := decimal(v) + "%"
		if r.Relative {
			share = decimal(v / 100)
		}
		hint = fmt.Sprintf("; did you mean %s?", share)
	}
	return fmt.Errorf("%s: %s %s%s", problem, what, span, hint)
}

// checkAmount checks the bound of a rule about an amount. For a score, the range is not known
// here. A bound that leaves room to be better, like cost >= base * 0.5, is accepted.
func (r Rule) checkAmount() error {
	worse := 1.0 // the direction in which the amount gets worse
	if r.isShare() {
		worse = -1
	}
	switch {
	case !r.isMeasure():
		return nil
	case r.Relative && r.isUpper() == r.isShare() && (r.Factor-1)*worse >= 0 && r.Offset*worse >= 0:
		return r.wrongWay(!r.isShare())
	case r.isShare() && r.Factor == 1:
		return r.checkBound(0, 1)
	}
	return r.checkBound(0, math.Inf(1))
}

// isShare reports whether the rule is about an amount from 0 to 1.
func (r Rule) isShare() bool { return r.Metric == "coverage" || r.Metric == weightedScore }

// judge judges a rule for a candidate. The caller sets Rule of the result.
func (r Rule) judge(base Side, result Result) (RuleResult, error) {
	i := slices.IndexFunc(result.Scores, func(s Score) bool { return s.Name == r.Metric }) // of either run
	switch out, known := r.judgeScore(result.Candidate.Summary); {
	case r.isMeasure():
		return r.judgeMeasure(&base.Summary, result.Candidate.Summary), nil
	case r.Relative && i >= 0:
		return r.judgeDifference(result.Scores[i], result), nil
	case !r.Relative && (known || i >= 0):
		return out, nil
	}
	return RuleResult{}, unknownMetricError(r.Metric, slices.Concat(scoreNames(result.Candidate.Summary), measures))
}

// judgeDifference judges a rule about a score against the base by the interval of the difference:
// it passes if the whole interval keeps the rule, fails if nothing in the interval does, and is
// inconclusive otherwise or without an interval. Identical results have a difference of 0 and
// need no interval. An answer that a difference of 0 would not get is a claim; checkClaim demands
// its p-value.
func (r Rule) judgeDifference(s Score, result Result) RuleResult {
	out := RuleResult{Threshold: &r.Offset, Value: s.Difference, CI95: s.CI95}
	if s.Incomparable != "" {
		return out.inconclusive(s.Name + " " + s.Incomparable)
	}
	if result.Identical && s.same() {
		out.CI95, out.Answer = nil, answer(r.holds(0, r.Offset))
		failed := map[bool]string{true: ", all of which failed"}[result.Candidate.Summary.Items.Scored == 0]
		out.Reason = fmt.Sprintf("identical results in all %s%s; allowed is %s %s", textutil.Counted(result.Items, "item"), failed, r.Op, signed(r.Offset))
		return out
	}
	why := ""
	switch {
	case s.N == 0:
		why = "it is not defined in both runs for any item"
	case !s.hasEnough():
		out.CI95, why = nil, sampleText(s)+", too few to claim anything"
	case s.CI95 == nil:
		why = "it changed by the same in all of " + sampleText(s) + ", which leaves no interval"
	}
	if r.Pooled {
		out.Value, out.CI95 = nil, nil
		why = "it has no pooled value"
		if p := s.Pooled; p != nil {
			out.Value, out.CI95 = &p.Difference, p.CI95
			why = fmt.Sprintf("there is no interval of a pooled value below %d items or clusters, or if nothing varies", stats.LeastResampled)
			if failed := s.N - p.N; failed > 0 {
				out.CI95, why = nil, leftOutText(failed, s.N, "item")
			}
		}
	}
	if out.Value == nil || out.CI95 == nil {
		return out.inconclusive(r.name() + ": " + why)
	}
	low, high := r.holds(out.CI95[0], r.Offset), r.holds(out.CI95[1], r.Offset)
	if out.Answer = answer(low); low != high {
		out.Answer = Inconclusive
	}
	return r.checkClaim(out, s)
}

// checkClaim sets the reason, and makes the result inconclusive if it claims a difference that is
// not significant.
func (r Rule) checkClaim(out RuleResult, s Score) RuleResult {
	out.Reason = fmt.Sprintf("%s changed by %s, 95 %% interval %s to %s; allowed is %s %s",
		r.name(), signed(*out.Value), signed(out.CI95[0], r.Offset), signed(out.CI95[1], r.Offset), r.Op, signed(r.Offset))
	claims := out.Answer != Inconclusive && answer(r.holds(0, r.Offset)) != out.Answer
	if claims && !r.Pooled && !s.significant() {
		out.Answer = Inconclusive
		out.Reason += "; a claim needs p (Holm) of at most " + decimal(alpha)
		if s.PHolm != nil {
			out.Reason += ", and it is " + digits(*s.PHolm, 3, alpha)
		}
	}
	return out
}

// sampleText returns the number of items or clusters of a score.
func sampleText(s Score) string {
	if s.Clusters > 0 && s.N >= LeastItems {
		return textutil.Counted(s.Clusters, "cluster")
	}
	return textutil.Counted(s.N, "item")
}

// leftOutText is the reason why a pooled value decides nothing if outcomes failed: it would
// favour a run that fails on hard items.
func leftOutText(failed, all int, noun string) string {
	return textutil.Countf("%d of %s failed and have no counts, which a pooled value leaves out; ask for the mean",
		failed, textutil.Counted(all, noun))
}

func (r Rule) name() string {
	if r.Pooled {
		return "pooled " + r.Metric
	}
	return r.Metric
}

// judgeScore judges a rule about a score of one run. known is false if the run does not have the
// score.
func (r Rule) judgeScore(s outcome.Summary) (out RuleResult, known bool) {
	stat, known := s.Scores.Lookup(r.Metric)
	out = RuleResult{Threshold: &r.Offset, Value: stat.FailuresAsZero, CI95: stat.CI95AsZero}
	if out.Value == nil { // a score of extracted outputs only, or undefined for all items
		out.Value, out.CI95 = stat.Mean, stat.CI95
	}
	if r.Pooled {
		out.Value, out.CI95 = stat.Pooled, nil
	}
	if out.Value == nil {
		return out.inconclusive(r.name() + " is not defined for any item"), known
	}
	if stat.Unanswered > 0 { // the missing values could be anything
		reason := fmt.Sprintf("%s has no value for %s: the evaluator gave none", r.name(), unansweredText(stat, s))
		return out.inconclusive(reason), known
	}
	failed, all, noun := stat.Failed, stat.Failed+stat.N, "item"
	// Pooled values are over outcomes, but stat.Failed counts items whose trials all failed. Every
	// outcome has counts of error, and a score of extracted outputs only leaves failures out.
	if s.Trials != nil && r.Metric != outcome.ErrorScore && stat.FailuresAsZero != nil {
		failed, all, noun = s.Items.Failed, s.Items.Failed+s.Items.Scored, "outcome"
	}
	if r.Pooled && failed > 0 {
		return out.inconclusive(r.name() + ": " + leftOutText(failed, all, noun)), known
	}
	out.Answer = answer(r.holds(*out.Value, r.Offset))
	out.Reason = fmt.Sprintf("%s is %s", r.name(), decimal(*out.Value, r.Offset))
	return out, known
}

// judgeMeasure judges a rule about an amount. base is nil for a single run, which has no relative
// rules. A cost that is unknown for some items is a lower bound.
func (r Rule) judgeMeasure(base *outcome.Summary, cand outcome.Summary) RuleResult {
	value, lowerBound := amountOf(r.Metric, cand)
	threshold, out := r.Offset, RuleResult{Value: value}
	if r.Relative {
		// Sums over different numbers of trials cannot be compared.
		use := map[string]string{"cost": "cost_per_item", "failures": "coverage"}[r.Metric]
		if b, c := base.Items.Planned, cand.Items.Planned; use != "" && b != c {
			return out.inconclusive(fmt.Sprintf("%s is that of %d outcomes in the base, and of %d in the candidate: ask for %s", r.Metric, b, c, use))
		}
		baseValue, partly := amountOf(r.Metric, *base)
		if baseValue == nil || partly {
			return out.inconclusive(r.Metric + " of the base is not known")
		}
		threshold = *baseValue*r.Factor + r.Offset
	}
	out.Threshold = &threshold
	if value == nil {
		return out.inconclusive(r.Metric + " is not known")
	}
	text := r.amountText(*value, threshold)
	if n, l := cand.Items.Scored+cand.Items.Failed, cand.LatencyMS; strings.HasPrefix(r.Metric, "latency_") && l.N < n {
		text += textutil.Countf(", known of %d of %s", l.N, textutil.Counted(n, "outcome"))
	}
	out.Answer = answer(r.holds(*value, threshold))
	if lowerBound {
		text = "at least " + text + " and not known of every item"
		if (out.Answer == Pass) == r.isUpper() {
			out.Answer = Inconclusive
		}
	}
	out.Reason = fmt.Sprintf("%s is %s; allowed is %s %s", r.Metric, text, r.Op, r.amountText(threshold))
	return out
}

// amountText formats an amount with its unit. It does not read like a bound from which it differs.
func (r Rule) amountText(v float64, bound ...float64) string {
	text := decimal(v, bound...)
	switch {
	case strings.HasPrefix(r.Metric, "latency_"):
		return text + " ms"
	case strings.HasPrefix(r.Metric, "cost"):
		return "$" + text
	}
	return text
}
