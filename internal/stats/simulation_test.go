package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// simulated is a way to draw differences whose true mean is 0, with the limit of
// false alarms from n = 20 on; at n = 10 it is a hundredth more.
type simulated struct {
	name  string
	draw  func(*rand.Rand) float64
	limit float64
}

// nulls are those of the simulation: normal; skewed with 40 % ties, as an
// exponential to the power of 0.7 less its mean; two runs whose item scores pile
// up at 1, so that a third of the items tie and the rest are far from normal;
// and, beyond what differences of scores are like, a whole exponential with
// ties, where every method that assumes no form finds too much.
var nulls = []simulated{
	{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }, 0.07},
	{"skewed, 40 % ties", func(r *rand.Rand) float64 { return tied(r, 0.4, 0.7) }, 0.07},
	{"scores piled up at 1", func(r *rand.Rand) float64 { return piled(r) - piled(r) }, 0.07},
	{"exponential, 40 % ties", func(r *rand.Rand) float64 { return tied(r, 0.4, 1) }, 0.10},
	{"exponential, 60 % ties", func(r *rand.Rand) float64 { return tied(r, 0.6, 1) }, 0.10},
}

// tied is 0 in a share of the items, else a power of an exponential less its mean.
func tied(r *rand.Rand, ties, power float64) float64 {
	if r.Float64() < ties {
		return 0
	}
	return math.Pow(r.ExpFloat64(), power) - math.Gamma(1+power)
}

// piled is a score that is 1 in 55 % of the items and lies on a skewed lattice
// of tenths otherwise.
func piled(r *rand.Rand) float64 {
	if r.Float64() < 0.55 {
		return 1
	}
	return 1 - math.Min(10, math.Ceil(3*r.ExpFloat64()))/10
}

// simulation returns how many comparisons are drawn, how many flips each takes,
// and of which sizes: 4,000 of the main sizes, or with STATS_SIMULATION=full, in
// about a minute, 20,000 of every size. A true rate of 6 % then shows as 5.2 %
// to 6.8 %, or 5.7 % to 6.3 %.
func simulation(t *testing.T, main, all []int) (repeats, flips int, sizes []int) {
	t.Helper()
	if raceDetector {
		t.Skip("arithmetic in one goroutine, ten times slower with the race detector")
	}
	if os.Getenv("STATS_SIMULATION") == "full" {
		return 20_000, 999, all
	}
	return 4000, 399, main
}

// TestSimulation_falseAlarms draws comparisons without any difference and
// counts how often one is claimed at 5 %: by the interval, by the permutation, and
// by both, which a verdict needs. 20,000 repeats gave both, at n = 10, 20, 30 and
// 60: normal 4.6, 5.0, 4.7, 4.7 %; skewed 3.0, 6.0, 6.4, 5.5 %; the exponential
// with 40 % ties 4.9, 8.5, 8.5, 6.5 %, with 60 % ties 1.3, 7.5, 9.0, 7.3 %.
func TestSimulation_falseAlarms(t *testing.T) {
	repeats, flips, sizes := simulation(t, []int{10, 20, 60}, []int{10, 20, 30, 60, 100, 200})
	for _, null := range nulls {
		extreme := null.limit > 0.07
		for _, n := range sizes {
			if extreme && (repeats < 20_000 || n > 60) {
				continue // for the full simulation; with more items it is as the others
			}
			t.Run(fmt.Sprintf("%s/%d", null.name, n), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(1, uint64(n)))
				var alarms alarms
				d := make([]float64, n)
				for range repeats {
					for i := range d {
						d[i] = null.draw(random)
					}
					e, ok := PairedMean(d)
					alarms.count(e, ok, d, flips, random)
				}
				limit := null.limit
				if n == 10 {
					limit += 0.01
				}
				alarms.report(t, repeats, limit, limit)
			})
		}
	}
}

// alarms counts claims at 5 % where there is nothing to claim.
type alarms struct{ interval, permutation, both int }

// count takes one comparison: its interval, and what is flipped.
func (a *alarms) count(e Estimate, ok bool, flipped []float64, flips int, random *rand.Rand) {
	out := ok && (e.Lo > 0 || e.Hi < 0)
	p, ok := SignFlip(flipped, flips, random.Uint64())
	low := ok && p.P <= 0.05
	if out {
		a.interval++
	}
	if low {
		a.permutation++
	}
	if out && low {
		a.both++
	}
}

