package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestVerdict_needsIntervalAndP: where the two disagree nothing is claimed.
func TestVerdict_needsIntervalAndP(t *testing.T) {
	rule, err := ParseRule("f1 > base")
	if err != nil {
		t.Fatal(err)
	}
	base := slices.Repeat([]float64{.5}, 38)
	for _, tt := range []struct {
		better  int
		p       float64
		verdict Verdict
		gate    Answer
	}{
		// d of 0.1 in k of 38: mean k/380, SE 0.1·√(k/38·(1−k/38)/37), and the
		// interval is above 0 from k = 4 on; the exact p is 2/2^k.
		{3, .25, Unclear, Inconclusive},
		{4, .125, Unclear, Inconclusive},
		{5, .0625, Unclear, Inconclusive},
		{6, .03125, Better, Pass},
	} {
		cand := slices.Clone(base)
		for i := range tt.better {
			cand[i] = .6
		}
		r := compared(t, Config{Gate: Gate{Rules: []Rule{rule}}}, newRun("b", base...), newRun("c", cand...))
		s := r.Primary()
		if (s.CI95[0] > 0) != (tt.better >= 4) || *s.P != tt.p || r.Verdict != tt.verdict || r.Gate.Answer != tt.gate {
			t.Errorf("%d better: interval %v, p %v, %s, gate %s: %s", tt.better, *s.CI95, *s.P, r.Verdict, r.Gate.Answer, r.Gate.Rules[0].Reason)
		}
	}
}

// TestVerdict_oneLargeCluster: a gain in one source that holds most of the items
// is no gain over the sources.
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
	for _, m := range []*memory{b, c} {
		for i := range m.items {
			m.items[i].Metadata = fmt.Appendf(nil, `{"source":{"doc":"d%d"}}`, doc[i])
		}
	}
	r := compared(t, Config{ClusterBy: "source.doc"}, b, c)
	if s := r.Primary(); r.Verdict != Unclear || s.CI95[0] > 0 || *s.DF > 2 {
		t.Errorf("%s, interval %v, %.2f degrees of freedom", r.Verdict, *s.CI95, *s.DF)
	}
	if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, "very different sizes") {
		t.Errorf("no warning of the sizes: %s", all)
	}
	if r := compared(t, Config{}, b, c); r.Verdict != Better {
		t.Errorf("without clusters: %s", r.Verdict)
	}
}
