package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// withCost sets the cost of every outcome of a run; negative is unknown.
func withCost(m *memoryRun, cost float64) *memoryRun {
	for i := range m.outcomes {
		m.outcomes[i].CostUSD = &cost
		if cost < 0 {
			m.outcomes[i].CostUSD = nil
		}
	}
	return m
}

// levelRun returns a run of n items whose scores are slightly above v, and shifted by d in every
// third item.
func levelRun(name string, n int, v, d float64) *memoryRun {
	var scores []float64
	for i := range n {
		s := v + float64(i%5)/50
		if i%3 == 0 {
			s += d
		}
		scores = append(scores, math.Round(s*100)/100)
	}
	return newRun(name, scores...)
}

func mustRank(t interface {
	Helper()
	Fatal(...any)
	Context() context.Context
}, cfg Config, runs ...*memoryRun) Leaderboard {
	t.Helper()
	out, err := cfg.Rank(t.Context(), cli.Each(runs, func(r *memoryRun) Source { return r })...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRank_byHand(t *testing.T) {
	// dear is better by 0.3 in every item; close differs from it in one of three.
	dear, close := withCost(levelRun("dear", 30, .6, 0), .05), withCost(levelRun("close", 30, .6, -.01), .02)
	cheap, worst := withCost(levelRun("cheap", 30, .3, -.02), .001), withCost(levelRun("worst", 30, .2, -.03), .002)
	unknown := withCost(levelRun("unknown", 30, .1, -.04), -1)
	l := mustRank(t, Config{}, cheap, unknown, dear, worst, close)
	var got []string
	for _, r := range l.Runs {
		front := "unknown"
		if r.Front != nil {
			front = fmt.Sprint(*r.Front)
		}
		got = append(got, fmt.Sprint(r.Rank, " ", r.Summary.Run.Name, " front ", front, " tied ", r.Tied))
	}
	want := []string{"1 dear front true tied true", "2 close front true tied false", "3 cheap front true tied false", "4 worst front false tied false", "5 unknown front unknown tied false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// (0 + 1 + 2 + 3 + 4)/5/50 = 0.04 over the level.
	if r := l.Runs[0]; !near(r.Mean, .64) || r.N != 30 || r.CI95 == nil || !near(r.CostPerItem, .05) {
		t.Errorf("%+v", r)
	}
	if len(l.Pairs) != 10 || l.Pairs[0].First != "dear" || l.Pairs[0].Second != "close" || l.Metric != "f1" {
		t.Fatalf("%+v", l.Pairs)
	}
	if p := l.Pairs[0]; !near(p.Difference, -.1/30) || p.Losses != 10 || p.Ties != 20 || p.Verdict != Worse {
		t.Errorf("%+v", p)
	}
	raw := make([]float64, len(l.Pairs))
	for i, p := range l.Pairs {
		raw[i] = *p.P
	}
	for i, holm := range stats.Holm(raw) {
		if *l.Pairs[i].PHolm != holm {
			t.Errorf("pair %d: %v, want %v", i, *l.Pairs[i].PHolm, holm)
		}
	}
	if text := strings.Join(l.Warnings, "\n"); !strings.Contains(text, "5 runs, 10 pairs") || !strings.Contains(text, "the cost of 1 run is not known") {
		t.Errorf("%q", l.Warnings)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}

// TestRank_correction checks that a difference between two runs is claimed, but not if they are
// two of many.
func TestRank_correction(t *testing.T) {
	base := newRun("base", slices.Repeat([]float64{.5}, 30)...)
	some := newRun("some", append(slices.Repeat([]float64{.6}, 7), slices.Repeat([]float64{.5}, 23)...)...)
	if l := mustRank(t, Config{}, base, some); l.Pairs[0].Verdict != Worse || l.Runs[1].Tied { // p = 2/2^7
		t.Errorf("%+v", l.Pairs[0])
	}
	runs := []*memoryRun{some, base}
	for i := range 3 {
		runs = append(runs, newRun(fmt.Sprint("same", i), slices.Repeat([]float64{.5}, 30)...))
	}
	l := mustRank(t, Config{}, runs...)
	for _, p := range l.Pairs {
		if p.First == "some" && (p.Verdict != Unclear || *p.P >= .05 || *p.PHolm < .05) {
			t.Errorf("%+v", p)
		}
		if p.First != "some" && p.Verdict != Same {
			t.Errorf("%+v", p)
		}
	}
	for i, r := range l.Runs {
		if !r.Tied || r.Rank != min(i+1, 2) {
			t.Errorf("%+v", r)
		}
	}
}

func TestRank_incompatible(t *testing.T) {
	a, b, c := levelRun("a", 30, .6, 0), levelRun("b", 30, .5, 0), levelRun("c", 30, .4, 0)
	b.header.Dataset.Fingerprint = "beef"
	c.footer = nil
	c.outcomes = c.outcomes[:29]
	l := mustRank(t, Config{}, a, b, c)
	err := l.Err()
	if cli.ExitCode(err) != cli.ExitIncompatible {
		t.Fatal(err)
	}
	for _, want := range []string{"a and b cannot be compared:\nfingerprint of the dataset: f00d in the first, beef in the second", "a and c cannot be compared:", "the run c is not complete (unfinished)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
	if len(l.Runs) != 3 || l.Runs[1].Tied || l.Pairs[0].PHolm != nil {
		t.Errorf("%+v", l)
	}
	c.footer = &outcome.Footer{Status: outcome.Complete, Planned: 30}
	if err := mustRank(t, Config{}, a, c).Err(); err == nil || !strings.Contains(err.Error(), "1 item without an outcome in c: item-0029") {
		t.Error(err)
	}
	comparer := Config{Metric: "nonsense"}
	if _, err := comparer.Rank(t.Context(), a); cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
	if _, err := comparer.Rank(t.Context()); err == nil {
		t.Error("no runs are not an error")
	}
}

func TestRank_few(t *testing.T) {
	l := mustRank(t, Config{}, newRun("a", 1, 1, 1), newRun("b", 0, 0, 0))
	if l.Pairs[0].Incompatible == nil {
		t.Error("null stands where an empty list belongs")
	}
	if p := l.Pairs[0]; p.Verdict != Unclear || p.PHolm != nil || !l.Runs[1].Tied {
		t.Errorf("three items claim something: %+v", p)
	}
	if l := mustRank(t, Config{ClusterBy: "source.doc"}, levelRun("a", 16, .6, 0), levelRun("b", 16, .3, 0)); l.Pairs[0].Verdict != Unclear {
		t.Errorf("four clusters claim something: %+v", l.Pairs[0])
	}
}

// TestRank_properties checks that the order of the sources changes nothing, that runs are ordered
// by the metric in its direction, and that the front is what comparing all pairs of runs gives.
func TestRank_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "runs")
		draw := rapid.SampledFrom([]float64{0, .1, .25, .5, .5, .8, 1, failed, undefined})
		var runs []*memoryRun
		for i := range n {
			scores := append(rapid.SliceOfN(draw, 7, 7).Draw(t, "scores"), .5)
			runs = append(runs, withCost(newRun(fmt.Sprint("r", i), scores...), rapid.SampledFrom([]float64{-1, 0, .1, .2}).Draw(t, "cost")))
		}
		metric := rapid.SampledFrom([]string{"f1", "error"}).Draw(t, "metric")
		l := mustRank(t, Config{Metric: metric}, runs...)
		again := mustRank(t, Config{Metric: metric}, rapid.Permutation(runs).Draw(t, "order")...)
		if diff := cmp.Diff(l, again); diff != "" {
			t.Fatal(diff)
		}
		sign := map[bool]float64{true: -1, false: 1}[metric == "error"]
		for i, r := range l.Runs {
			if i > 0 && sign**r.Mean > sign**l.Runs[i-1].Mean {
				t.Fatalf("%v stands behind %v", *r.Mean, *l.Runs[i-1].Mean)
			}
			if (r.Front == nil) != (r.CostPerItem == nil) {
				t.Fatalf("%+v", r)
			}
			if r.Front == nil {
				continue
			}
			front := true
			for _, o := range l.Runs {
				if o.CostPerItem != nil && sign**o.Mean >= sign**r.Mean && *o.CostPerItem <= *r.CostPerItem &&
					(*o.Mean != *r.Mean || *o.CostPerItem != *r.CostPerItem) {
					front = false
				}
			}
			if front != *r.Front {
				t.Fatalf("%s on the front: %v", r.Summary.Run.Name, *r.Front)
			}
		}
		if len(l.Pairs) != n*(n-1)/2 {
			t.Fatalf("%d pairs", len(l.Pairs))
		}
	})
}
