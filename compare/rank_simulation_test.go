package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
)

// equalRuns draws n runs of the same items without a true difference. Scores accumulate at 1,
// like real ones.
func equalRuns(rng *rand.Rand, n int) []*memoryRun {
	const items = 30
	easy := make([]float64, items) // the same for all runs
	for i := range easy {
		easy[i] = rng.NormFloat64() / 5
	}
	var runs []*memoryRun
	for k := range n {
		scores := make([]float64, items)
		for i := range scores {
			v := .8 + easy[i] + rng.NormFloat64()/10
			scores[i] = math.Round(20*min(1, max(0, v))) / 20
		}
		runs = append(runs, newRun(fmt.Sprint("r", k), scores...))
	}
	return runs
}

// repetitions returns the number of simulations: 500, or 4,000 if STATS_SIMULATION is full.
func repetitions(t *testing.T) int {
	t.Helper()
	suite.Slow(t, "hundreds of sweeps")
	if os.Getenv("STATS_SIMULATION") == "full" {
		return 4000
	}
	return 500
}

// TestRank_falseAlarms measures how often a difference between any two of five equal runs is
// claimed. Nominal is 5 % for all ten pairs together.
func TestRank_falseAlarms(t *testing.T) {
	repeats := repetitions(t)
	rng := rand.New(rand.NewPCG(11, 7))
	alarms := 0
	for range repeats {
		for _, p := range mustRank(t, Config{Flips: 500, MaxChanged: -1}, equalRuns(rng, 5)...).Pairs {
			if p.Verdict != Unclear && p.Verdict != Same {
				alarms++
				break
			}
		}
	}
	rate := float64(alarms) / float64(repeats)
	t.Logf("%.1f %%", 100*rate)
	if rate > .08 || rate < .005 {
		t.Errorf("a difference is claimed in %.1f %% of sweeps without any", 100*rate)
	}
}

// TestCompare_falseAlarms measures how often any of several candidates that equal the base is
// claimed to differ, or passes "f1 > base". Without the correction it would be as often as any
// raw p-value is at most 0.05.
func TestCompare_falseAlarms(t *testing.T) {
	repeats := repetitions(t)
	counts := []int{1, 3, 5, 10}
	if repeats <= 500 {
		repeats, counts = 200, []int{5}
	}
	for _, n := range counts {
		rng := rand.New(rand.NewPCG(12, uint64(n)))
		c := Config{Flips: 500, MaxChanged: -1, Gate: Gate{Rules: []Rule{mustRule(t, "f1 > base")}}}
		claimed, passed, raw := 0, 0, 0
		for range repeats {
			runs := equalRuns(rng, n+1)
			candidates := cli.Each(runs[1:], func(r *memoryRun) Source { return r })
			out, err := c.Compare(t.Context(), runs[0], candidates...)
			if err != nil {
				t.Fatal(err)
			}
			hit := [3]int{}
			for _, r := range out.Candidates {
				s := r.Primary()
				if r.Verdict == Better || r.Verdict == Worse {
					hit[0] = 1
				}
				if r.Gate.Answer == Pass {
					hit[1] = 1
				}
				if *s.P <= alpha && s.CI95 != nil && (s.CI95[0] > 0 || s.CI95[1] < 0) {
					hit[2] = 1
				}
			}
			claimed, passed, raw = claimed+hit[0], passed+hit[1], raw+hit[2]
		}
		rate := func(k int) float64 { return float64(k) / float64(repeats) }
		t.Logf("%d candidates: claimed %.1f %%, passed %.1f %%, without the correction %.1f %%", n, 100*rate(claimed), 100*rate(passed), 100*rate(raw))
		if rate(claimed) > .07 || rate(passed) > .05 || n == 5 && rate(raw) < .1 {
			t.Errorf("%d candidates: claimed %.3f, passed %.3f, without the correction %.3f", n, rate(claimed), rate(passed), rate(raw))
		}
	}
}
