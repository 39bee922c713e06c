package compare

import (
	"cmp"
	"maps"
	"slices"

	"extraction-experiment/outcome"
)

type groupKey struct{ kind, name string }

// addGroups adds what one item counts for each type, in both runs.
func (r *collector) addGroups(base, cand []outcome.Group) {
	r.grouped[0], r.grouped[1] = r.grouped[0] || len(base) > 0, r.grouped[1] || len(cand) > 0
	for _, g := range base {
		addGroup(&r.group(g).Base, g)
	}
	for _, g := range cand {
		addGroup(&r.group(g).Candidate, g)
	}
}

func (r *collector) group(g outcome.Group) *Group {
	key := groupKey{g.Kind, g.Name}
	if r.groups[key] == nil {
		stat := outcome.GroupStat{Kind: g.Kind, Name: g.Name}
		r.groups[key] = &Group{Kind: g.Kind, Name: g.Name, Base: stat, Candidate: stat}
	}
	return r.groups[key]
}

func addGroup(sum *outcome.GroupStat, g outcome.Group) {
	if countable(g.Expected) && countable(g.Extracted) && countable(g.Matched) {
		sum.Expected += g.Expected
		sum.Extracted += g.Extracted
		sum.Matched += g.Matched
	}
}

// groupList sorts by kind, then the most expected first, then by name.
func (r *collector) groupList() []Group {
	if !r.grouped[0] || !r.grouped[1] {
		return []Group{} // a run without counts by type is not one that matched nothing
	}
	list := make([]Group, 0, len(r.groups))
	for _, g := range slices.Collect(maps.Values(r.groups)) {
		derive(&g.Base)
		derive(&g.Candidate)
		g.Difference = g.Candidate.F1 - g.Base.F1
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(b.Base.Expected+b.Candidate.Expected, a.Base.Expected+a.Candidate.Expected),
			cmp.Compare(b.Base.Extracted+b.Candidate.Extracted, a.Base.Extracted+a.Candidate.Extracted),
			cmp.Compare(a.Name, b.Name))
	})
	return list
}

// derive fills in the ratios of the counts, as in outcome.GroupStat.
func derive(g *outcome.GroupStat) {
	nothing := g.Expected+g.Extracted == 0
	g.Precision = quotient(g.Matched, g.Extracted, nothing)
	g.Recall = quotient(g.Matched, g.Expected, nothing)
	g.F1 = quotient(2*g.Matched, g.Expected+g.Extracted, nothing)
}

func quotient(num, den int64, nothing bool) float64 {
	switch {
	case den > 0:
		return float64(num) / float64(den)
	case nothing:
		return 1
	}
	return 0
}
