package stats

import (
	"math/rand/v2"
	"slices"
)

// Bounds of PooledDifference.
const (
	// LeastResampled is how many items, or clusters, there must be: below
	// that, percentile intervals are too narrow (false alarms of 10 % at 10
	// items and 8 % at 30, where 5 % are meant).
	LeastResampled = 60
	// Resamples is how often is drawn.
	Resamples = 2000
)

// PairedRatio is what one item, or cluster, adds to the pooled value of a score
// in the base and in the candidate.
type PairedRatio struct {
	BaseNum, BaseDen, CandNum, CandDen int64
}

// PooledDifference returns Σ num / Σ den of the candidate less that of the base
// over all items, and its 95 % interval by the paired bootstrap: items are
// drawn with replacement, the same for both, so that what an item is worth to
// both cancels; the interval goes from the 2.5th to the 97.5th percentile of
// Resamples such differences. In a resample without any denominator the ratio
// counts as 0.
//
// The difference is undefined when a denominator sums to 0, the interval
// (intervalOK) also below LeastResampled items. The drawing depends on seed and
// on the order of items; exchanging base and candidate negates everything to
// the last bit. Time O(Resamples·n): 10 ms for 1,000 items.
//
// Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, sections
// 8.3 and 13.3; Berg-Kirkpatrick, Burkett and Klein 2012 for paired resampling
// of test sets.
func PooledDifference(items []PairedRatio, seed uint64) (difference float64, interval [2]float64, ok, intervalOK bool) {
	var sum PairedRatio
	for _, item := range items {
		sum = sum.plus(item)
	}
	if sum.BaseDen <= 0 || sum.CandDen <= 0 {
		return 0, interval, false, false
	}
	if len(items) < LeastResampled {
		return sum.difference(), interval, true, false
	}
	random := rand.New(rand.NewPCG(seed, 0xb007))
	drawn := make([]float64, Resamples)
	for i := range drawn {
		var resample PairedRatio
		for range items {
			resample = resample.plus(items[random.IntN(len(items))])
		}
		drawn[i] = resample.difference()
	}
	slices.Sort(drawn)
	// Without interpolation, both ends lie equally far from the middle.
	const cut = Resamples / 40
	return sum.difference(), [2]float64{drawn[cut], drawn[Resamples-1-cut]}, true, true
}

func (r PairedRatio) plus(s PairedRatio) PairedRatio {
	return PairedRatio{r.BaseNum + s.BaseNum, r.BaseDen + s.BaseDen, r.CandNum + s.CandNum, r.CandDen + s.CandDen}
}

func (r PairedRatio) difference() float64 {
	return fraction(r.CandNum, r.CandDen) - fraction(r.BaseNum, r.BaseDen)
}

func fraction(num, den int64) float64 {
	if den == 0 {
		return 0
	}
	return float64(num) / float64(den)
}
