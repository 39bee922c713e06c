package outcome

import (
	"strings"
	"testing"
)

// TestSummary_unanswered checks that, if an evaluator gives some items no score, its mean is that
// of the others, and that they count in the mean with failures as 0.
func TestSummary_unanswered(t *testing.T) {
	h := header()
	h.Scorer.Custom = []CustomScorer{{Name: "judge"}}
	score := func(item string, trial int, v *float64) Outcome {
		return Outcome{Item: item, Trial: trial, Scores: []Score{{Name: "judge", Value: v}, {Name: "type_accuracy"}}}
	}
	failed := score("d", 1, nil)
	failed.Class, failed.Failure = Timeout, &Failure{Timeout, "late"}

	s := NewSummariser(h, SummaryConfig{})
	for _, o := range []Outcome{score("a", 1, new(1.0)), score("b", 1, new(0.5)), score("c", 1, nil), failed} {
		s.Add(o)
	}
	// (1 + 0.5)/2 = 0.75; over a b c d (1 + 0.5 + 0 + 0)/4 = 0.375
	sum := s.Summary()
	if stat, _ := sum.Scores.Lookup("judge"); stat.N != 2 || *stat.Mean != 0.75 || *stat.FailuresAsZero != 0.375 || stat.Unanswered != 1 || stat.Undefined != 0 || stat.Failed != 1 {
		t.Errorf("%+v", stat)
	}
	if stat, _ := sum.Scores.Lookup("type_accuracy"); stat.Unanswered != 0 || stat.Undefined != 3 {
		t.Errorf("a score of our own owes nothing: %+v", stat)
	}
	if text := strings.Join(sum.Warnings, "\n"); !strings.Contains(text, "judge has no value for 1 of 3 outcomes") {
		t.Error(text)
	}

	h.Trials = 2
	s = NewSummariser(h, SummaryConfig{})
	for _, o := range []Outcome{score("a", 1, new(1.0)), score("a", 2, nil), score("b", 1, nil), score("b", 2, nil)} {
		s.Add(o)
	}
	// a: 1, with its second trial as 0 (1+0)/2; b: none, 0: (0.5 + 0)/2 = 0.25
	sum = s.Summary()
	// trials: (1+0)/2 and (0+0)/2; variances 0.5 of a and 0 of b
	if v := sum.Trials.Scores[0]; *v.Least != 0 || *v.Top != 0.5 || *v.Within != 0.5 || v.Consistent != 1 || v.N != 2 {
		t.Errorf("%+v", v)
	}
	if stat, _ := sum.Scores.Lookup("judge"); stat.N != 1 || *stat.Mean != 1 || *stat.FailuresAsZero != 0.25 || stat.Unanswered != 2 || stat.Undefined != 0 {
		t.Errorf("%+v", stat)
	}
}
