package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"extraction-experiment/internal/stats"
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

// AnyFailed reports whether an outcome owes a value of a score: it failed, or an
// evaluator gave none.
func (s Stats) AnyFailed() bool {
	return slices.ContainsFunc(s, func(stat Stat) bool {
		zero := stat.FailuresAsZero
		return stat.Failed+stat.Unanswered > 0 || zero != nil && stat.Mean != nil && *zero != *stat.Mean // one trial of several
	})
}

// Lead returns the mean of one of the scores that a summary leads with, and its
// interval: the one with failures as zero where AnyFailed, else the plain one.
func (s Stats) Lead(stat Stat) (mean *float64, ci95 *[2]float64) {
	if s.AnyFailed() {
		return stat.FailuresAsZero, stat.CI95AsZero
	}
	return stat.Mean, stat.CI95
}

// MarshalJSON writes the object in the order of the list.
func (s Stats) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, stat := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(stat.Name)
		if err != nil {
			return nil, err
		}
		values, err := json.Marshal(stat)
		if err != nil {
			return nil, fmt.Errorf("score %q: %w", stat.Name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(values)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads the object and keeps the order of its keys.
func (s *Stats) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open == nil {
		*s = nil
		return nil
	}
	if open != json.Delim('{') {
		return fmt.Errorf("scores: an object is expected, not %v", open)
	}
	list := Stats{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		stat := Stat{}
		if err := d.Decode(&stat); err != nil {
			return fmt.Errorf("score %q: %w", name, err)
		}
		stat.Name = name.(string) // a key of an object is a string
		list = append(list, stat)
	}
	*s = list
	return nil
}

// largestCount bounds the integers that are taken from outcomes; with fewer
// than 2³¹ outcomes no sum of such can overflow.
const largestCount = 1 << 31

// tally accumulates one score.
type tally struct {
	moments                    stats.Moments
	failed, undefined, vacuous int
	external                   bool // an evaluator owes a value for every output
	unanswered                 int
	outputOnly                 bool
	ratios                     int // values that came with a usable ratio
	num, den                   int64
	weighted                   weightedSum
	refused                    int // values that are no finite number
	last                       int // ordinal of the outcome that was added last
}

func (t *tally) add(s Score, failed bool) {
	refused := s.Value != nil && !t.moments.Add(*s.Value)
	if refused {
		t.refused++
	}
	switch {
	case !s.weighty():
	case s.Value != nil && !refused:
		t.weighted.add(*s.Value, s.Weight)
	case failed:
		t.weighted.add(0, s.Weight)
	}
	switch {
	case s.Value != nil && !refused:
		t.addValue(s)
	case failed:
		t.failed++
	case t.external:
		t.unanswered++
	default:
		t.undefined++
	}
}

func (t *tally) addValue(s Score) {
	if s.Vacuous {
		t.vacuous++
	}
	if r := s.Ratio; r.Usable() {
		t.ratios++
		t.num += r.Num
		t.den += r.Den
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
		pooled := quotient(t.num, t.den, t.vacuous == s.N)
		s.Pooled = &pooled
	}
	return s
}

// describe fills in what follows from the values; owed has those with a 0 for
// each that is owed.
func (s *Stat) describe(values, owed stats.Moments, outputOnly bool) {
	s.N, s.Mean, s.CI95 = values.N(), meanOf(values), scoreInterval(values)
	if least, top, ok := values.Range(); ok {
		s.Min, s.Max = &least, &top
	}
	if !outputOnly {
		s.FailuresAsZero, s.CI95AsZero = meanOf(owed), scoreInterval(owed)
	}
}

func meanOf(m stats.Moments) *float64 {
	if mean, ok := m.Mean(); ok {
		return &mean
	}
	return nil
}

func scoreInterval(m stats.Moments) *[2]float64 {
	if lo, hi, ok := m.ScoreInterval95(); ok {
		return &[2]float64{lo, hi}
	}
	return nil
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
