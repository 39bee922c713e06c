package stats

import "gonum.org/v1/gonum/mathext"

// BinomialInterval returns the exact (Clopper-Pearson) interval of a rate of
// which k of n trials are known: each end leaves (1-confidence)/2 outside. ok is
// false for n < 1, k outside of 0…n, or a confidence that is not between 0 and 1.
func BinomialInterval(k, n int, confidence float64) (lo, hi float64, ok bool) {
	if n < 1 || k < 0 || k > n || !(confidence > 0 && confidence < 1) {
		return 0, 0, false
	}
	tail := (1 - confidence) / 2
	return lowerRate(k, n, tail), upperRate(k, n, tail), true
}

// UpperRate returns the largest rate that k of n trials leave possible at a
// confidence: one-sided, so that at 0 of n it is 1-(1-confidence)^(1/n). ok as
// for BinomialInterval.
func UpperRate(k, n int, confidence float64) (hi float64, ok bool) {
	if n < 1 || k < 0 || k > n || !(confidence > 0 && confidence < 1) {
		return 1, false
	}
	return upperRate(k, n, 1-confidence), true
}

// TrialsNeeded returns the least n for which k of n trials show, at that
// confidence, that the rate is at most rate. ok is false for a rate outside of
// (0,1), which no number of trials shows, and for more than a billion trials.
func TrialsNeeded(k int, rate, confidence float64) (n int, ok bool) {
	const most = 1_000_000_000
	if k < 0 || !(rate > 0 && rate < 1) || !(confidence > 0 && confidence < 1) {
		return 0, false
	}
	enough := func(n int) bool { return upperRate(k, n, 1-confidence) <= rate }
	high := k + 1
	for !enough(high) {
		if high *= 2; high > most {
			return 0, false
		}
	}
	low := k
	for low+1 < high { // low is not enough, high is
		if middle := low + (high-low)/2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

func lowerRate(k, n int, tail float64) float64 {
	if k == 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(k), float64(n-k+1), tail)
}

func upperRate(k, n int, tail float64) float64 {
	if k >= n {
		return 1
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-tail)
}
