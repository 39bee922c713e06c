package html

import (
	"errors"
	"io"
	"strings"
	"testing"

	"extraction-experiment/compare"
)

// newLeaderboard has an expensive best run, a cheap one that is nearly as good, and one that is
// worse and more expensive than the second.
func newLeaderboard() compare.Leaderboard {
	run := func(rank int, name string, mean, cost float64, front bool) compare.Ranked {
		r := compare.Ranked{Rank: rank, Mean: &mean, CI95: &[2]float64{mean - .05, mean + .05}, CostPerItem: &cost, Front: &front}
		r.Summary.Run.Name = name
		return r
	}
	l := compare.Leaderboard{Metric: "entity_f1", Runs: []compare.Ranked{run(1, "dear", .9, .004, true), run(2, "cheap", .8, .001, true), run(3, hostile, .7, .002, false)}}
	l.Runs[1].Tied = true
	l.Runs[1].Gate = &compare.GateResult{Answer: compare.Fail, Rules: []compare.RuleResult{{Rule: "entity_f1 >= 0.85", Answer: compare.Fail, Reason: "entity_f1 is 0.8"}}}
	d, p := -.1, .04
	l.Pairs = []compare.Pair{
		{First: "dear", Second: "cheap", Difference: &d, CI95: &[2]float64{-.25, .05}, P: &p, PHolm: &p, Verdict: compare.Unclear},
		{First: "dear", Second: hostile, Incompatible: []compare.Mismatch{{What: "fingerprint of the dataset"}, {What: "another"}}, Verdict: compare.Unclear},
	}
	l.Warnings = []string{hostile}
	return l
}

func TestLeaderboard_equal(t *testing.T) {
	l := newLeaderboard()
	l.Runs[1].Rank = 1
	var b strings.Builder
	if err := Leaderboard(&b, l); err != nil || strings.Count(b.String(), `<td class="num">1</td>`) != 2 {
		t.Errorf("a run as good as the best is not at its place: %v", err)
	}
}

func TestLeaderboard(t *testing.T) {
	page := written(t, func(w io.Writer) error { return Leaderboard(w, newLeaderboard()) })
	wantTexts(t, page,
		"Leaderboard by <bdi>entity_f1</bdi>", "0.850–0.950", "not shown to differ from the best", "$0.0040", "-0.250 to &#43;0.050", "Gate of <bdi>cheap</bdi>: failed",
		"entity_f1 is 0.8", "fingerprint of the dataset", `-0.25`)
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
		t.Error("text of strangers has become an element, or the page a script")
	}
	if err := Leaderboard(fullWriter{}, newLeaderboard()); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if err := Leaderboard(io.Discard, compare.Leaderboard{}); err != nil { // must not panic
		t.Error(err)
	}
}
