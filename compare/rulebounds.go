package compare

import (
	"fmt"
	"math"
	"strings"
)

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
