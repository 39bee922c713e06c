package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Gate is what a candidate must keep to. The zero value has no rules.
type Gate struct {
	Rules []Rule
	// MinDelta is the least difference of the means of the primary score,
	// weighted where its items have weights, and inconclusive where it should
	// be and the weights are not known; nil asks for none. It looks at the means as they are, not at their interval:
	// with 0, half of all comparisons without any real difference fail.
	MinDelta *float64
	// MaxRegressions is how many items may have become worse by more than
	// Epsilon; nil allows any number.
	MaxRegressions *int
	// Inconclusive says what an inconclusive rule counts as; "" is as failed.
	Inconclusive Policy
}

// Policy says what to make of an inconclusive rule.
type Policy string

// The policies.
const (
	InconclusiveFails  Policy = "fail" // exit code 1
	InconclusivePasses Policy = "pass"
	InconclusiveSays   Policy = "6" // exit code 6
)

// Answer is what a rule comes to.
type Answer string

// The answers.
const (
	Pass         Answer = "pass"
	Fail         Answer = "fail"
	Inconclusive Answer = "inconclusive"
)

// RuleResult is a rule with its answer.
type RuleResult struct {
	Rule   string `json:"rule"`
	Answer Answer `json:"answer"`
	Reason string `json:"reason"`
	// Value is what was looked at, Threshold what with: for a score against the
	// base both are differences.
	Value     *float64    `json:"value"`
	CI95      *[2]float64 `json:"ci95,omitempty"`
	Threshold float64     `json:"threshold"`
}

// GateResult is what all rules come to. Answer is Fail when any fails, else
// Inconclusive when any is; the policy decides what that counts as.
type GateResult struct {
	Answer       Answer       `json:"answer"`
	Inconclusive Policy       `json:"inconclusive_counts_as"`
	Rules        []RuleResult `json:"rules"`
}

// ExitCode is 0, 1 or 6.
func (g GateResult) ExitCode() int {
	switch {
	case g.Answer == Pass, g.Answer == Inconclusive && g.Inconclusive == InconclusivePasses:
		return 0
	case g.Answer == Inconclusive && g.Inconclusive == InconclusiveSays:
		return 6
	}
	return 1
}

func (g Gate) check() error {
	var problems []error
	switch g.Inconclusive {
	case "", InconclusiveFails, InconclusivePasses, InconclusiveSays:
	default:
		problems = append(problems, fmt.Errorf("inconclusive: expected fail, pass or 6, not %q", g.Inconclusive))
	}
	if g.MinDelta != nil && !finite(*g.MinDelta) {
		problems = append(problems, errors.New("min-delta: expected a finite number"))
	}
	if g.MaxRegressions != nil && *g.MaxRegressions < 0 {
		problems = append(problems, fmt.Errorf("max-regressions: %d is negative", *g.MaxRegressions))
	}
	return errors.Join(problems...)
}

// judge judges every rule; nil without any.
func (g Gate) judge(base Side, r Result) (*GateResult, error) {
	out := g.result()
	primary := r.Primary()
	if g.MinDelta != nil {
		out.Rules = append(out.Rules, minDelta(*g.MinDelta, primary, base.weighted(primary.Name)))
	}
	if g.MaxRegressions != nil {
		out.Rules = append(out.Rules, maxRegressions(*g.MaxRegressions, r, primary))
	}
	var problems []error
	for _, rule := range g.Rules {
		answer, err := rule.judge(base, r)
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %q: %w", rule.Text, err))
			continue
		}
		answer.Rule = rule.Text
		out.Rules = append(out.Rules, answer)
	}
	if err := errors.Join(problems...); err != nil || len(out.Rules) == 0 {
		return nil, err
	}
	out.sumUp()
	return out, nil
}

// result is that of no rules yet.
func (g Gate) result() *GateResult {
	out := &GateResult{Answer: Pass, Inconclusive: g.Inconclusive, Rules: []RuleResult{}}
	if out.Inconclusive == "" {
		out.Inconclusive = InconclusiveFails
	}
	return out
}

// sumUp fills in what all rules come to.
func (g *GateResult) sumUp() {
	for _, rule := range g.Rules {
		switch {
		case rule.Answer == Fail:
			g.Answer = Fail
		case rule.Answer == Inconclusive && g.Answer == Pass:
			g.Answer = Inconclusive
		}
	}
}

// minDelta looks at the difference of the means, weighted where items have
// weights. Rounding of up to Epsilon is no difference. Where there must be
// weights and they are not known, the plain means are no answer.
func minDelta(least float64, s Score, weighted bool) RuleResult {
	out := RuleResult{Rule: "min-delta " + decimal(least), Threshold: least, Value: s.Difference}
	if s.Difference == nil {
		out.Answer, out.Reason = Inconclusive, s.Name+" is defined for no item in both runs"
		return out
	}
	if s.Incomparable != "" {
		out.Answer, out.Reason = Inconclusive, s.Name+" "+s.Incomparable
		return out
	}
	delta, how := *s.Difference, "on average"
	if s.Weighted != nil {
		delta, how = s.Weighted.Difference, "on weighted average"
		out.Value = &s.Weighted.Difference
	} else if weighted {
		out.Answer, out.Value = Inconclusive, nil
		out.Reason = s.Name + " has no weighted mean here: weights are not known of every item, or sum up to 0"
		return out
	}
	out.Reason = fmt.Sprintf("%s changed by %s %s", s.Name, signed(delta), how)
	if s.LowerIsBetter {
		delta = -delta
	}
	out.Answer = answer(delta >= least-Epsilon)
	return out
}