func (a *alarms) report(t *testing.T, repeats int, each, both float64) {
	t.Helper()
	report(t, "interval", a.interval, repeats, each)
	report(t, "permutation", a.permutation, repeats, each)
	report(t, "both", a.both, repeats, both)
}

// TestSimulation_clusters does the same with items that share a source: half of
// the variance is the cluster's. Without clusters far more would be claimed.
func TestSimulation_clusters(t *testing.T) {
	repeats, flips, counts := simulation(t, []int{10, 20}, []int{10, 15, 20, 30})
	shapes := []struct {
		name  string
		size  func(g int) int
		limit float64 // of interval and permutation each
	}{
		{"4, 6 and 8", func(g int) int { return 4 + g%3*2 }, 0.06},
		{"1, 2, 3, …", func(g int) int { return g + 1 }, 0.07},
		{"one of 60 and the rest of 2", func(g int) int { return 60 - 58*min(g, 1) }, 0.06},
		{"two of 40 and the rest of 3", func(g int) int { return 40 - 37*min(g/2, 1) }, 0.09},
	}
	for _, shape := range shapes {
		for _, clusters := range counts {
			t.Run(fmt.Sprintf("%s/%d", shape.name, clusters), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(2, uint64(clusters)))
				naive, alarms := 0, alarms{}
				for range repeats {
					d, cluster := clustered(random, clusters, shape.size)
					if e, ok := PairedMean(d); ok && (e.Lo > 0 || e.Hi < 0) {
						naive++
					}
					e, ok := ClusteredMean(d, cluster)
					alarms.count(e, ok, ClusterSums(d, cluster), flips, random)
				}
				alarms.report(t, repeats, shape.limit, 0.06)
				if rate := float64(naive) / float64(repeats); rate < 0.12 {
					t.Errorf("without clusters %.3f: this simulation shows nothing", rate)
				}
			})
		}
	}
}

func clustered(r *rand.Rand, clusters int, size func(int) int) (d []float64, cluster []int) {
	for g := range clusters {
		shared := r.NormFloat64()
		for range size(g) {
			d, cluster = append(d, shared+r.NormFloat64()), append(cluster, g)
		}
	}
	return d, cluster
}

// TestSimulation_pooled does the same with the pooled F1 of two runs of equal
// quality over items of very different size and difficulty.
func TestSimulation_pooled(t *testing.T) {
	repeats, _, sizes := simulation(t, []int{60}, []int{60, 100})
	repeats = min(2000, repeats/4) // each is 2,000 resamples
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(3, uint64(n)))
			alarms := 0
			items := make([]PairedRatio, n)
			for range repeats {
				for i := range items {
					items[i] = drawPooled(random)
				}
				if p, ok := PooledDifference(items, random.Uint64()); ok && (p.CI95[0] > 0 || p.CI95[1] < 0) {
					alarms++
				}
			}
			// 4,000 repeats gave 6.2, 5.5 and 5.6 % at n = 60, 100 and 200; in
			// 1,000 a rate of 6.2 % shows as 4.7 % to 7.7 %.
			report(t, "bootstrap", alarms, repeats, 0.08)
		})
	}
}

// drawPooled draws an item of 2 to 40 entities, of which both runs find the
// same share on average.
func drawPooled(r *rand.Rand) PairedRatio {
	entities := 2 + int64(math.Min(38, 8*r.ExpFloat64()))
	share := math.Sqrt(r.Float64())
	found := func() (num, den int64) {
		for range entities {
			if r.Float64() < share {
				num += 2
			}
		}
		return num, 2*entities + r.Int64N(3)
	}
	var item PairedRatio
	item.BaseNum, item.BaseDen = found()
	item.CandNum, item.CandDen = found()
	return item
}

func report(t *testing.T, what string, alarms, repeats int, limit float64) {
	t.Helper()
	rate := float64(alarms) / float64(repeats)
	t.Logf("%s: %.2f %% false alarms, coverage %.2f %%", what, 100*rate, 100-100*rate)
	if rate > limit {
		t.Errorf("%s: %.4f false alarms, at most %.2f", what, rate, limit)
	}
}
