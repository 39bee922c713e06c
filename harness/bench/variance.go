package bench

import (
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

// stability is the mean Jaccard index of all pairs of trials.
func (m *measurer) stability() float64 {
	if m.trials < 2 {
		return 1
	}
	var all stats.Sum
	pairs := 0
	for i := range m.perTrial {
		for j := range i {
			all.Add(jaccard(m.perTrial[i].keys, m.perTrial[j].keys))
			pairs++
		}
	}
	return all.Value() / float64(pairs)
}

// jaccard is shared / all of two sets, 1 for two empty ones.
func jaccard(a, b map[string]bool) float64 {
	shared := 0
	for key := range a {
		shared += toInt(b[key])
	}
	return rate(shared, len(a)+len(b)-shared)
}

func (m *measurer) variance() Variance {
	v := Variance{RunCount: m.trials, ExtractionCounts: []int{}}
	counts := make([]float64, m.trials)
	for i, t := range m.perTrial {
		v.ExtractionCounts = append(v.ExtractionCounts, t.count)
		counts[i] = float64(t.count)
	}
	v.Min, v.Max = slices.Min(v.ExtractionCounts), slices.Max(v.ExtractionCounts)
	v.Stability = rate(v.Min, v.Max)
	v.Mean, v.Variance = spread(counts)
	v.StdDev = math.Sqrt(v.Variance)
	return v
}

// spread returns the mean and the variance of a population.
func spread(values []float64) (mean, variance float64) {
	var m stats.Moments
	for _, v := range values {
		m.Add(v)
	}
	mean, _ = m.Mean()
	variance, _ = m.PopulationVariance()
	return mean, variance
}
