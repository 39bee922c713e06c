package outcome

import (
	"math"

	"extraction-experiment/internal/stats"
)

// heaviest bounds weights and what they are multiplied with, so that sums of
// products are exact to the last digits.
const heaviest = 1e12

// weighty reports whether a score has a weight that can be used.
func (s Score) weighty() bool {
	return s.Weight != nil && *s.Weight >= 0 && *s.Weight <= heaviest
}

// weightedSum accumulates Σ value·weight and Σ weight.
type weightedSum struct{ products, weights stats.Sum }

// add takes a value into account; without a weight it counts for nothing.
func (w *weightedSum) add(value float64, weight *float64) {
	if weight == nil || math.Abs(value) > heaviest {
		return
	}
	w.products.Add(value * *weight)
	w.weights.Add(*weight)
}

// mean is nil where the weights sum up to 0.
func (w weightedSum) mean() *float64 {
	weights := w.weights.Value()
	if weights <= 0 {
		return nil
	}
	mean := w.products.Value() / weights
	return &mean
}
