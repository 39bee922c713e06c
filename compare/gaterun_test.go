package compare

import (
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// alone is a run by itself: 10 planned, 8 scored, 2 failed; f1 sums to 6.4 over
// the 8, so that its mean with failures as 0 is 0.64.
func alone() outcome.Summary {
	mean, zero, pooled, cost := 0.8, 0.64, 0.75, 0.5
	return outcome.Summary{
		Run: outcome.RunInfo{Name: "r"}, Status: outcome.Complete,
		Items:  outcome.Items{Planned: 10, Scored: 8, Failed: 2},
		Scores: outcome.Stats{{Name: "f1", Mean: &mean, N: 8, Failed: 2, FailuresAsZero: &zero, Pooled: &pooled}, {Name: "empty"}},
		Usage:  outcome.UsageSum{CostUSD: &cost, CostUnknown: 1},
	}
}

// silent is alone with an evaluator that gave no score for 2 of its outcomes.
func silent() outcome.Summary {
	s := alone()
	s.Scores[0].Unanswered = 2
	return s
}

func TestGate_JudgeRun(t *testing.T) {
	whole, fell := alone(), alone()
	whole.Items, whole.Scores[0].N, whole.Scores[0].Failed = outcome.Items{Planned: 10, Scored: 10}, 10, 0
	fell.Items, fell.Scores[0].N, fell.Scores[0].Failed = outcome.Items{Planned: 20, Scored: 19, Failed: 1}, 10, 0
	fell.Trials = &outcome.Trials{Count: 2}
	unfinished := alone()
	unfinished.Status, unfinished.Items = outcome.Interrupted, outcome.Items{Planned: 12, Scored: 8, Failed: 2}
	tests := map[string]struct {
		summary outcome.Summary
		policy  Policy
		rules   []string
		answers []Answer
		reason  string // of the last rule
		exit    int
	}{
		"all kept":             {alone(), "", []string{"f1 >= 0.64", "coverage >= 80%", "failures <= 2"}, []Answer{Pass, Pass, Pass}, "failures is 2", 0},
		"failures count as 0":  {alone(), "", []string{"f1 >= 0.65"}, []Answer{Fail}, "f1 is 0.64", 1},
		"pooled":               {whole, "", []string{"pooled(f1) > 0.74"}, []Answer{Pass}, "pooled f1 is 0.75", 0},
		"pooled of survivors":  {alone(), "6", []string{"pooled(f1) > 0.74"}, []Answer{Inconclusive}, "2 of 10 items failed", 6},
		"pooled, a trial fell": {fell, "6", []string{"pooled(f1) > 0.74"}, []Answer{Inconclusive}, "1 of 20 outcomes failed", 6},
		"all are answered":     {alone(), "", []string{"f1 > 1", "coverage > 0.9", "failures < 3"}, []Answer{Fail, Fail, Pass}, "failures is 2", 1},
		"a lower bound":        {alone(), "6", []string{"cost <= 1"}, []Answer{Inconclusive}, "at least $0.5", 6},
		"over the lower bound": {alone(), "6", []string{"cost <= 0.4"}, []Answer{Fail}, "cost is $0.5", 1},
		"fail beats unclear":   {alone(), "6", []string{"f1 > 1", "cost <= 1"}, []Answer{Fail, Inconclusive}, "", 1},
		"unclear fails":        {alone(), "", []string{"cost <= 1"}, []Answer{Inconclusive}, "", 1},
		"unclear passes":       {alone(), "pass", []string{"cost <= 1"}, []Answer{Inconclusive}, "", 0},
		"no value":             {alone(), "6", []string{"empty > 0"}, []Answer{Inconclusive}, "empty is defined for no item", 6},
		"no item has it":       {alone(), "6", []string{"other > 0"}, []Answer{Inconclusive}, "other is defined for no item", 6},
		"no latency":           {alone(), "6", []string{"latency_p95 < 1s"}, []Answer{Inconclusive}, "not known", 6},
		"unanswered": {silent(), "6", []string{"f1 >= 0.1", "f1 < 2"}, []Answer{Inconclusive, Inconclusive},
			"f1 has no value for 2 of 12 items: the evaluator gave none; it is 0.64 with them as 0 and 0.8 without them (n = 8)", 6},
		"not complete": {unfinished, "6", []string{"f1 >= 0.1"}, []Answer{Inconclusive}, "2 of 12 outcomes are missing; so far: f1 is 0.64", 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := Gate{Inconclusive: tt.policy}
			for _, text := range tt.rules {
				g.Rules = append(g.Rules, mustRule(t, text))
			}
			got, err := g.JudgeRun(tt.summary)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.answers {
				if r := got.Rules[i]; r.Answer != want || r.Rule != tt.rules[i] || r.Reason == "" {
					t.Errorf("%+v, want %s", r, want)
				}
			}
			if last := got.Rules[len(got.Rules)-1].Reason; !strings.Contains(last, tt.reason) {
				t.Errorf("reason %q, want %q", last, tt.reason)
			}
			if got.ExitCode() != tt.exit || (got.Err("r") == nil) != (tt.exit == 0) {
				t.Errorf("exit %d (%v), want %d", got.ExitCode(), got.Err("r"), tt.exit)
			}
		})
	}
	if _, err := (Gate{Rules: []Rule{mustRule(t, "f1 >= base")}}).JudgeRun(alone()); err == nil {
		t.Error("a run alone is compared with a base")
	}
	// The interval is that of the mean that is judged: with failures as 0, or of a
	// score of what was extracted alone the plain one.
	counted, output := alone(), alone()
	counted.Scores[0].CI95, counted.Scores[0].CI95AsZero = &[2]float64{.7, .9}, &[2]float64{.5, .8}
	output.Scores[0].CI95, output.Scores[0].FailuresAsZero = &[2]float64{.7, .9}, nil
	for i, s := range []outcome.Summary{counted, output} {
		got, err := (Gate{Rules: []Rule{mustRule(t, "f1 >= 0.6")}}).JudgeRun(s)
		if err != nil || got.Answer != Pass || got.Rules[0].CI95[0] != []float64{.5, .7}[i] || *got.Rules[0].Value != []float64{.64, .8}[i] {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := (Gate{}).JudgeRun(alone()); got != nil || err != nil || got.Err("r") != nil {
		t.Errorf("without rules: %v, %v", got, err)
	}
}

// TestGate_weightedScore: the headline of answers is judged as it is; a run
// that has none is inconclusive.
func TestGate_weightedScore(t *testing.T) {
	s := alone()
	for want, answers := range map[Answer]*outcome.Answers{
		Pass: {WeightedScore: new(0.5)}, Fail: {WeightedScore: new(0.4)}, Inconclusive: {},
	} {
		s.Answers = answers
		got, err := (Gate{Rules: []Rule{mustRule(t, "weighted_score >= 50%")}}).JudgeRun(s)
		if err != nil || got.Answer != want {
			t.Errorf("%+v, %v, want %s", got, err, want)
		}
	}
	s.Answers = nil
	if got, err := (Gate{Rules: []Rule{mustRule(t, "weighted_score >= 0.1")}}).JudgeRun(s); err != nil || got.Answer != Inconclusive {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGate_CheckRun(t *testing.T) {
	zero, none := 0.0, 0
	g := Gate{MinDelta: &zero, MaxRegressions: &none, Inconclusive: "maybe", Rules: []Rule{
		mustRule(t, "f1 >= base"), mustRule(t, "cost <= base * 2"), mustRule(t, "fi > 0"), mustRule(t, "f1 > 0"), mustRule(t, "coverage > 0"),
	}}
	err := g.CheckRun([]string{"f1"})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"inconclusive:", "min-delta:", "max-regressions:", `"f1 >= base"`, `"cost <= base * 2"`, `there is no score "fi"; did you mean`} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d of\n%v\nwant %q", i, err, want)
		}
	}
	if len(lines) != 6 {
		t.Errorf("%d problems", len(lines))
	}
}

func mustRule(t *testing.T, text string) Rule {
	t.Helper()
	r, err := ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
