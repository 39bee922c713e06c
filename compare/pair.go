package compare

import (
	"maps"
	"slices"

	"extraction-experiment/internal/stats"
)

// pairUp compares two runs, all but what depends on the other pairs.
func (c *Comparer) pairUp(metric string, first, second *entry) Pair {
	p := Pair{First: first.header.Name, Second: second.header.Name, Verdict: Unclear}
	p.Incompatible = append(append(append([]Mismatch{}, c.compareHeaders(first.header, second.header)...), first.problems...), second.problems...)
	if len(p.Incompatible) == 0 {
		p.Incompatible = append(p.Incompatible, first.unmatched(second)...)
	}
	if len(p.Incompatible) > 0 {
		return p
	}
	col := &column{}
	for _, id := range slices.Sorted(maps.Keys(first.items)) {
		col.add(first.items[id], second.items[id], first.clusters.of[id], false)
	}
	s := c.score(metric, col, c.config.ClusterBy != "")
	p.N, p.Difference, p.CI95, p.P = s.N, s.Difference, s.CI95, s.P
	p.Wins, p.Losses, p.Ties = s.Wins, s.Losses, s.Ties
	p.Verdict = s.Verdict
	if p.Verdict != Same && !s.claims() || doubt(metric, first.Summary, second.Summary) != "" {
		p.P = nil // too few items or clusters, or evaluators, to claim anything
	}
	return p
}

// unmatched lists items that have an outcome in one of two runs only.
func (e *entry) unmatched(other *entry) []Mismatch {
	var list []Mismatch
	for _, runs := range [][2]*entry{{e, other}, {other, e}} {
		var ids []string
		for id := range runs[0].items {
			if _, ok := runs[1].items[id]; !ok {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			list = append(list, affected(ids, "without an outcome in "+runs[1].header.Name))
		}
	}
	return list
}

// concludePairs corrects for the number of pairs and takes back what does not hold
// any more.
func concludePairs(pairs []Pair) {
	var p []float64
	var of []*Pair
	for i := range pairs {
		if pairs[i].P != nil {
			p, of = append(p, *pairs[i].P), append(of, &pairs[i])
		} else {
			pairs[i].Verdict = Unclear
		}
	}
	for i, corrected := range stats.Holm(p) {
		of[i].PHolm = &corrected
		if of[i].Verdict != Same && corrected > alpha {
			of[i].Verdict = Unclear
		}
	}
}
