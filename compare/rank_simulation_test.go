package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRank_falseAlarms: of five runs that do not differ, how often is any of the
// ten pairs claimed to? Scores pile up at 1, as those of items do; nominal is 5 %
// for all pairs together.
func TestRank_falseAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for some seconds")
	}
	const repeats, n = 500, 30
	rng := rand.New(rand.NewPCG(11, 7))
	alarms := 0
	for range repeats {
		var runs []*memory
		easy := make([]float64, n) // what items have in common
		for i := range easy {
			easy[i] = rng.NormFloat64() / 5
		}
		for k := range 5 {
			scores := make([]float64, n)
			for i := range scores {
				v := .8 + easy[i] + rng.NormFloat64()/10
				scores[i] = math.Round(20*min(1, max(0, v))) / 20
			}
			runs = append(runs, newRun(fmt.Sprint("r", k), scores...))
		}
		for _, p := range ranked(t, Config{Flips: 500}, runs...).Pairs {
			if p.Verdict != Unclear && p.Verdict != Same {
				alarms++
				break
			}
		}
	}
	rate := float64(alarms) / repeats
	t.Logf("%.1f %%", 100*rate)
	if rate > .08 || rate < .005 {
		t.Errorf("a difference is claimed in %.1f %% of sweeps without any", 100*rate)
	}
}
