package outcome

import (
	"cmp"
	"slices"
)

type groupKey struct{ kind, name string }

func (s *Summariser) addGroups(groups []Group) {
	for _, g := range groups {
		if !countable(g.Expected) || !countable(g.Extracted) || !countable(g.Matched) {
			s.oddGroups++
			continue
		}
		key := groupKey{g.Kind, g.Name}
		sum := s.groups[key]
		if sum == nil {
			sum = &Group{Kind: g.Kind, Name: g.Name}
			s.groups[key] = sum
		}
		sum.Expected += g.Expected
		sum.Extracted += g.Extracted
		sum.Matched += g.Matched
	}
}

// groupStats sorts by kind, then the most frequent first, then by name.
func (s *Summariser) groupStats() []GroupStat {
	list := make([]GroupStat, 0, len(s.groups))
	for _, g := range s.groups {
		nothing := g.Expected+g.Extracted == 0
		list = append(list, GroupStat{
			Kind: g.Kind, Name: g.Name,
			Expected: g.Expected, Extracted: g.Extracted, Matched: g.Matched,
			Precision: quotient(g.Matched, g.Extracted, nothing),
			Recall:    quotient(g.Matched, g.Expected, nothing),
			F1:        quotient(2*g.Matched, g.Expected+g.Extracted, nothing),
		})
	}
	slices.SortFunc(list, func(a, b GroupStat) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Expected, a.Expected),
			cmp.Compare(b.Extracted, a.Extracted), cmp.Compare(a.Name, b.Name))
	})
	return list
}
