package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// TestGate_seed checks MinDelta and MaxRegressions.
func TestGate_seed(t *testing.T) {
	base := newRun("b", .5, .5, .5, .5)
	tests := map[string]struct {
		cand        []float64
		delta       float64
		regressions int
		want        []Answer
		code        int
	}{
		"identical":             {[]float64{.5, .5, .5, .5}, 0, 0, []Answer{Pass, Pass}, 0},
		"better":                {[]float64{.6, .5, .5, .5}, 0, 0, []Answer{Pass, Pass}, 0},
		"one worse, mean equal": {[]float64{.6, .4, .5, .5}, 0, 0, []Answer{Pass, Fail}, 1},
		"one worse is allowed":  {[]float64{.6, .4, .5, .5}, 0, 1, []Answer{Pass, Pass}, 0},
		"worse":                 {[]float64{.4, .5, .5, .5}, 0, 3, []Answer{Fail, Pass}, 1},
		"both":                  {[]float64{.4, .5, .5, .5}, 0, 0, []Answer{Fail, Fail}, 1},
		"as much as allowed":    {[]float64{.4, .5, .5, .5}, -.025, 1, []Answer{Pass, Pass}, 0},
		"below 1e-9 is none":    {[]float64{.5 - 9e-10, .5, .5, .5}, 0, 0, []Answer{Pass, Pass}, 0},
		"above 1e-9 is one":     {[]float64{.5 - 2e-9, .5, .5, .5}, 0, 0, []Answer{Pass, Fail}, 1},
		"asked for more":        {[]float64{.6, .5, .5, .5}, .03, 0, []Answer{Fail, Pass}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := mustCompare(t, Config{Gate: Gate{MinDelta: &tt.delta, MaxRegressions: &tt.regressions}}, base, newRun("c", tt.cand...))
			got := cli.Each(r.Gate.Rules, func(r RuleResult) Answer { return r.Answer })
			if !slices.Equal(got, tt.want) || r.Gate.ExitCode() != tt.code {
				t.Errorf("%v, exit %d; want %v, %d", got, r.Gate.ExitCode(), tt.want, tt.code)
			}
		})
	}
}

// TestGate_reasons checks the reasons of MinDelta and MaxRegressions.
func TestGate_reasons(t *testing.T) {
	none := []float64{undefined, undefined}
	few := slices.Repeat([]float64{.5}, 7)
	for name, tt := range map[string]struct {
		metric     string
		base, cand []float64
		want       []Answer
		says       []string
	}{
		"not defined": {"f1", none, none, []Answer{Inconclusive, Inconclusive},
			[]string{"f1 is not defined in both runs for any item", "f1 is not defined in both runs for any item"}},
		"defined in one": {"f1", []float64{.5, .5}, none, []Answer{Inconclusive, Inconclusive},
			[]string{"f1 is not defined in both runs for any item", "f1 is not defined in both runs for any item"}},
		"less is better": {"error", []float64{.5, .5, .5, .5}, []float64{failed, .5, .5, .5}, []Answer{Fail, Fail},
			[]string{"error changed by +0.25 on average", "1 item worse in error: item-0000 (+1)"}},
		"many": {"f1", few, slices.Repeat([]float64{.25}, 7), []Answer{Fail, Fail},
			[]string{"f1 changed by -0.25 on average", "7 items worse in f1: item-0000 (-0.25), item-0001 (-0.25), item-0002 (-0.25), item-0003 (-0.25), item-0004 (-0.25) and 2 more"}},
	} {
		r := mustCompare(t, Config{Metric: tt.metric, Gate: Gate{MinDelta: new(float64), MaxRegressions: new(int)}}, newRun("b", tt.base...), newRun("c", tt.cand...))
		for i, rule := range r.Gate.Rules {
			if rule.Answer != tt.want[i] || rule.Reason != tt.says[i] {
				t.Errorf("%s: %s, %q; want %s, %q", name, rule.Answer, rule.Reason, tt.want[i], tt.says[i])
			}
		}
	}
}

