package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestVerdict_needsIntervalAndP checks that nothing is claimed if interval and p-value disagree.
func TestVerdict_needsIntervalAndP(t *testing.T) {
	gate := Gate{Rules: []Rule{mustRule(t, "f1 > base")}}
	base := slices.Repeat([]float64{.5}, 38)
	for _, tt := range []struct {
		better  int
		p       float64
		verdict Verdict
		gate    Answer
	}{
		// With a difference of 0.1 in k of 38 items, the mean is k/380 and SE
		// 0.1·√(k/38·(1−k/38)/37). The interval is above 0 from k = 4 on. The exact p is 2/2^k.
		{3, .25, Unclear, Inconclusive},
		{4, .125, Unclear, Inconclusive},
		{5, .0625, Unclear, Inconclusive},
		{6, .03125, Better, Pass},
	} {
		cand := slices.Clone(base)
		for i := range tt.better {
			cand[i] = .6
		}
		r := mustCompare(t, Config{Gate: gate}, newRun("b", base...), newRun("c", cand...))
		s := r.Primary()
		if (s.CI95[0] > 0) != (tt.better >= 4) || *s.P != tt.p || r.Verdict != tt.verdict || r.Gate.Answer != tt.gate {
			t.Errorf("%d better: interval %v, p %v, %s, gate %s: %s", tt.better, *s.CI95, *s.P, r.Verdict, r.Gate.Answer, r.Gate.Rules[0].Reason)
		}
	}
}

// TestVerdict_oneLargeCluster checks that a gain in one source with most of the items is not a
// gain over the sources.
func TestVerdict_oneLargeCluster(t *testing.T) {
	var base, cand []float64
	var doc []int
	add := func(n, d int, gain float64) {
		for range n {
			base, cand, doc = append(base, .5), append(cand, .5+gain), append(doc, d)
		}
	}
	add(60, 0, .1)
	for d := range 9 {
		add(2, d+1, .01*float64(d%3-1))
	}
	b, c := newRun("b", base...), newRun("c", cand...)
	for _, m := range []*memoryRun{b, c} {
		for i := range m.items {
			m.items[i].Metadata = fmt.Appendf(nil, `{"source":{"doc":"d%d"}}`, doc[i])
		}
	}
	r := mustCompare(t, Config{ClusterBy: "source.doc"}, b, c)
	if s := r.Primary(); r.Verdict != Unclear || s.CI95[0] > 0 || *s.DF > 2 {
		t.Errorf("%s, interval %v, %.2f degrees of freedom", r.Verdict, *s.CI95, *s.DF)
	}
	if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, "very different sizes") {
		t.Errorf("no warning of the sizes: %s", all)
	}
	if r := mustCompare(t, Config{}, b, c); r.Verdict != Better {
		t.Errorf("without clusters: %s", r.Verdict)
	}
}

// reworded replaces the output of every item of a run, but not its score.
func reworded(m *memoryRun) *memoryRun {
	for i := range m.outcomes {
		m.outcomes[i].Output = []byte(`{"other":true}`)
	}
	return m
}

