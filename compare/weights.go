package compare

import "extraction-experiment/internal/stats"

// weights sums the values of both runs by the weights of their items.
type weights struct {
	items             int // that have a weight in both runs
	total, base, cand stats.Sum
}

// add takes an item into account that has the same weight in both runs. One
// whose products cannot be summed counts as one without a weight.
func (w *weights) add(base, cand *value, b, d float64) {
	if base.weight == nil || cand.weight == nil || *base.weight != *cand.weight {
		return
	}
	if w.total.Add(*base.weight) && w.base.Add(b**base.weight) && w.cand.Add(d**base.weight) {
		w.items++
	}
}

// mean returns the weighted means; nil unless each of the n items has a weight
// and they do not sum up to 0.
func (w *weights) mean(n int) *Weighted {
	total := w.total.Value()
	if n == 0 || w.items < n || total <= 0 {
		return nil
	}
	out := &Weighted{Base: w.base.Value() / total, Candidate: w.cand.Value() / total}
	out.Difference = out.Candidate - out.Base
	return out
}
