package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Gate has the rules that a candidate must satisfy. The zero value has none.
type Gate struct {
	Rules []Rule
	// MinDelta is the least difference of the means of the primary score; nil is none. If the
	// items have weights, the weighted means count; if they should have weights that are unknown,
	// the rule is inconclusive. It ignores the interval: with 0, half of all comparisons without
	// any real difference fail.
	MinDelta *float64
	// MaxRegressions is the most items that may be worse by more than Epsilon; nil is no limit. If no
	// item has the primary score in both runs, the rule is inconclusive.
	MaxRegressions *int
	// Inconclusive is what an inconclusive rule counts as; "" is InconclusiveFails.
	Inconclusive Policy
}

// Policy is what an inconclusive rule counts as.
type Policy string

// Policies for inconclusive rules.
const (
	InconclusiveFails  Policy = "fail" // exit code 1
	InconclusivePasses Policy = "pass"
	InconclusiveExits6 Policy = "6" // exit code 6
)

// Answer is the result of a rule.
type Answer string

// Answers of a rule or a gate.
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
	// Value is compared with Threshold; nil is unknown. For a score against the base, both are differences.
	Value     *float64    `json:"value"`
	CI95      *[2]float64 `json:"ci95,omitempty"`
	Threshold *float64    `json:"threshold"`
}

// GateResult is the result of all rules. Answer is Fail if any rule fails, otherwise Inconclusive
// if any is. Inconclusive is the policy that ExitCode applies.
type GateResult struct {
	Answer       Answer       `json:"answer"`
	Inconclusive Policy       `json:"inconclusive_counts_as"`
	Rules        []RuleResult `json:"rules"`
}

// ExitCode returns 0 if the gate is passed, 1 if it failed, and 6 if it is inconclusive under
// InconclusiveExits6.
func (g GateResult) ExitCode() int {
	switch {
	case g.Answer == Pass, g.Answer == Inconclusive && g.Inconclusive == InconclusivePasses:
		return 0
	case g.Answer == Inconclusive && g.Inconclusive == InconclusiveExits6:
		return 6
	}
	return 1
}

// Check returns everything that is wrong with the gate. Its rules are those of ParseRule,
// unchanged: one that a program puts together could have an operator or a bound that nothing keeps.
func (g Gate) Check() error {
	var problems textutil.Problems
	problems.Add(!slices.Contains([]Policy{"", InconclusiveFails, InconclusivePasses, InconclusiveExits6}, g.Inconclusive),
		"inconclusive: expected fail, pass or 6, not %q", g.Inconclusive)
	problems.Add(g.MinDelta != nil && !usable(*g.MinDelta), "min-delta: expected a finite number")
	if most := g.MaxRegressions; most != nil {
		problems.Add(*most < 0, "max-regressions: %d is negative", *most)
	}
	for _, r := range g.Rules {
		parsed, err := ParseRule(r.Text)
		problems.Add(err != nil || parsed != r, "rule %q of %q is not one that ParseRule returned", cut(r.Text), r.Metric)
	}
	return errors.Join(problems...)
}

// judge judges every rule. The result is nil if there are no rules.
func (g Gate) judge(base Side, r Result) (*GateResult, error) {
	var rules []RuleResult
	primary := r.Primary()
	if g.MinDelta != nil {
		// For answers about a document, only the weighted mean measures a run.
		weighted := base.Summary.Answers != nil && primary.Name == base.Summary.Run.Primary
		rules = append(rules, judgeMinDelta(*g.MinDelta, primary, weighted))
	}
	if g.MaxRegressions != nil {
		rules = append(rules, judgeMaxRegressions(*g.MaxRegressions, r, primary))
	}
	var problems textutil.Problems
	for _, rule := range g.Rules {
		answer, err := rule.judge(base, r)
		problems.Add(err != nil, "rule %q: %w", rule.Text, err)
		answer.Rule = rule.Text
		rules = append(rules, answer)
	}
	return g.combine(rules), errors.Join(problems...)
}

