package report

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"

	"pgregory.net/rapid"
)

// newLeaderboard has a run on the Pareto front, one that is not on it, one with a partly unknown
// cost, and one that cannot be compared.
func newLeaderboard() compare.Leaderboard {
	run := func(rank int, name string, mean, cost float64, front, tied bool) compare.Ranked {
		r := compare.Ranked{Rank: rank, Mean: &mean, CI95: &[2]float64{mean - .05, mean + .05}, N: 60, CostPerItem: &cost, Front: &front, Tied: tied}
		r.Summary = summary()
		r.Summary.Run.Name = name
		return r
	}
	runs := []compare.Ranked{
		run(1, "nightly-gpt-4o-staging-t0", .81, .0042, true, true),
		run(2, "nightly-gpt-4o-production-t0", .8, .0051, false, true),
		run(3, "nightly-gpt-4o-mini-production-t0", .7, .0002, true, false),
		run(4, "nightly-other", .2, .0001, false, false),
	}
	runs[1].Gate = &compare.GateResult{Answer: compare.Fail, Rules: []compare.RuleResult{{Rule: "entity_f1 >= 0.85", Answer: compare.Fail, Reason: "entity_f1 is 0.8"}}}
	runs[2].CostPartly, runs[2].Front = true, nil
	runs[3].Mean, runs[3].CI95, runs[3].CostPerItem, runs[3].Front, runs[3].Rank = nil, nil, nil, nil, 0
	pair := func(first, second int, d, p float64, verdict compare.Verdict) compare.Pair {
		return compare.Pair{First: runs[first].Summary.Run.Name, Second: runs[second].Summary.Run.Name, N: 60, Difference: &d,
			CI95: &[2]float64{d - .04, d + .04}, P: &p, PHolm: &p, Verdict: verdict}
	}
	none := func(first int) compare.Pair {
		return compare.Pair{First: runs[first].Summary.Run.Name, Second: "nightly-other", Verdict: compare.Unclear,
			Incompatible: []compare.Mismatch{{What: "fingerprint of the dataset", Base: "f00d", Candidate: "beef"}, {What: "the run nightly-other is not finished"}}}
	}
	return compare.Leaderboard{
		Metric: "entity_f1", Seed: 1, Runs: runs, Warnings: []string{"4 runs, 6 pairs: p (Holm) and verdicts allow for that, intervals do not"},
		Pairs: []compare.Pair{pair(0, 1, -.01, .42, compare.Unclear), pair(0, 2, -.11, .0001, compare.Worse), none(0), pair(1, 2, -.1, .0002, compare.Worse), none(1), none(2)},
	}
}

func TestLeaderboard_golden(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		opt := Options{Width: width, Where: []string{"experiment show nightly-gpt-4o-staging-t0", "https://langfuse.example/project/p/datasets/d/compare?runs=a&runs=b"}}
		goldenPage(t, fmt.Sprintf("leaderboard-%d.txt", width), opt, func(w io.Writer) error { return Leaderboard(w, newLeaderboard(), opt) })
	}
	whole := printed(t, func(w io.Writer) error { return Leaderboard(w, newLeaderboard(), Options{Whole: true}) })
	golden(t, "leaderboard-whole.txt", whole)
	if err := Leaderboard(brokenWriter{}, newLeaderboard(), Options{}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

// TestLeaderboard_equal checks that runs with the same mean share a rank, in JSON, in both tables
// and on the page, and that a run without a mean has none.
func TestLeaderboard_equal(t *testing.T) {
	l := newLeaderboard()
	l.Runs[1].Rank = 1
	text := printed(t, func(w io.Writer) error { return Leaderboard(w, l, Options{Whole: true}) })
	for _, want := range []string{`\n  1  nightly-gpt-4o-staging-t0 .*\n  1  nightly-gpt-4o-production-t0 .*\n  3  nightly-gpt-4o-mini.*\n  –  nightly-other`,
		`1 nightly-gpt-4o-staging-t0 +1 nightly-gpt-4o-production-t0 `, `3 nightly-gpt-4o-mini-production-t0 +– nightly-other`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestLeaderboard_anything checks the layout for untrusted names and reasons.
func TestLeaderboard_anything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLeaderboard()
		l.Metric = rapid.String().Draw(t, "metric")
		l.Runs[1].Summary.Run.Name = rapid.SampledFrom([]string{hostile, "", "名前名前名前名前"}).Draw(t, "name")
		l.Pairs[2].Second, l.Pairs[2].Incompatible[0].Base = hostile, hostile
		l.Warnings[0] = hostile
		keep := rapid.IntRange(0, 4).Draw(t, "runs")
		l.Runs = l.Runs[:keep]
		opt := Options{Width: rapid.IntRange(40, 200).Draw(t, "width"), Color: rapid.Bool().Draw(t, "colour")}
		checkLayout(t, printed(t, func(w io.Writer) error { return Leaderboard(w, l, opt) }), opt)
	})
}

// TestRegoldText_noGates: a table without rows leaves no title above what follows.
func TestRegoldText_noGates(t *testing.T) {
	r := Regold{Metric: "f1", Ranks: []RankShift{{Run: "a", Rescored: "b"}}}
	text := printed(t, func(w io.Writer) error { return RegoldText(w, r, Options{}) })
	for _, title := range []string{"Verdicts", "Gates"} {
		if strings.Contains(text, title) {
			t.Errorf("%s is a title without a table:\n%s", title, text)
		}
	}
}

// TestMovesText checks that a small change is not rounded to none.
func TestMovesText(t *testing.T) {
	r := compare.MovesResult{Scorer: outcome.Scorer{Primary: "f1"}, Items: 1,
		Scores: []compare.MovedScore{{Score: "f1", Before: new(0.5), After: new(0.50001), NOld: 1, NNew: 1, Up: 1}},
		Moved:  []compare.MovedItem{{Item: "a", Trial: 1, Score: "f1", Before: 0.5, After: 0.50001}}}
	text := printed(t, func(w io.Writer) error { return MovesText(w, r, Options{}) })
	if strings.Count(text, "+0.00001") != 2 || strings.Contains(text, "+0.000 ") {
		t.Error(text)
	}
}
