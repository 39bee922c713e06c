package stats

import "math"

// McNemar tests whether a yes/no result changed more often in one direction
// than in the other: gained items went from no to yes, lost ones from yes to
// no; items that stayed say nothing. P is the exact two-sided binomial
//
//	min(1, 2 · Σ_{k ≤ min(gained, lost)} C(n,k) / 2^n),  n = gained + lost
//
// In [0,1]; 1 for n = 0 and for equal counts. Undefined for negative counts.
// Computed by logarithms of factorials, right to about 12 digits.
//
// Source: McNemar 1947; the exact form as in Agresti, Categorical Data
// Analysis, section 11.1.1.
func McNemar(gained, lost int) (p float64, ok bool) {
	if gained < 0 || lost < 0 {
		return 0, false
	}
	n := gained + lost
	whole, _ := math.Lgamma(float64(n + 1))
	var tail Sum
	for k := range min(gained, lost) + 1 {
		a, _ := math.Lgamma(float64(k + 1))
		b, _ := math.Lgamma(float64(n - k + 1))
		tail.Add(math.Exp(whole - a - b - float64(n)*math.Ln2))
	}
	return min(1, 2*tail.Value()), true
}
