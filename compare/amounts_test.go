package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// cautious is a Source that implements UncheckedSource.
type cautious struct{ *memoryRun }

func (c cautious) Unchecked() []string { return []string{"its " + c.name + " was not looked at"} }

func TestCompare_amounts(t *testing.T) {
	base, cand := newRun("b", .5, .6, .7, .8), withCost(newRun("c", .5, .6, .7, .8), .03)
	cand.outcomes[3].CostUSD = nil
	for i := range base.outcomes {
		cand.outcomes[i].Latency *= 4
	}
	base.outcomes[0].FromCache, base.outcomes[0].Latency = 1, 1 // a cache hit tells nothing about the model
	base.outcomes[1].Latency = 0
	r := mustCompare(t, Config{}, base, cand)
	// Three items whose cost is known in both: 0.01 and 0.03 each, three times as much.
	if c := r.Cost; c.N != 3 || !near(c.Base, .01) || !near(c.Candidate, .03) || !near(c.Difference, .02) || !near(c.Ratio, 3) {
		t.Errorf("cost %+v", c)
	}
	if l := r.Latency; l.N != 2 || !near(l.Base, 100) || !near(l.Candidate, 400) || !near(l.Ratio, 4) {
		t.Errorf("latency %+v", l)
	}
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "the cost of 0 items of the base and 1 of the candidate is unknown") {
		t.Errorf("%q", text)
	}
	// There is no warning if as many are unknown in both, or all in one.
	for name, tt := range map[string][2]*memoryRun{
		"both": {withCost(newRun("b", .5, .6), -1), withCost(newRun("c", .5, .6), -1)},
		"one":  {newRun("b", .5, .6), withCost(newRun("c", .5, .6), -1)},
		"none": {withCost(newRun("b", .5, .6), 0), newRun("c", .5, .6)},
	} {
		r := mustCompare(t, Config{}, tt[0], tt[1])
		if text := strings.Join(r.Warnings, "\n"); strings.Contains(text, "unknown") || r.Cost.Ratio != nil {
			t.Errorf("%s: %q, %+v", name, text, r.Cost)
		}
	}
	// The cost of an item is unknown if that of a trial is.
	second := newOutcome("item-0001", .6)
	second.Trial, second.CostUSD = 2, nil
	cand.outcomes = slices.Insert(cand.outcomes, 2, second)
	if r := mustCompare(t, Config{}, base, cand); r.Cost.N != 2 {
		t.Errorf("cost %+v", r.Cost)
	}
}