// TestGate_identical checks that the lack of any difference only decides a rule if the outputs
// are known to be identical. If outputs differ but not their scores, 38 items leave 1 −
// 0.025^(1/38) = 9.25 % of changed items possible in either direction.
func TestGate_identical(t *testing.T) {
	half := slices.Repeat([]float64{.5, .7}, 19)
	failing := append(slices.Clone(half[:37]), failed)
	run := func(name string) *memoryRun { return newRun(name, half...) }
	unknown, otherwise := run("unknown"), newRun("otherwise", failing...)
	unknown.outcomes[3].Output = nil
	otherwise.outcomes[37].Class = outcome.InvalidOutput
	cut, cutOtherwise := run("cut"), run("cut otherwise")
	cut.outcomes[3].Output, cutOtherwise.outcomes[3].Output = []byte(`{"value":0.`), []byte(`{"value":0.5`)
	spaced := run("spaced")
	spaced.outcomes[0].Output = []byte(`{ "value" : "0.5" }`)
	few := half[:3]
	for _, tt := range []struct {
		name       string
		base, cand *memoryRun
		rule       string
		want       Answer
		says       string
	}{
		{"identical", run("b"), run("c"), "error <= base + 0.01", Pass, "identical results in all 38 items"},
		{"identical", run("b"), run("c"), "f1 >= base", Pass, "identical results in all 38 items"},
		{"identical", run("b"), run("c"), "f1 > base", Fail, "identical results in all 38 items"},
		{"identical", run("b"), run("c"), "pooled(f1) >= base", Pass, "identical results in all 38 items"},
		{"written otherwise", run("b"), spaced, "f1 >= base", Pass, "identical results"},
		{"failed alike", newRun("b", failing...), newRun("c", failing...), "error <= base", Pass, "identical results"},
		{"three items", newRun("b", few...), newRun("c", few...), "f1 >= base", Pass, "identical results in all 3 items"},
		{"all failed alike", newRun("b", failed, failed), newRun("c", failed, failed), "f1 >= base", Pass, "identical results in all 2 items, all of which failed"},
		{"failed otherwise", newRun("b", failing...), otherwise, "error <= base", Inconclusive, "0, 95 % interval -0.09251 to +0.09251"},
		{"not JSON", cut, cutOtherwise, "error <= base + 0.01", Inconclusive, "0, 95 % interval -0.09251 to +0.09251"},
		{"not known", run("b"), unknown, "error <= base + 0.01", Inconclusive, "0, 95 % interval -0.09251 to +0.09251"},
		{"reworded", run("b"), reworded(run("c")), "error <= base + 0.01", Inconclusive, "0, 95 % interval -0.09251 to +0.09251"},
		{"reworded", run("b"), reworded(run("c")), "error <= base + 0.1", Pass, "+0.0925"},
		{"reworded", run("b"), reworded(run("c")), "f1 >= base - 0.02", Inconclusive, "-0.0925"},
		{"reworded", run("b"), reworded(run("c")), "f1 > base", Inconclusive, "+0.0925"},
		{"three reworded", newRun("b", few...), reworded(newRun("c", few...)), "error <= base + 0.5", Inconclusive, "3 items, too few"},
	} {
		r := mustCompare(t, Config{Gate: Gate{Rules: []Rule{mustRule(t, tt.rule)}}}, tt.base, tt.cand)
		if got := r.Gate.Rules[0]; got.Answer != tt.want || !strings.Contains(got.Reason, tt.says) || r.Identical != strings.HasPrefix(tt.says, "identical") {
			t.Errorf("%s, %s: %s, %s; want %s, %s", tt.name, tt.rule, got.Answer, got.Reason, tt.want, tt.says)
		}
		if r.Identical && r.Primary().CI95 != nil {
			t.Errorf("%s: interval %v", tt.name, *r.Primary().CI95)
		}
		if r.Verdict != Same {
			t.Errorf("%s: %s", tt.name, r.Verdict)
		}
	}
}

// TestVerdict_noWidth checks that there is no interval and no claim if all items changed by the
// same. Cost has no interval then, either.
func TestVerdict_noWidth(t *testing.T) {
	base, cand := newRun("b", slices.Repeat([]float64{.6, .8}, 40)...), newRun("c", slices.Repeat([]float64{.5, .7}, 40)...)
	withCost(cand, .03)
	r := mustCompare(t, Config{Gate: Gate{Rules: []Rule{mustRule(t, "f1 >= base - 0.2"), mustRule(t, "pooled(f1) >= base - 0.2")}}}, base, cand)
	s := r.Primary()
	if s.CI95 != nil || s.SE != nil || s.Detectable != nil || s.Pooled.CI95 != nil || r.Cost.CI95 != nil || s.Verdict != Unclear || r.Gate.Answer != Inconclusive {
		t.Errorf("%+v, pooled %+v, cost %+v, gate %+v", s, s.Pooled, r.Cost, r.Gate)
	}
	for text, all := range map[string]string{r.Gate.Rules[0].Reason: "it changed by the same in all of 80 items", strings.Join(r.Warnings, "\n"): "f1 changed by the same in all of 80 items"} {
		if !strings.Contains(text, all) {
			t.Errorf("%q says nothing of %q", text, all)
		}
	}
	// A yes/no score has an interval: all 80 items changed, but 4.5 % might not, or in the other
	// direction.
	r = mustCompare(t, Config{Metric: "perfect"}, newRun("b", slices.Repeat([]float64{.5}, 80)...), newRun("c", slices.Repeat([]float64{1}, 80)...))
	if s := r.Primary(); s.CI95 == nil || math.Abs(s.CI95[0]-2*math.Pow(.025, 1./80)+1) > 1e-9 || s.CI95[1] != 1 || s.Verdict != Better {
		t.Errorf("%+v", s)
	}
}

