package compare

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

type groupKey struct{ kind, name string }

// bothGroups are the counts of one class in both runs.
type bothGroups struct{ base, cand outcome.Group }

// addGroups adds what one item counts for each type, in both runs.
func (r *collector) addGroups(base, cand []outcome.Group) {
	r.grouped[0], r.grouped[1] = r.grouped[0] || len(base) > 0, r.grouped[1] || len(cand) > 0
	for _, g := range base {
		r.group(g).base.Add(g) // absurd counts are left out, and the run's summary says so
	}
	for _, g := range cand {
		r.group(g).cand.Add(g)
	}
}

func (r *collector) group(g outcome.Group) *bothGroups {
	key := groupKey{g.Kind, g.Name}
	if r.groups[key] == nil {
		none := outcome.Group{Kind: g.Kind, Name: g.Name}
		r.groups[key] = &bothGroups{none, none}
	}
	return r.groups[key]
}

// groupList sorts by kind, then the most expected first, then by name.
func (r *collector) groupList() []Group {
	if !r.grouped[0] || !r.grouped[1] {
		return []Group{} // a run without counts by type is not one that matched nothing
	}
	list := make([]Group, 0, len(r.groups))
	for key, both := range r.groups {
		g := Group{Kind: key.kind, Name: key.name, Base: both.base.Stat(), Candidate: both.cand.Stat()}
		if g.Base.F1 != nil && g.Candidate.F1 != nil {
			g.Difference = new(*g.Candidate.F1 - *g.Base.F1)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(b.Base.Expected+b.Candidate.Expected, a.Base.Expected+a.Candidate.Expected),
			cmp.Compare(b.Base.Extracted+b.Candidate.Extracted, a.Base.Extracted+a.Candidate.Extracted),
			cmp.Compare(a.Name, b.Name))
	})
	return list
}
