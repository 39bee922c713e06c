package compare

import (
	"maps"
	"slices"
)

// pairUp compares two runs, all but what depends on the other pairs, which the
// score is for.
func (c *Comparer) pairUp(metric string, first, second *entry) (Pair, *Score) {
	p := Pair{First: first.header.Name, Second: second.header.Name, Verdict: Unclear}
	p.Incompatible = append(append(append([]Mismatch{}, c.compareHeaders(first.header, second.header)...), first.problems...), second.problems...)
	if len(p.Incompatible) == 0 {
		p.Incompatible = append(p.Incompatible, first.unmatched(second)...)
	}
	if len(p.Incompatible) > 0 {
		return p, &Score{Verdict: Unclear}
	}
	col := &column{}
	for i, id := range slices.Sorted(maps.Keys(first.items)) {
		col.add(first.items[id], second.items[id], i, first.clusters.of[id], false)
	}
	s := c.score(metric, col, c.config.ClusterBy != "")
	s.Doubt = doubt(metric, first.Summary, second.Summary)
	if !s.same() && !s.claims() || s.Doubt != "" {
		s.P = nil // too few items or clusters, or evaluators, to claim anything
	}
	p.N, p.Difference, p.CI95, p.P = s.N, s.Difference, s.CI95, s.P
	p.Wins, p.Losses, p.Ties = s.Wins, s.Losses, s.Ties
	return p, &s
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

// concludePairs corrects for the number of pairs and says what holds then.
func concludePairs(pairs []Pair, scores []*Score) {
	var sets [][]*Score
	for _, s := range scores {
		if s.P != nil {
			sets = append(sets, []*Score{s})
		}
	}
	holm(sets)
	for i, s := range scores {
		pairs[i].PHolm, pairs[i].Verdict = s.PHolm, s.verdict()
	}
}