// combine returns the result of all rules, or nil if there are none.
func (g Gate) combine(rules []RuleResult) *GateResult {
	if len(rules) == 0 {
		return nil
	}
	out := &GateResult{Answer: Pass, Inconclusive: cmp.Or(g.Inconclusive, InconclusiveFails), Rules: rules}
	for _, rule := range rules {
		if rule.Answer == Fail || out.Answer == Pass {
			out.Answer = rule.Answer
		}
	}
	return out
}

// judgeMinDelta compares the difference of the means with least, allowing for rounding of
// Epsilon. If weighted is true, the plain means do not count, and missing weights make the rule
// inconclusive.
func judgeMinDelta(least float64, s Score, weighted bool) RuleResult {
	out := RuleResult{Rule: "min-delta " + decimal(least), Threshold: &least, Value: s.Difference}
	if s.Difference == nil {
		return out.inconclusive(s.Name + " is not defined in both runs for any item")
	}
	if s.Incomparable != "" {
		return out.inconclusive(s.Name + " " + s.Incomparable)
	}
	delta, how := *s.Difference, "on average"
	if s.Weighted != nil {
		delta, how = s.Weighted.Difference, "on weighted average"
		out.Value = &s.Weighted.Difference
	} else if weighted {
		out.Value = nil
		return out.inconclusive(s.Name + " has no weighted mean here: weights are not known of every item, or sum up to 0")
	}
	out.Reason = fmt.Sprintf("%s changed by %s %s", s.Name, signed(delta, least, -least), how)
	if s.LowerIsBetter {
		delta = -delta
	}
	out.Answer = answer(delta >= least-Epsilon)
	return out
}

func judgeMaxRegressions(most int, r Result, primary Score) RuleResult {
	out := RuleResult{Rule: "max-regressions " + strconv.Itoa(most), Threshold: new(float64(most)),
		Value: new(float64(r.Regressions)), Answer: answer(r.Regressions <= most)}
	out.Reason = fmt.Sprintf("%s worse in %s", textutil.Counted(r.Regressions, "item"), primary.Name)
	if worst := r.Regressed[:min(5, len(r.Regressed))]; len(worst) > 0 {
		shown := cli.Each(worst, func(c ItemChange) string { return c.Item + " (" + signed(c.Candidate-c.Base) + ")" })
		out.Reason += ": " + strings.Join(shown, ", ")
		if more := r.Regressions - len(worst); more > 0 {
			out.Reason += fmt.Sprintf(" and %d more", more)
		}
	}
	switch {
	case primary.N == 0: // nothing could get worse
		return out.inconclusive(primary.Name + " is not defined in both runs for any item")
	case primary.Incomparable != "":
		return out.inconclusive(primary.Name + " " + primary.Incomparable)
	}
	return out
}

// inconclusive returns the result as Inconclusive with a reason.
func (r RuleResult) inconclusive(reason string) RuleResult {
	r.Answer, r.Reason = Inconclusive, reason
	return r
}

func answer(holds bool) Answer {
	if holds {
		return Pass
	}
	return Fail
}

// errNoBase is the error for a rule against a base in the gate of a single run.
var errNoBase = errors.New("it refers to a base, and a single run has none: use experiment compare BASE CANDIDATE --gate, " +
	"or experiment check, in whose file such rules stand under check")

// CheckRun returns all reasons why the gate cannot judge a single run with these scores: a rule
// refers to a base, or a score is not one of them. It needs no results, so it can be called
// before the run is paid for.
func (g Gate) CheckRun(scores []string) error {
	problems := textutil.Problems{g.Check()}
	problems.Add(g.MinDelta != nil, "min-delta: %w", errNoBase)
	problems.Add(g.MaxRegressions != nil, "max-regressions: %w", errNoBase)
	for _, r := range g.Rules {
		problems.Add(r.Relative, "rule %q: %w", cut(r.Text), errNoBase)
	}
	return errors.Join(append(problems, g.CheckScores(scores))...)
}

