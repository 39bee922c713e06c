package stats

import (
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// LeastResampled is the minimum number of items, or clusters, for an interval of
// PooledDifference. For fewer, percentile intervals are too narrow: instead of 5 %, false
// alarms are 10 % at 10 items and 8 % at 30.
const LeastResampled = 60

// resamples is the number of resamples; cut of them are left out at each end.
const (
	resamples = 2000
	cut       = resamples / 40
)

// PairedRatio is the contribution of one item, or cluster, to the pooled value of a score in
// the base and in the candidate.
type PairedRatio struct {
	BaseNum, BaseDen, CandNum, CandDen int64
}

// Pooled is the result of PooledDifference.
type Pooled struct {
	Base, Candidate, Difference float64
	CI95                        *[2]float64 // of Difference; nil if undefined
}

// PooledDifference returns Σ num / Σ den over all items of the base and of the candidate, the
// difference candidate − base, and its 95 % interval by the paired bootstrap: items are drawn
// with replacement, the same for both, so that effects of an item on both cancel. The interval
// is that from the 2.5th to the 97.5th percentile of 2,000 such differences. In a resample
// without any denominator the ratio counts as 0.
//
// The result is undefined if a denominator sums to 0. The interval is also undefined for fewer
// than LeastResampled items, and if the resamples do not differ. The drawing depends on seed
// and on the order of items. Exchanging base and candidate negates the difference and its
// interval to the last bit. Time O(2,000·n): 10 ms for 1,000 items.
//
// Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, sections 8.3 and 13.3;
// Berg-Kirkpatrick, Burkett and Klein 2012 for paired resampling of test sets.
func PooledDifference(items []PairedRatio, seed uint64) (p Pooled, ok bool) {
	var sum PairedRatio
	for _, item := range items {
		sum = sum.Plus(item)
	}
	if sum.BaseDen <= 0 || sum.CandDen <= 0 {
		return Pooled{}, false
	}
	p = Pooled{Base: fraction(sum.BaseNum, sum.BaseDen), Candidate: fraction(sum.CandNum, sum.CandDen), Difference: sum.difference()}
	if len(items) < LeastResampled {
		return p, true
	}
	random := rand.New(rand.NewPCG(seed, 0xb007))
	differences := make([]float64, resamples)
	for i := range differences {
		var resample PairedRatio
		for range items {
			resample = resample.Plus(items[random.IntN(len(items))])
		}
		differences[i] = resample.difference()
	}
	slices.Sort(differences)
	// Without interpolation, both ends have the same distance from the middle.
	if lo, hi := differences[cut], differences[resamples-1-cut]; hi-lo > 1e-9 {
		p.CI95 = &[2]float64{lo, hi}
	}
	return p, true
}

// Plus returns the sum of two contributions.
func (r PairedRatio) Plus(s PairedRatio) PairedRatio {
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

// BinomialInterval returns the exact (Clopper-Pearson) interval of a rate, given k successes in
// n trials: each end excludes (1-confidence)/2. ok is false for n < 1, k outside of 0…n, or a
// confidence that is not between 0 and 1.
func BinomialInterval(k, n int, confidence float64) (lo, hi float64, ok bool) {
	if n < 1 || k < 0 || k > n || !(confidence > 0 && confidence < 1) {
		return 0, 0, false
	}
	tail := (1 - confidence) / 2
	if k > 0 {
		lo = mathext.InvRegIncBeta(float64(k), float64(n-k+1), tail)
	}
	return lo, upperRate(k, n, tail), true
}

// UpperRate returns the one-sided upper limit of a rate at a confidence, given k successes in n
// trials. For k = 0 it is 1-(1-confidence)^(1/n). ok is as for BinomialInterval.
func UpperRate(k, n int, confidence float64) (hi float64, ok bool) {
	if n < 1 || k < 0 || k > n || !(confidence > 0 && confidence < 1) {
		return 1, false
	}
	return upperRate(k, n, 1-confidence), true
}

// TrialsNeeded returns the least n for which k successes in n trials show, at that confidence,
// that the rate is at most rate. ok is false for a rate outside of (0,1), which no number of
// trials can show, and for more than a billion trials.
func TrialsNeeded(k int, rate, confidence float64) (n int, ok bool) {
	const maxTrials = 1_000_000_000
	if k < 0 || !(rate > 0 && rate < 1) || !(confidence > 0 && confidence < 1) {
		return 0, false
	}
	enough := func(n int) bool { return upperRate(k, n, 1-confidence) <= rate }
	high := k + 1
	for !enough(high) {
		if high *= 2; high > maxTrials {
			return 0, false
		}
	}
	return sort.Search(high, enough), true
}

func upperRate(k, n int, tail float64) float64 {
	if k >= n {
		return 1
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-tail)
}
