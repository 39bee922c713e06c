package compare

import (
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/internal/nearest"
	"extraction-experiment/outcome"
)

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
			problems = append(problems, fmt.Errorf("rule %q: there is no score %q%s", cut(r.Text), cut(r.Metric), nearest.Hint(r.Metric, slices.Concat(scores, measures))))
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
