package compare

import (
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/internal/stats"
)

// pairUp compares two runs, all but what depends on the other pairs.
func (c *Comparer) pairUp(metric string, first, second *entry) Pair {
	p := Pair{First: first.header.Name, Second: second.header.Name, Verdict: Unclear}
	p.Incompatible = slices.Concat([]Mismatch{}, c.compareHeaders(first.header, second.header), first.problems, second.problems)
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
			list = append(list, Mismatch{What: fmt.Sprintf("%s without an outcome in %s: %s", named(ids, "item"), runs[1].header.Name, some(ids))})
		}
	}
	return list
}

// concludePairs corrects for the number of pairs and says what each shows.
func (c *Comparer) concludePairs(pairs []Pair, metric string) {
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
		better := *of[i].Difference > 0 != c.config.lower(metric)
		switch {
		case of[i].Verdict == Same:
		case corrected >= alpha:
			of[i].Verdict = Unclear
		case better:
			of[i].Verdict = Better
		default:
			of[i].Verdict = Worse
		}
	}
}