func maxRegressions(most int, r Result, primary Score) RuleResult {
	n := float64(r.Regressions)
	out := RuleResult{Rule: "max-regressions " + strconv.Itoa(most), Threshold: float64(most), Value: &n, Answer: answer(r.Regressions <= most)}
	out.Reason = fmt.Sprintf("%s worse in %s", textutil.Counted(r.Regressions, "item"), primary.Name)
	var ids []string
	for _, item := range r.Regressed[:min(5, len(r.Regressed))] {
		ids = append(ids, item.Item+" ("+signed(item.Candidate-item.Base)+")")
	}
	if len(ids) > 0 {
		out.Reason += ": " + list(ids, r.Regressions)
	}
	if primary.Incomparable != "" {
		out.Answer, out.Reason = Inconclusive, primary.Name+" "+primary.Incomparable
	}
	return out
}

func answer(holds bool) Answer {
	if holds {
		return Pass
	}
	return Fail
}

// errNoBase says that a rule cannot be asked of one run.
var errNoBase = errors.New("it speaks of a base, and one run has none: use experiment compare BASE CANDIDATE --gate")

// CheckRun says whether the gate can be asked of one run by itself, before the
// run is paid for: no rule speaks of a base, and every score is one of those
// that the run will have. All problems are returned at once.
func (g Gate) CheckRun(scores []string) error {
	problems := []error{g.check()}
	if g.MinDelta != nil {
		problems = append(problems, fmt.Errorf("min-delta: %w", errNoBase))
	}
	if g.MaxRegressions != nil {
		problems = append(problems, fmt.Errorf("max-regressions: %w", errNoBase))
	}
	for _, r := range g.Rules {
		switch {
		case r.Relative:
			problems = append(problems, fmt.Errorf("rule %q: %w", cut(r.Text), errNoBase))
		case !r.measure() && !slices.Contains(scores, r.Metric):
			problems = append(problems, fmt.Errorf("rule %q: there is no score %q%s", cut(r.Text), cut(r.Metric), textutil.Hint(r.Metric, slices.Concat(scores, measures))))
		}
	}
	return errors.Join(problems...)
}

// JudgeRun judges every rule for one run by itself; nil without rules. A score
// that no item has is inconclusive, and so is everything about a run that is
// not complete: what is missing may change the answer.
//
// Errors: rules that CheckRun refuses because they speak of a base.
func (g Gate) JudgeRun(s outcome.Summary) (*GateResult, error) {
	known := scoreNames(s)
	for _, r := range g.Rules {
		known = append(known, r.Metric) // a score may be defined for no item
	}
	if err := g.CheckRun(known); err != nil || len(g.Rules) == 0 {
		return nil, err
	}
	out := g.result()
	for _, rule := range g.Rules {
		out.Rules = append(out.Rules, rule.judgeAlone(s))
	}
	out.sumUp()
	return out, nil
}

func (r Rule) judgeAlone(s outcome.Summary) RuleResult {
	var out RuleResult
	var err error
	if r.measure() {
		out = r.judgeMeasure(nil, s)
	} else if out, err = r.judgeRun(s); err != nil { // no item has the score
		out = RuleResult{Threshold: r.Offset, Answer: Inconclusive, Reason: r.name() + " is defined for no item"}
	}
	out.Rule = r.Text
	if s.Status != outcome.Complete {
		out.Answer, out.Reason = Inconclusive, fmt.Sprintf("the run is not complete (%s), %d of %d outcomes are missing; so far: %s", s.Status, s.Items.NotRun(), s.Items.Planned, out.Reason)
	}
	return out
}

// Err is a *GateError where the gate is not passed.
func (g *GateResult) Err(run string) error {
	if g == nil || g.ExitCode() == 0 {
		return nil
	}
	return &GateError{run, *g}
}

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
	return fmt.Errorf("%w%s", &MetricError{Metric: r.Metric, Known: names}, textutil.Hint(r.Metric, names))
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

// percent says what a number with % cannot mean; nil where it is a share.
func (r Rule) percent(multiple bool) error {
	switch {
	case !r.measure() || multiple || r.share():
		return nil
	case r.Metric == "failures":
		return fmt.Errorf("failures counts items; a share of them is coverage, such as coverage >= 98%%")
	case r.Relative:
		return fmt.Errorf("expected base * 1.1 for 10 %% more than the base: %s is no share", r.Metric)
	}
	return fmt.Errorf("%s is no share: a number with %% is a part of nothing", r.Metric)
}