// CheckScores returns an error for each rule about a score that is not one of these.
func (g Gate) CheckScores(scores []string) error {
	var problems textutil.Problems
	known := slices.Concat(scores, measures)
	for _, r := range g.Rules {
		if !r.isMeasure() && !slices.Contains(scores, r.Metric) {
			hint := cmp.Or(textutil.Hint(r.Metric, known), "; there are: "+strings.Join(known, ", "))
			problems.Add(true, "rule %q: there is no score %q%s", cut(r.Text), cut(r.Metric), hint)
		}
	}
	return errors.Join(problems...)
}

// JudgeRun judges every rule for a single run; the result is nil if there are no rules. A rule
// about a score that no item has is inconclusive. So are all rules if the run is not complete,
// since missing outcomes may change the answer.
//
// Errors: those of CheckRun, except for unknown scores.
func (g Gate) JudgeRun(s outcome.Summary) (*GateResult, error) {
	asked := cli.Each(g.Rules, func(r Rule) string { return r.Metric }) // a score may be undefined for all items
	if err := g.CheckRun(append(scoreNames(s), asked...)); err != nil {
		return nil, err
	}
	return g.combine(cli.Each(g.Rules, func(r Rule) RuleResult { return r.judgeRun(s) })), nil
}

func (r Rule) judgeRun(s outcome.Summary) RuleResult {
	out, _ := r.judgeScore(s)
	if r.isMeasure() {
		out = r.judgeMeasure(nil, s)
	}
	out.Rule = r.Text
	if s.Status != outcome.Complete {
		out.Answer, out.Reason = Inconclusive, fmt.Sprintf("the run is not complete (%s), %d of %d outcomes are missing; so far: %s", s.Status, s.Items.NotRun(), s.Items.Planned, out.Reason)
	}
	return out
}

// Err returns nil if the gate is passed or nil. Otherwise the error names the rules that are not
// kept; its exit code is that of ExitCode.
func (g *GateResult) Err(run string) error {
	if g == nil || g.ExitCode() == 0 {
		return nil
	}
	var parts []string
	rules := map[Answer][]string{}
	for _, r := range g.Rules {
		rules[r.Answer] = append(rules[r.Answer], r.Rule)
	}
	for i, answer := range []Answer{Fail, Inconclusive} {
		if len(rules[answer]) > 0 {
			parts = append(parts, []string{"failed ", "inconclusive "}[i]+strings.Join(rules[answer], ", "))
		}
	}
	return cli.Errorf(g.ExitCode(), "%s does not pass the gate: %s", run, strings.Join(parts, "; "))
}

// amountOf returns an amount of a run, or nil if it is unknown. lowerBound reports whether the
// amount may be larger.
func amountOf(name string, s outcome.Summary) (value *float64, lowerBound bool) {
	n := s.Items.Scored + s.Items.Failed
	switch l := s.LatencyMS; {
	case name == "coverage" && s.Items.Planned > 0:
		return new(float64(s.Items.Scored) / float64(s.Items.Planned)), false
	case name == weightedScore && s.Answers != nil:
		return s.WeightedScore, false
	case name == "failures":
		return new(float64(s.Items.Failed)), false
	case strings.HasPrefix(name, "cost") && s.Usage.CostUSD != nil && n > 0:
		cost := *s.Usage.CostUSD
		if name == "cost_per_item" {
			cost /= float64(n)
		}
		return &cost, s.Usage.CostUnknown > 0
	case strings.HasPrefix(name, "latency_") && l != nil:
		latencies := map[string]float64{"latency_mean": l.Mean, "latency_p50": l.P50, "latency_p95": l.P95, "latency_max": l.Max}
		return new(latencies[name]), false
	}
	return nil, false
}

func scoreNames(s outcome.Summary) []string {
	return cli.Each(s.Scores, func(stat outcome.Stat) string { return stat.Name })
}