// TestVerdict_candidates checks that verdict and gate use the corrected p-value: 2/2^6 with one
// candidate, three times that with three.
func TestVerdict_candidates(t *testing.T) {
	c := Config{Gate: Gate{Rules: []Rule{mustRule(t, "f1 > base"), mustRule(t, "f1 >= base - 0.05")}}}
	base := newRun("b", slices.Repeat([]float64{.5}, 30)...)
	var candidates []Source
	for i := range 3 {
		values := slices.Repeat([]float64{.5}, 30)
		for j := range 6 {
			values[i+j] = .6 + float64(i)/100
		}
		candidates = append(candidates, newRun(fmt.Sprint("c", i), values...))
	}
	for _, tt := range []struct {
		candidates []Source
		p          float64
		verdict    Verdict
		better     Answer
	}{
		{candidates[:1], 2. / 64, Better, Pass},
		{candidates, 6. / 64, Unclear, Inconclusive},
		// A candidate without any difference does not count.
		{[]Source{candidates[0], newRun("same", slices.Repeat([]float64{.5}, 30)...)}, 2. / 64, Better, Pass},
	} {
		out, err := c.Compare(t.Context(), base, tt.candidates...)
		if err != nil {
			t.Fatal(err)
		}
		r := out.Candidates[0]
		s := r.Primary()
		if s.CI95[0] <= 0 || *s.P != 2./64 || *s.PHolm != tt.p || r.Verdict != tt.verdict || s.Verdict != tt.verdict {
			t.Errorf("%d candidates: p %v, corrected %v, %s", len(tt.candidates), *s.P, *s.PHolm, r.Verdict)
		}
		if rules := r.Gate.Rules; rules[0].Answer != tt.better || rules[1].Answer != Pass || (tt.better == Inconclusive) != strings.Contains(rules[0].Reason, "p (Holm) of at most 0.05, and it is 0.0938") {
			t.Errorf("%d candidates: %+v", len(tt.candidates), rules)
		}
	}
}

// TestVerdict_secondary checks that the verdict of a secondary score uses the correction over the
// secondary scores, of which those that differ alike count once.
func TestVerdict_secondary(t *testing.T) {
	run := func(name string, gain float64, also ...string) *memoryRun {
		m := newRun(name, slices.Repeat([]float64{.5, .6}, 15)...)
		for i := range m.outcomes {
			add := func(score string, v float64) {
				m.outcomes[i].Scores = append(m.outcomes[i].Scores, outcome.Score{Name: score, Value: &v})
			}
			v := .5
			if i < 7 {
				v += gain
			}
			add("second", v)
			add("equal", v)
			add("mirrored", 1-v)
			for _, other := range also {
				add(other, .5+gain*float64((i+len(other))%3-1))
			}
		}
		return m
	}
	for _, tt := range []struct {
		also    []string
		p       float64
		verdict Verdict
	}{
		{nil, 2. / 128, Better}, // "error" and "perfect" do not differ, and do not count
		{[]string{"x", "xx", "xxx"}, 4 * 2. / 128, Unclear},
	} {
		r := mustCompare(t, Config{}, run("b", 0, tt.also...), run("c", .1, tt.also...))
		for _, s := range r.Scores {
			want := map[string]Verdict{"second": tt.verdict, "equal": tt.verdict, "mirrored": map[Verdict]Verdict{Better: Worse, Unclear: Unclear}[tt.verdict]}[s.Name]
			if want != "" && (*s.P != 2./128 || *s.PHolm != tt.p || s.Verdict != want) {
				t.Errorf("%d more scores: %s has p %v, corrected %v, is %s", len(tt.also), s.Name, *s.P, *s.PHolm, s.Verdict)
			}
		}
	}
}
