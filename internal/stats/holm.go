package stats

import "slices"

// Holm corrects p-values for being looked at together: the chance that any of
// them is at most α although all null hypotheses hold is at most α, whatever
// their dependence. With p(1) ≤ … ≤ p(m) sorted, the i-th becomes
//
//	max over j ≤ i of min(1, (m−j+1)·p(j))
//
// The result has the order of the argument; equal values stay equal. Every p
// lies in [0,1]; the caller leaves out those that are undefined.
//
// Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	corrected := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(p)-rank)*p[i]))
		corrected[i] = least
	}
	return corrected
}
