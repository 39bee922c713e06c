package compare

import (
	"fmt"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// doubt says why the difference of a score says nothing of the runs, to be read
// after its name; "" for one that does. It is about scores of external evaluators: the two runs must have
// asked the same one, and it must have answered for every output.
func doubt(name string, base, cand outcome.Summary) string {
	b, inBase := custom(name, base)
	c, inCand := custom(name, cand)
	switch {
	case !inBase && !inCand:
		return ""
	case inBase && inCand && !b.Same(c):
		return "comes from another evaluator, or one that has changed: its difference says nothing of the runs"
	}
	for _, side := range []struct {
		which string
		outcome.Summary
	}{{"base", base}, {"candidate", cand}} {
		if stat, ok := side.Scores.Lookup(name); ok && stat.Unanswered > 0 {
			return fmt.Sprintf("has no value for %s of the %s: the evaluator gave none", unanswered(stat), side.which)
		}
	}
	return ""
}

func custom(name string, s outcome.Summary) (outcome.CustomScorer, bool) {
	for _, c := range s.Run.CustomScorers {
		if c.Name == name {
			return c, true
		}
	}
	return outcome.CustomScorer{}, false
}

// unanswered says for how many items an evaluator gave no score.
func unanswered(s outcome.Stat) string {
	return fmt.Sprintf("%d of %s", s.Unanswered, printable.Counted(s.N+s.Failed+s.Unanswered, "item"))
}