// TestGate_answers checks that Fail precedes Inconclusive, that every rule is answered, and what
// the policies do.
func TestGate_answers(t *testing.T) {
	base, cand := newRun("b", .5, .5, .5, .5, .5, .5, .5), newRun("c", .9, .1, .5, .5, .6, .5, .4)
	inconclusive, wrong := "f1 >= base - 0.01", "f1 >= 0.9"
	for _, tt := range []struct {
		rules  []string
		policy Policy
		want   Answer
		code   int
	}{
		{nil, "", "", 0},
		{[]string{"f1 >= 0.4"}, "", Pass, 0},
		{[]string{inconclusive}, "", Inconclusive, 1},
		{[]string{inconclusive}, InconclusiveFails, Inconclusive, 1},
		{[]string{inconclusive}, InconclusivePasses, Inconclusive, 0},
		{[]string{inconclusive}, InconclusiveExits6, Inconclusive, 6},
		{[]string{wrong, inconclusive}, InconclusiveExits6, Fail, 1},
		{[]string{inconclusive, wrong}, InconclusivePasses, Fail, 1},
	} {
		gate := Gate{Inconclusive: tt.policy}
		for _, text := range tt.rules {
			gate.Rules = append(gate.Rules, mustRule(t, text))
		}
		out, err := Config{Gate: gate}.Compare(context.Background(), base, cand)
		if err != nil {
			t.Fatal(err)
		}
		got := out.Candidates[0].Gate
		if tt.rules == nil {
			if got != nil || out.Err() != nil {
				t.Errorf("no rules: %+v, %v", got, out.Err())
			}
			continue
		}
		if got.Answer != tt.want || got.ExitCode() != tt.code || len(got.Rules) != len(tt.rules) {
			t.Errorf("%v, %s: %s, exit %d; want %s, %d", tt.rules, tt.policy, got.Answer, got.ExitCode(), tt.want, tt.code)
		}
		if err := out.Err(); cli.ExitCode(err) != tt.code || err != nil && strings.Count(err.Error(), "f1 >= ") != len(tt.rules) {
			t.Errorf("%v: %v", tt.rules, err)
		}
	}
}

