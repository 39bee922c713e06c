package stats

import "math"

// DetectableDifference returns the minimum detectable effect of an estimate: a true
// difference of that size would be found 80 times of 100, at the level 5 %,
// two-sided, by a comparison of that standard error and as many degrees of freedom:
//
//	(t(0.975, DF) + t(0.8, DF)) · SE
//
// which is 2.80·SE for many items, 2.90·SE for 30 and 3.49·SE for 6. Undefined for a
// standard error or degrees of freedom that are 0, negative or not finite.
//
// Source: Miller 2024, arXiv 2411.00640, section 5; Cohen 1988, chapter 2.
func DetectableDifference(e Estimate) (effect float64, ok bool) {
	if !(e.SE > 0 && e.DF > 0) || math.IsInf(e.SE, 1) || math.IsInf(e.DF, 1) {
		return 0, false
	}
	return (studentQuantile(0.975, e.DF) + studentQuantile(0.8, e.DF)) * e.SE, true
}

// NeededPairs returns how many pairs it takes to find the difference that was seen
// 80 times of 100, when n pairs gave the estimate: n·(effect/Mean)², rounded up,
// with the DetectableDifference of the estimate. For clustered ones it assumes more
// clusters of the same kind.
//
// Undefined for n < 1, a mean that is 0 or not finite, an estimate that has no
// DetectableDifference, and numbers over 10^9, which nobody needs. It is a rough
// guide only: the difference that was seen is itself uncertain, and with more pairs
// the degrees of freedom are more as well.
func NeededPairs(n int, e Estimate) (pairs int, ok bool) {
	effect, ok := DetectableDifference(e)
	if !ok || n < 1 || e.Mean == 0 || math.IsNaN(e.Mean) || math.IsInf(e.Mean, 0) {
		return 0, false
	}
	needed := math.Ceil(float64(n)*(effect/e.Mean)*(effect/e.Mean) - 1e-9)
	if needed > 1e9 {
		return 0, false
	}
	return max(1, int(needed)), true
}
