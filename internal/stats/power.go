package stats

import "math"

// powerFactor is how many standard errors a true difference must be long to be
// found with probability 80 % at the level 5 %, two-sided: the normal quantiles
// of 0.975 and 0.8 together, 1.960 + 0.842, rounded as is usual.
const powerFactor = 2.80

// DetectableDifference returns the minimum detectable effect, powerFactor·se: a
// true difference of that size would be found 80 times of 100 by a comparison
// whose standard error is se. For n independent pairs it is 2.80·sd/√n.
// Undefined for an se that is 0, negative or not finite: where nothing varies,
// nothing can be said.
//
// Source: Miller 2024, arXiv 2411.00640, section 5; Cohen 1988, chapter 2.
func DetectableDifference(se float64) (effect float64, ok bool) {
	if !(se > 0) || math.IsInf(se, 1) {
		return 0, false
	}
	return powerFactor * se, true
}

// NeededPairs returns how many pairs it takes to find a true difference delta
// 80 times of 100, when n pairs gave the standard error se: n·(2.80·se/delta)²,
// rounded up, which for independent pairs is (2.80·sd/delta)². For clustered
// ones it assumes more clusters of the same kind.
//
// Undefined for n < 1, a delta that is 0 or not finite, an se that
// DetectableDifference does not take, and numbers over 10^9, which nobody needs.
// With delta the difference that was observed it is a rough guide only: that
// difference is itself uncertain.
func NeededPairs(n int, se, delta float64) (pairs int, ok bool) {
	effect, ok := DetectableDifference(se)
	if !ok || n < 1 || delta == 0 || math.IsNaN(delta) || math.IsInf(delta, 0) {
		return 0, false
	}
	needed := math.Ceil(float64(n)*(effect/delta)*(effect/delta) - 1e-9)
	if needed > 1e9 {
		return 0, false
	}
	return max(1, int(needed)), true
}
