package outcome

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Stats is the list of a run's scores. In JSON it is one object, name to
// values, whose keys keep the order of the list.
type Stats []Stat

// Lookup returns the values of the score of that name.
func (s Stats) Lookup(name string) (Stat, bool) {
	for _, stat := range s {
		if stat.Name == name {
			return stat, true
		}
	}
	return Stat{}, false
}

// AnyFailed reports whether any outcome lacks a value that counts as 0: it failed, or an
// evaluator gave none.
func (s Stats) AnyFailed() bool {
	return slices.ContainsFunc(s, func(stat Stat) bool {
		zero := stat.FailuresAsZero
		return stat.Failed+stat.Unanswered > 0 || zero != nil && stat.Mean != nil && *zero != *stat.Mean // one trial of several
	})
}

// Lead returns the mean of a score that a summary shows first, and its interval: the one
// with failures as zero if AnyFailed, else the plain one.
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

// largestCount bounds the integers that are taken from outcomes; with fewer
// than 2³¹ outcomes no sum of such can overflow.
const largestCount = 1 << 31

// presence counts how often a score has no value, by what became of it, and how often one
// that says nothing.
type presence struct{ failed, undefined, unanswered, vacuous int }

// add takes a score into account, of which a value was taken or not; external says that
// an evaluator owes it for every output.
func (p *presence) add(taken, vacuous, failed, external bool) {
	switch {
	case taken && vacuous:
		p.vacuous++
	case taken:
	case failed:
		p.failed++
	case external:
		p.unanswered++
	default:
		p.undefined++
	}
}

// tally accumulates one score.
type tally struct {
	presence
	moments    stats.Moments
	external   bool // an evaluator owes a value for every output
	outputOnly bool
	ratios     int // values that came with a usable ratio
	num, den   int64
	weighted   weightedSum
	refused    int // values that are not a finite number
	last       int // ordinal of the outcome that was added last
}

func (t *tally) add(s Score, failed bool) {
	taken := s.Value != nil && t.moments.Add(*s.Value)
	t.presence.add(taken, s.Vacuous, failed, t.external)
	if s.Value != nil && !taken {
		t.refused++
	}
	switch {
	case taken:
		t.weighted.add(*s.Value, usable(s.Weight))
		if r := s.Ratio; r.Usable() {
			t.ratios++
			t.num += r.Num
			t.den += r.Den
		}
	case failed:
		t.weighted.add(0, usable(s.Weight))
	}
}

func countable(n int64) bool { return n >= 0 && n <= largestCount }

func (t *tally) stat(name string) Stat {
	s := Stat{Name: name, Failed: t.failed, Undefined: t.undefined, Unanswered: t.unanswered, Vacuous: t.vacuous}
	var owed stats.Moments
	owed.Merge(t.moments)
	for range t.failed + t.unanswered {
		owed.Add(0)
	}
	s.describe(t.moments, owed, t.outputOnly)
	s.WeightedMean = t.weighted.mean()
	if s.N > 0 && t.ratios == s.N {
		s.Pooled = new(quotient(t.num, t.den, t.vacuous == s.N))
	}
	return s
}

// describe fills in what follows from the values; owed has those with a 0 for
// each that is owed.
func (s *Stat) describe(values, owed stats.Moments, outputOnly bool) {
	s.N, s.Mean, s.CI95 = values.N(), values.MeanOrNil(), values.ScoreInterval95()
	if least, top, ok := values.Range(); ok {
		s.Min, s.Max = &least, &top
	}
	if !outputOnly {
		s.FailuresAsZero, s.CI95AsZero = owed.MeanOrNil(), owed.ScoreInterval95()
	}
}

// defined returns a number, or nil where it is none.
func defined(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// quotient is num/den; 0/0 is 1 where there was nothing to find, else 0.
func quotient(num, den int64, nothing bool) float64 {
	switch {
	case den > 0:
		return float64(num) / float64(den)
	case nothing:
		return 1
	default:
		return 0
	}
}

// heaviest bounds weights and what they are multiplied with, so that sums of
// products are exact to the last digits.
const heaviest = 1e12

// usable returns a weight, nil where it cannot be used.
func usable(weight *float64) *float64 {
	if weight == nil || !(*weight >= 0 && *weight <= heaviest) {
		return nil
	}
	return weight
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
	return defined(w.products.Value()/weights, weights > 0)
}
