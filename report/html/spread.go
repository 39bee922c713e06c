package html

import (
	"math"

	"extraction-experiment/compare"
)

// spreadBins is how many bars the differences have on each side of 0.
const spreadBins = 20

// spread counts differences of items: those of 0 apart, the others in bars of
// 0.05.
type spread struct {
	below, above [spreadBins]int
	none         int
}

func (s *spread) add(d float64) {
	at := int(min(spreadBins-1, math.Abs(d)*spreadBins))
	switch {
	case math.IsNaN(d) || math.Abs(d) <= compare.Epsilon:
		s.none++
	case d < 0:
		s.below[at]++
	default:
		s.above[at]++
	}
}

// spreads are those of the differences of each run from the first. An item counts
// once: its value in a run is the mean over its trials, as in package compare.
type spreads struct {
	of   []spread
	item string     // whose trials are being added up
	sums []trialSum // of that item in each run
}

type trialSum struct {
	sum float64
	n   int // trials with a value
}

func newSpreads(runs int) *spreads {
	return &spreads{of: make([]spread, runs), sums: make([]trialSum, runs)}
}

// add takes one trial of an item; all trials of an item come one after the other.
func (s *spreads) add(item string, runs []*rowPart) {
	if item != s.item {
		s.count()
		s.item = item
	}
	for i, part := range runs {
		if part != nil && part.Scores[0] != nil {
			s.sums[i].sum += *part.Scores[0]
			s.sums[i].n++
		}
	}
}

// count ends an item.
func (s *spreads) count() {
	base := s.sums[0]
	for i, run := range s.sums[1:] {
		if base.n > 0 && run.n > 0 {
			s.of[i+1].add(run.sum/float64(run.n) - base.sum/float64(base.n))
		}
	}
	clear(s.sums)
}