// TestCompare_asked checks the warnings of runs that were not asked alike: with second attempts,
// and with answers from the cache, which cost nothing.
func TestCompare_asked(t *testing.T) {
	const retried = "3 of 9 items of the candidate are second or later attempts, 0 of 9 of the base: " +
		"compare runs that were asked equally often"
	const cached = "7 of 9 items of the candidate came from the cache, 1 of 9 of the base: " +
		"cost is what was paid, and answers from there cost nothing"
	for name, tt := range map[string]struct {
		retried, cached [2]int // base, candidate
		cost            [2]float64
		want            []string
	}{
		"as often":                 {[2]int{3, 3}, [2]int{}, [2]float64{.01, .01}, nil},
		"retried":                  {[2]int{0, 3}, [2]int{}, [2]float64{.01, .01}, []string{retried}},
		"cached":                   {[2]int{}, [2]int{1, 7}, [2]float64{.01, .01}, []string{cached}},
		"cached, no prices":        {[2]int{}, [2]int{1, 7}, [2]float64{-1, -1}, nil},
		"cached, no price of base": {[2]int{}, [2]int{1, 7}, [2]float64{-1, 0}, []string{cached}},
		"scored again":             {[2]int{}, [2]int{1, 7}, [2]float64{}, nil},
	} {
		scores := slices.Repeat([]float64{.5}, 9)
		runs := [2]*memoryRun{newRun("b", scores...), newRun("c", scores...)}
		for i, run := range runs {
			withCost(run, tt.cost[i])
			for j := range run.outcomes {
				if j < tt.retried[i] {
					run.outcomes[j].Attempt = 2
				}
				if j < tt.cached[i] {
					run.outcomes[j].FromCache = 1
				}
			}
		}
		got := mustCompare(t, Config{}, runs[0], runs[1]).Warnings[1:] // without that of few items
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestCompare_groups(t *testing.T) {
	add := func(m *memoryRun, groups ...outcome.Group) *memoryRun {
		m.outcomes[0].Groups = groups
		return m
	}
	group := func(kind, name string, expected, extracted int64) outcome.Group {
		return outcome.Group{Kind: kind, Name: name, Expected: expected, Extracted: extracted}
	}
	groups := []outcome.Group{group("type", "c", 1, 5), group("type", "b", 1, 4), group("type", "a", 1, 4), group("type", "z", 2, 0), group("kind", "k", 0, 1)}
	r := mustCompare(t, Config{}, add(newRun("b", .5), groups...), add(newRun("c", .5), groups...))
	got := cli.Each(r.Groups, func(g Group) string { return g.Name })
	if diff := cmp.Diff([]string{"k", "z", "c", "a", "b"}, got); diff != "" {
		t.Error(diff)
	}
	for _, tt := range [][2]*memoryRun{{add(newRun("b", .5)), newRun("c", .5)}, {newRun("b", .5), add(newRun("c", .5))}} {
		if r := mustCompare(t, Config{}, tt[0], tt[1]); r.Groups == nil || len(r.Groups) != 0 {
			t.Errorf("a run without counts by type: %+v", r.Groups)
		}
	}
}

// TestCompare_worse checks regressions, also of a score for which less is better.
func TestCompare_worse(t *testing.T) {
	base, cand := newRun("b", .5, failed, .5, failed), newRun("c", failed, .5, .5, failed)
	r := mustCompare(t, Config{Metric: "error"}, base, cand)
	if r.Regressions != 1 || !slices.Equal(r.Regressed, []ItemChange{{"item-0000", 0, 1, 1}}) {
		t.Errorf("%d: %+v", r.Regressions, r.Regressed)
	}
	// Of two equal changes, the loss comes first.
	if len(r.Changed) != 2 || r.Changed[0].Delta != 1 || r.Changed[1].Delta != -1 {
		t.Errorf("%+v", r.Changed)
	}
	// An item did not change if its score is defined in one run only, or differs by less than
	// Epsilon.
	r = mustCompare(t, Config{}, newRun("b", .5, undefined, .5, .5), newRun("c", undefined, .5, .5+Epsilon/2, .4))
	if len(r.Changed) != 1 || r.Changed[0].Item != "item-0003" || r.Changed[0].Candidate != .4 {
		t.Errorf("%+v", r.Changed)
	}
	if s := r.Primary(); s.Ties != 1 || !near(s.Difference, -.05) {
		t.Errorf("%+v", s)
	}
	bad := func(json.RawMessage) ([]string, error) { return nil, errors.New("not a list") }
	c := Config{Matches: bad}
	if _, err := c.Compare(t.Context(), newRun("b", .5), newRun("c", .6)); err == nil || !strings.Contains(err.Error(), `item "item-0000": not a list`) {
		t.Error(err)
	}
}

// TestCompare_pooledClusters checks that intervals of pooled values use clusters. The four items
// of a document change alike, so the interval is twice as wide.
func TestCompare_pooledClusters(t *testing.T) {
	var b, c []float64
	for i := range 4 * 80 {
		b, c = append(b, .5), append(c, .5+.1*float64(i/4%3-1))
	}
	base, cand := newRun("b", b...), newRun("c", c...)
	plain, clustered := mustCompare(t, Config{}, base, cand).Primary().Pooled, mustCompare(t, Config{ClusterBy: "source.doc"}, base, cand).Primary().Pooled
	wide := (clustered.CI95[1] - clustered.CI95[0]) / (plain.CI95[1] - plain.CI95[0])
	if plain.N != 320 || clustered.N != 320 || plain.Difference != clustered.Difference || wide < 1.8 || wide > 2.2 {
		t.Errorf("%+v, clustered %+v: %v times as wide", plain, clustered, wide)
	}
	cand.outcomes[7].Scores[0].Ratio = nil
	if p := mustCompare(t, Config{}, base, cand).Primary().Pooled; p != nil {
		t.Errorf("one item has no counts: %+v", p)
	}
}

func TestCompare_says(t *testing.T) {
	custom := func(m *memoryRun, fingerprint, uncertified string) *memoryRun {
		m.header.Scorer.Custom = []outcome.CustomScorer{{Name: "tone", Evaluator: "e", Fingerprint: fingerprint, Uncertified: uncertified}}
		return m
	}
	const uncertified = "tone comes from an evaluator that is not certified: never asked"
	for name, tt := range map[string]struct {
		base, cand *memoryRun
		want       string
		says       bool
	}{
		"undefined": {newRun("b", .5, undefined, undefined), newRun("c", undefined, .5, undefined),
			"different coverage: f1 is undefined in 2 items of one run only (base 1, candidate 1), left out of its comparison", true},
		"defined":           {newRun("b", .5, undefined), newRun("c", .5, undefined), "different coverage: f1", false},
		"not certified":     {custom(newRun("b", .5), "f", ""), custom(newRun("c", .5), "f", "never asked"), uncertified, true},
		"certified":         {custom(newRun("b", .5), "f", ""), custom(newRun("c", .5), "f", ""), "tone", false},
		"another evaluator": {custom(newRun("b", .5), "f", "never asked"), custom(newRun("c", .5), "g", "never asked"), uncertified, false},
		"few clusters":      {newRun("b", slices.Repeat([]float64{.5, .6}, 16)...), newRun("c", slices.Repeat([]float64{.5, .7}, 16)...), "few clusters (8): only large differences can be found", true},
		"clusters":          {newRun("b", slices.Repeat([]float64{.5, .6}, 20)...), newRun("c", slices.Repeat([]float64{.5, .7}, 20)...), "few clusters", false},
	} {
		text := strings.Join(mustCompare(t, Config{ClusterBy: "source.doc"}, tt.base, tt.cand).Warnings, "\n")
		if strings.Contains(text, tt.want) != tt.says {
			t.Errorf("%s: %q", name, text)
		}
	}
	c := Config{}
	out, err := c.Compare(t.Context(), cautious{newRun("b", .5)}, cautious{newRun("c", .5)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the base: its b was not looked at", "the candidate: its c was not looked at"} {
		if !slices.Contains(out.Candidates[0].Warnings, want) {
			t.Errorf("no %q in %q", want, out.Candidates[0].Warnings)
		}
	}
	for _, s := range []outcome.Summary{out.Base.Summary, out.Candidates[0].Candidate.Summary} {
		if s.Status != outcome.Complete || s.Items.Planned != 1 {
			t.Errorf("%+v", s)
		}
	}
	without := newRun("b", .5)
	without.header.Scorer.Primary = ""
	if _, err := c.Compare(t.Context(), without, newRun("c", .5)); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "names no primary score") {
		t.Error(err)
	}
	c.Gate.Inconclusive = "maybe"
	if _, err := c.Compare(t.Context(), newRun("b", .5), newRun("c", .5)); err == nil || !strings.Contains(err.Error(), "expected fail, pass or 6") {
		t.Error(err)
	}
}

// TestCompare_beyond checks that a score with values above 1 that change by 1 is not a yes/no
// score.
func TestCompare_beyond(t *testing.T) {
	counts := func(name string, v float64) *memoryRun {
		m := newRun(name, slices.Repeat([]float64{.5}, 30)...)
		for i := range m.outcomes {
			m.outcomes[i].Scores = append(m.outcomes[i].Scores, outcome.Score{Name: "count", Value: new(2 + v*float64(i%2))})
		}
		return m
	}
	for _, s := range mustCompare(t, Config{}, counts("b", 0), counts("c", 1)).Scores {
		// Half of 30 rise by 1: 0.5 ± 2.045·√(0.25/29).
		if s.Name == "count" && (s.CI95 == nil || s.CI95[0] < .309 || s.CI95[0] > .311 || s.CI95[1] < .689 || s.CI95[1] > .691) {
			t.Errorf("%v", *s.CI95)
		}
	}
}

// TestCompare_repeats checks that scores with equal differences of different items do not repeat
// each other.
func TestCompare_repeats(t *testing.T) {
	run := func(name string, gain float64) *memoryRun {
		m := newRun(name, slices.Repeat([]float64{.5, .6}, 15)...)
		for i := range m.outcomes {
			for k, score := range []string{"even", "odd"} {
				if i%2 == k {
					m.outcomes[i].Scores = append(m.outcomes[i].Scores, outcome.Score{Name: score, Value: new(.5 + gain*float64(i/2%3))})
				}
			}
		}
		return m
	}
	for _, s := range mustCompare(t, Config{}, run("b", 0), run("c", .1)).Scores {
		if s.Repeats != "" && (s.Name == "even" || s.Name == "odd") {
			t.Errorf("%s repeats %s", s.Name, s.Repeats)
		}
		if s.Name == "error" && s.Repeats != "" {
			t.Errorf("what does not differ repeats %s", s.Repeats)
		}
	}
}

func TestFlips(t *testing.T) {
	at := func(threshold string, difference float64) Setting {
		return Setting{Threshold: threshold,
			Score: Score{Name: "f1", Difference: &difference, CI95: &[2]float64{-1, 1}, Verdict: Unclear}}
	}
	claimed := at("0.9", .2)
	claimed.Score.Verdict = Better
	list := []Setting{claimed, at("0.8", 0), at("0.7", -.1), at("", -.5), {Threshold: "0.75"}, at("0.6", -.2)}
	flips := Flips(list)
	if len(flips) != 1 || flips[0].Below.Threshold != "0.7" || flips[0].At.Threshold != "0.9" {
		t.Fatalf("%+v", flips)
	}
	want := "the ranking by f1 flips at threshold 0.9: up to 0.7 b is ahead (-0.1, no significant difference), from 0.9 on c is ahead (+0.2, a significant difference)"
	if got := flips[0].Warning("b", "c"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	flips[0].Below.Score.Verdict = Worse
	if got := flips[0].Warning("b", "c"); !strings.Contains(got, "b is ahead (-0.1, a significant difference)") {
		t.Error(got)
	}
	flips[0].At.Score.Verdict, flips[0].At.Score.CI95 = Unclear, nil
	if got := flips[0].Warning("b", "c"); !strings.Contains(got, "c is ahead (+0.2, not decided)") {
		t.Error(got)
	}
	lower := at("0.5", -.1)
	lower.Score.LowerIsBetter = true
	if flips := Flips([]Setting{lower, at("0.6", .1)}); len(flips) != 0 {
		t.Errorf("less is better: %+v", flips)
	}
	if flips := Flips(list[1:]); flips == nil || len(flips) != 0 {
		t.Errorf("%+v", flips)
	}
}

func TestRank_says(t *testing.T) {
	l := mustRank(t, Config{}, newRun("a", 1, 1, failed), newRun("b", 0, 0, .5))
	want := []string{"a: 1 of 3 outcomes failed, and count as 0 wherever their expected output defines the score", "few items: intervals are rough, and only large differences can be found"}
	if diff := cmp.Diff(want, l.Warnings); diff != "" {
		t.Error(diff)
	}
	none := mustRank(t, Config{}, newRun("n", undefined, undefined), newRun("a", 1, 1)).Runs[1]
	if none.Summary.Run.Name != "n" || none.Rank != 0 || none.Tied {
		t.Errorf("without a mean: %+v", none)
	}
	if p := l.ToBest(1); p.First != "a" || p.Second != "b" || l.ToBest(0).First != "" || l.ToBest(2).First != "" {
		t.Errorf("%+v", p)
	}
	var odd []*memoryRun
	for i := range 3 {
		odd = append(odd, levelRun(fmt.Sprint("r", i), 20, .5-float64(i)/10, 0))
	}
	odd[2].header.Scorer.Version = "2"
	if err := mustRank(t, Config{}, odd...).Err(); strings.Count(err.Error(), "r2 cannot be compared") != 1 {
		t.Errorf("once for every second run: %v", err)
	}
}