func TestGate_Check(t *testing.T) {
	least, none := -3, math.NaN()
	err := Gate{Inconclusive: "maybe", MaxRegressions: &least, MinDelta: &none}.Check()
	for _, want := range []string{"maybe", "max-regressions", "min-delta"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestCorrectPValues checks that one candidate leaves the primary p-value as it is, and that
// three multiply the least by three.
func TestCorrectPValues(t *testing.T) {
	base := newRun("b", .5, .5, .5, .5, .5, .5, .5, .5)
	var candidates []Source
	for i, gains := range []int{8, 6, 1} {
		values := []float64{.5, .5, .5, .5, .5, .5, .5, .5}
		for j := range gains {
			values[j] = .6 + float64(j)/100
		}
		candidates = append(candidates, newRun(fmt.Sprint("c", i), values...))
	}
	out, err := Config{}.Compare(context.Background(), base, candidates...)
	if err != nil {
		t.Fatal(err)
	}
	// 2/2^8·3, 2/2^6·2, 1·1
	for i, want := range []float64{6. / 256, 4. / 64, 1} {
		if s := primaryOf(t, out.Candidates[i]); !near(s.PHolm, want) {
			t.Errorf("candidate %d: corrected %v, want %v", i, *s.PHolm, want)
		}
		if !strings.Contains(strings.Join(out.Candidates[i].Warnings, "\n"), "3 candidates were compared") {
			t.Errorf("candidate %d: %q", i, out.Candidates[i].Warnings)
		}
	}
}

// TestGate_weighted checks that MinDelta uses Σ value·weight / Σ weight if there are weights. The
// base has (.5·1 + .5·3)/4 = .5, the candidate (.1·1 + .7·3)/4 = .55, although its plain mean is
// lower by .1.
func TestGate_weighted(t *testing.T) {
	base, cand := newRun("b", .5, .5), newRun("c", .1, .7)
	for _, run := range []*memoryRun{base, cand} {
		for i := range run.outcomes {
			weight := float64(1 + 2*i)
			run.outcomes[i].Scores[0].Weight = &weight
		}
	}
	least := .05
	r := mustCompare(t, Config{Gate: Gate{MinDelta: &least}}, base, cand)
	if w := r.Scores[0].Weighted; w == nil || math.Abs(w.Difference-.05) > 1e-12 || w.Base != .5 {
		t.Errorf("weighted %+v", w)
	}
	if rule := r.Gate.Rules[0]; rule.Answer != Pass || !strings.Contains(rule.Reason, "weighted") || !near(rule.Value, .05) {
		t.Errorf("%+v", rule)
	}
	cand.outcomes[1].Scores[0].Weight = nil // without one weight, there is no weighted mean
	r = mustCompare(t, Config{Gate: Gate{MinDelta: &least}}, base, cand)
	if r.Scores[0].Weighted != nil || r.Gate.Rules[0].Answer != Fail {
		t.Errorf("%+v %+v", r.Scores[0].Weighted, r.Gate.Rules[0])
	}
	for _, run := range []*memoryRun{base, cand} { // the plain mean of answers does not count
		run.header.Harness, run.header.Metadata = "answers", map[string]string{"pdf_sha256": "a", "questions_sha256": "b"}
	}
	r = mustCompare(t, Config{Gate: Gate{MinDelta: &least}}, base, cand)
	if rule := r.Gate.Rules[0]; rule.Answer != Inconclusive || rule.Value != nil || !strings.Contains(rule.Reason, "weights are not known") {
		t.Errorf("%+v", rule)
	}
}

// TestWeights_absurd checks that there is no weighted mean if a product is too large to be
// summed, as it would be that of the other items, or if all weights are 0.
func TestWeights_absurd(t *testing.T) {
	base, cand := newRun("b", .5, .5), newRun("c", .5, .5)
	large, weight := 1e100, 1e60
	for _, run := range []*memoryRun{base, cand} {
		for i := range run.outcomes {
			run.outcomes[i].Scores[0].Weight = &weight
		}
	}
	if s := primaryOf(t, mustCompare(t, Config{}, base, cand)); s.Weighted == nil || s.Weighted.Base != .5 {
		t.Errorf("%+v", s.Weighted)
	}
	weight = 0
	if s := primaryOf(t, mustCompare(t, Config{}, base, cand)); s.Weighted != nil {
		t.Errorf("%+v", s.Weighted)
	}
	weight = 1e60
	cand.outcomes[1].Scores[0].Value = &large
	if s := primaryOf(t, mustCompare(t, Config{}, base, cand)); s.Weighted != nil {
		t.Errorf("%+v", s.Weighted)
	}
}

// TestGate_scoreOfNoItem checks the reason for a score without a value in both runs.
func TestGate_scoreOfNoItem(t *testing.T) {
	none := slices.Repeat([]float64{undefined}, 8)
	r := mustCompare(t, Config{Gate: Gate{Rules: []Rule{mustRule(t, "f1 >= base - 0.02")}}}, newRun("b", none...), newRun("c", append([]float64{.5}, none[1:]...)...))
	if rule := r.Gate.Rules[0]; rule.Answer != Inconclusive || rule.Reason != "f1: it is not defined in both runs for any item" {
		t.Errorf("%+v", rule)
	}
}

// singleRun returns the summary of a run of 10 planned items, 8 scored and 2 failed. f1 sums to
// 6.4 over the 8, so its mean with failures as 0 is 0.64.
func singleRun() outcome.Summary {
	mean, zero, pooled, cost := 0.8, 0.64, 0.75, 0.5
	return outcome.Summary{
		Run: outcome.RunInfo{Name: "r"}, Status: outcome.Complete,
		Items:  outcome.Items{Planned: 10, Scored: 8, Failed: 2},
		Scores: outcome.Stats{{Name: "f1", Mean: &mean, N: 8, Failed: 2, FailuresAsZero: &zero, Pooled: &pooled}, {Name: "empty"}},
		Usage:  outcome.UsageSum{CostUSD: &cost, CostUnknown: 1},
	}
}

// withoutAnswers returns singleRun with an evaluator that gave no score for 2 outcomes.
func withoutAnswers() outcome.Summary {
	s := singleRun()
	s.Scores[0].Unanswered = 2
	return s
}

func TestGate_JudgeRun(t *testing.T) {
	whole, fell := singleRun(), singleRun()
	whole.Items, whole.Scores[0].N, whole.Scores[0].Failed = outcome.Items{Planned: 10, Scored: 10}, 10, 0
	fell.Items, fell.Scores[0].N, fell.Scores[0].Failed = outcome.Items{Planned: 20, Scored: 19, Failed: 1}, 10, 0
	fell.Trials = &outcome.Trials{Count: 2}
	share, kept := 0.05, 0.9 // error counts for every outcome, grounded only for those with an output
	fell.Scores = append(fell.Scores, outcome.Stat{Name: "error", Mean: &share, N: 10, FailuresAsZero: &share, Pooled: &share},
		outcome.Stat{Name: "grounded", Mean: &kept, N: 10, Pooled: &kept})
	partly := withoutAnswers() // 2 of 10 items have no score in one of 2 trials
	partly.Scores[0].N, partly.Scores[0].Failed, partly.Trials = 10, 0, &outcome.Trials{Count: 2, Items: 10}
	unfinished := singleRun()
	unfinished.Status, unfinished.Items = outcome.Interrupted, outcome.Items{Planned: 12, Scored: 8, Failed: 2}
	tests := map[string]struct {
		summary outcome.Summary
		policy  Policy
		rules   []string
		answers []Answer
		reason  string // of the last rule
		exit    int
	}{
		"all kept":             {singleRun(), "", []string{"f1 >= 0.64", "coverage >= 80%", "failures <= 2"}, []Answer{Pass, Pass, Pass}, "failures is 2", 0},
		"failures count as 0":  {singleRun(), "", []string{"f1 >= 0.65"}, []Answer{Fail}, "f1 is 0.64", 1},
		"pooled":               {whole, "", []string{"pooled(f1) > 0.74"}, []Answer{Pass}, "pooled f1 is 0.75", 0},
		"pooled of survivors":  {singleRun(), "6", []string{"pooled(f1) > 0.74"}, []Answer{Inconclusive}, "2 of 10 items failed", 6},
		"pooled, a trial fell": {fell, "6", []string{"pooled(f1) > 0.74"}, []Answer{Inconclusive}, "1 of 20 outcomes failed", 6},
		"of every outcome":     {fell, "6", []string{"pooled(error) <= 0.05", "pooled(grounded) >= 0.9"}, []Answer{Pass, Pass}, "pooled grounded is 0.9", 0},
		"all are answered":     {singleRun(), "", []string{"f1 > 1", "coverage > 0.9", "failures < 3"}, []Answer{Fail, Fail, Pass}, "failures is 2", 1},
		"a lower bound":        {singleRun(), "6", []string{"cost <= 1"}, []Answer{Inconclusive}, "at least $0.5", 6},
		"over the lower bound": {singleRun(), "6", []string{"cost <= 0.4"}, []Answer{Fail}, "cost is at least $0.5", 1},
		"fail beats unclear":   {singleRun(), "6", []string{"f1 > 1", "cost <= 1"}, []Answer{Fail, Inconclusive}, "", 1},
		"unclear fails":        {singleRun(), "", []string{"cost <= 1"}, []Answer{Inconclusive}, "", 1},
		"unclear passes":       {singleRun(), "pass", []string{"cost <= 1"}, []Answer{Inconclusive}, "", 0},
		"no value":             {singleRun(), "6", []string{"empty > 0"}, []Answer{Inconclusive}, "empty is not defined for any item", 6},
		"no item has it":       {singleRun(), "6", []string{"other > 0"}, []Answer{Inconclusive}, "other is not defined for any item", 6},
		"no latency":           {singleRun(), "6", []string{"latency_p95 < 1s"}, []Answer{Inconclusive}, "not known", 6},
		"unanswered": {withoutAnswers(), "6", []string{"f1 >= 0.1", "f1 < 2"}, []Answer{Inconclusive, Inconclusive},
			"f1 has no value for 2 of 12 items: the evaluator gave none", 6},
		"unanswered in a trial": {partly, "6", []string{"f1 >= 0.1"}, []Answer{Inconclusive}, "f1 has no value for 2 of 10 items: the evaluator gave none", 6},
		"not complete":          {unfinished, "6", []string{"f1 >= 0.1"}, []Answer{Inconclusive}, "2 of 12 outcomes are missing; so far: f1 is 0.64", 6},
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
	if _, err := (Gate{Rules: []Rule{mustRule(t, "f1 >= base")}}).JudgeRun(singleRun()); err == nil {
		t.Error("a run alone is compared with a base")
	}
	// The interval is that of the mean that is judged: with failures as 0, or the plain one for a
	// score of extracted outputs only.
	counted, output := singleRun(), singleRun()
	counted.Scores[0].CI95, counted.Scores[0].CI95AsZero = &[2]float64{.7, .9}, &[2]float64{.5, .8}
	output.Scores[0].CI95, output.Scores[0].FailuresAsZero = &[2]float64{.7, .9}, nil
	for i, s := range []outcome.Summary{counted, output} {
		got, err := (Gate{Rules: []Rule{mustRule(t, "f1 >= 0.6")}}).JudgeRun(s)
		if err != nil || got.Answer != Pass || got.Rules[0].CI95[0] != []float64{.5, .7}[i] || *got.Rules[0].Value != []float64{.64, .8}[i] {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := (Gate{}).JudgeRun(singleRun()); got != nil || err != nil || got.Err("r") != nil {
		t.Errorf("without rules: %v, %v", got, err)
	}
}

// TestGate_weightedScore judges the weighted score of answers. A run without one is inconclusive.
func TestGate_weightedScore(t *testing.T) {
	s := singleRun()
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

// TestGate_ownRules checks that a rule that ParseRule did not make is refused: an unknown operator
// failed every run, without a name.
func TestGate_ownRules(t *testing.T) {
	parsed := mustRule(t, "f1  >= 0.5")
	if err := (Gate{Rules: []Rule{parsed}}).Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Rule){
		func(r *Rule) { *r = Rule{} }, func(r *Rule) { r.Op = "=>" }, func(r *Rule) { r.Offset = math.NaN() }, func(r *Rule) { r.Factor = 0 },
	} {
		rule := parsed
		change(&rule)
		if _, err := (Config{Gate: Gate{Rules: []Rule{rule}}}).Compare(t.Context(), newRun("b", 1), newRun("c", 1)); err == nil {
			t.Errorf("%+v was judged", rule)
		}
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
