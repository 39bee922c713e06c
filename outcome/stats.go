package outcome

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Stats are the statistics of a run's scores. In JSON they are an object from names to values,
// in the order of the list.
type Stats []Stat

// Lookup returns the statistics of the score with that name.
func (s Stats) Lookup(name string) (Stat, bool) {
	for _, stat := range s {
		if stat.Name == name {
			return stat, true
		}
	}
	return Stat{}, false
}

// AnyFailed reports whether any outcome lacks a value that counts as 0, because the item failed
// or an evaluator gave none.
func (s Stats) AnyFailed() bool {
	return slices.ContainsFunc(s, func(stat Stat) bool {
		zero := stat.FailuresAsZero
		return stat.Failed+stat.Unanswered > 0 || zero != nil && stat.Mean != nil && *zero != *stat.Mean // some trials failed
	})
}

// Lead returns the mean of a score that a summary shows first, and its interval: with failures
// as zero if AnyFailed, otherwise without.
func (s Stats) Lead(stat Stat) (mean *float64, ci95 *[2]float64) {
	if s.AnyFailed() {
		return stat.FailuresAsZero, stat.CI95AsZero
	}
	return stat.Mean, stat.CI95
}

// MarshalJSON writes the object in the order of the list.
func (s Stats) MarshalJSON() ([]byte, error) {
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, stat := range s {
		w.Value(stat.Name, stat)
	}
	w.Close()
	return w.B, w.Err
}

// UnmarshalJSON reads the object and keeps the order of its keys.
func (s *Stats) UnmarshalJSON(raw []byte) error {
	if *s = nil; string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return fmt.Errorf("scores: an object is expected, not %s", textutil.Brief(string(raw), 20))
	}
	*s = Stats{}
	for name, value := range textutil.JSONMembers(raw) {
		stat := Stat{Name: name}
		if err := json.Unmarshal(value, &stat); err != nil {
			return fmt.Errorf("score %q: %w", name, err)
		}
		*s = append(*s, stat)
	}
	return nil
}

// maxCount limits the integers that are accepted from outcomes. Sums over fewer than 2³¹
// outcomes cannot overflow.
const maxCount = 1 << 31

// absences counts scores without a value, by the reason, and vacuous ones.
type absences struct{ failed, undefined, unanswered, vacuous int }

// add counts a score. external means that an evaluator owes a value for every output.
func (p *absences) add(hasValue, vacuous, failed, external bool) {
	switch {
	case hasValue && vacuous:
		p.vacuous++
	case hasValue:
	case failed:
		p.failed++
	case external:
		p.unanswered++
	default:
		p.undefined++
	}
}

// scoreTally accumulates one score.
type scoreTally struct {
	absences
	moments     stats.Moments
	external    bool // an evaluator owes a value for every output
	outputOnly  bool
	ratios      int // values with a usable ratio
	num, den    int64
	weighted    WeightedSum
	notFinite   int // values that are not finite, or too large for sums
	lastOutcome int // number of the outcome that was added last
}

func (t *scoreTally) add(s Score, failed bool) {
	hasValue := s.Value != nil && t.moments.Add(*s.Value)
	t.absences.add(hasValue, s.Vacuous, failed, t.external)
	if s.Value != nil && !hasValue {
		t.notFinite++
	}
	switch {
	case hasValue:
		t.weighted.Add(*s.Value, usableWeight(s.Weight))
		if r := s.Ratio; r.Usable() {
			t.ratios++
			t.num += r.Num
			t.den += r.Den
		}
	case failed:
		t.weighted.Add(0, usableWeight(s.Weight))
	}
}

func countable(n int64) bool { return n >= 0 && n <= maxCount }

func (t *scoreTally) stat(name string) Stat {
	s := Stat{Name: name, Failed: t.failed, Undefined: t.undefined, Unanswered: t.unanswered, Vacuous: t.vacuous}
	owed := t.moments.Clone()
	for range t.failed + t.unanswered {
		owed.Add(0)
	}
	s.setMeans(t.moments, owed, t.outputOnly)
	s.WeightedMean = t.weighted.Mean()
	if s.N > 0 && t.ratios == s.N {
		s.Pooled = new(quotient(t.num, t.den, t.vacuous == s.N))
	}
	return s
}

// setMeans sets the fields that depend on the values only. owed are the values with a 0 for
// each missing one that counts as 0.
func (s *Stat) setMeans(values, owed stats.Moments, outputOnly bool) {
	s.N, s.Mean, s.CI95 = values.N(), values.MeanOrNil(), values.ScoreInterval95()
	if lowest, highest, ok := values.Range(); ok {
		s.Min, s.Max = &lowest, &highest
	}
	if !outputOnly {
		s.FailuresAsZero, s.CI95AsZero = owed.MeanOrNil(), owed.ScoreInterval95()
	}
}

// ptrIf returns a pointer to the value if ok, and nil otherwise.
func ptrIf(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// quotient returns num/den; 0/0 is 1 if vacuous, otherwise 0.
func quotient(num, den int64, vacuous bool) float64 {
	switch {
	case den > 0:
		return float64(num) / float64(den)
	case vacuous:
		return 1
	default:
		return 0
	}
}

// maxWeight limits weights and weighted values, so that sums of products are exact to the last
// digits.
const maxWeight = 1e12

// usableWeight returns the weight, or nil if it is not a number from 0 to maxWeight.
func usableWeight(weight *float64) *float64 {
	if weight == nil || !(*weight >= 0 && *weight <= maxWeight) {
		return nil
	}
	return weight
}

// WeightedSum accumulates Σ value·weight and Σ weight.
type WeightedSum struct{ products, weights stats.Sum }

// Add adds a value; without a weight, the value does not count.
func (w *WeightedSum) Add(value float64, weight *float64) {
	if weight == nil || math.Abs(value) > maxWeight {
		return
	}
	w.products.Add(value * *weight)
	w.weights.Add(*weight)
}

// Mean returns the weighted mean, or nil if the weights sum to 0.
func (w WeightedSum) Mean() *float64 {
	weights := w.weights.Value()
	return ptrIf(w.products.Value()/weights, weights > 0)
}
