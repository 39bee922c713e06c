package stats

import "math"

// Quantile returns the p-quantile of values that are sorted in ascending
// order, by linear interpolation between the two nearest: with h = (n−1)·p it
// is x[⌊h⌋] + (h−⌊h⌋)·(x[⌊h⌋+1] − x[⌊h⌋]), counting from 0. Definition 7 of
// Hyndman and Fan 1996, the default of R, NumPy and spreadsheets. Quantile(0)
// is the least value, Quantile(1) the largest. Undefined for no values and for
// p outside [0,1].
func Quantile(sorted []float64, p float64) (q float64, ok bool) {
	if len(sorted) == 0 || !(p >= 0 && p <= 1) {
		return 0, false
	}
	h := float64(len(sorted)-1) * p
	below := math.Floor(h)
	i := int(below)
	if i == len(sorted)-1 {
		return sorted[i], true
	}
	return sorted[i] + (h-below)*(sorted[i+1]-sorted[i]), true
}
