package compare

import (
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestCompare_evaluators compares a score of an external evaluator: only where
// both runs asked the same one, and it always answered, is anything claimed.
func TestCompare_evaluators(t *testing.T) {
	of := func(fingerprint string, scores ...float64) *memory {
		run := newRun(fingerprint, scores...)
		run.header.Scorer.Custom = []outcome.CustomScorer{{Name: "f1", Evaluator: "sh judge.sh", Fingerprint: fingerprint}}
		return run
	}
	low, high := []float64{.1, .1, .2, .1, .1, .2, .1, .1}, []float64{.8, .9, .9, .8, .9, .8, .9, .8}
	gate := Gate{Rules: []Rule{mustRule(t, "f1 > base"), mustRule(t, "f1 >= base - 1")}, MinDelta: new(float64), MaxRegressions: new(int)}
	for name, tt := range map[string]struct {
		base, cand *memory
		answer     Answer
		says       string
	}{
		"one evaluator":     {of("one", low...), of("one", high...), Pass, ""},
		"another evaluator": {of("one", low...), of("two", high...), Inconclusive, "f1 comes from another evaluator"},
		"no answer": {of("one", low...), of("one", append([]float64{undefined}, high[1:]...)...), Inconclusive,
			"f1 has no value for 1 of 8 items of the candidate: the evaluator gave none"},
		"no answer in the base": {of("one", append([]float64{undefined}, low[1:]...)...), of("one", high...), Inconclusive, "1 of 8 items of the base"},
	} {
		r := compared(t, Config{Gate: gate}, tt.base, tt.cand)
		for _, rule := range r.Gate.Rules {
			if want := tt.answer; rule.Answer != want || !strings.Contains(rule.Reason, tt.says) {
				t.Errorf("%s: %+v, want %s", name, rule, want)
			}
		}
		if s := primaryOf(t, r); (s.Verdict == Better) != (tt.says == "") {
			t.Errorf("%s: the verdict is %s", name, s.Verdict)
		}
		if tt.says != "" && !strings.Contains(strings.Join(r.Warnings, "\n"), tt.says) {
			t.Errorf("%s: no warning in %q", name, r.Warnings)
		}
	}
}

// TestCompare_bounds: a difference of scores from 0 to 1 lies between -1 and 1, and
// so does its interval; that of others is not cut.
func TestCompare_bounds(t *testing.T) {
	r := compared(t, Config{}, newRun("b", 0, 1), newRun("c", 1, 0.5))
	// differences 1 and -0.5: 0.25 ± 12.7·1.0607/√2 = 9.5
	if s := primaryOf(t, r); *s.CI95 != [2]float64{-1, 1} {
		t.Errorf("%v", *s.CI95)
	}
	r = compared(t, Config{}, newRun("b", 0, 1.5), newRun("c", 1, 0.5))
	if s := primaryOf(t, r); s.CI95[0] > -2 || s.CI95[1] < 2 {
		t.Errorf("%v", *s.CI95)
	}
}
