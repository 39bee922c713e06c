package outcome

import (
	"cmp"
	"slices"
)

type groupKey struct{ kind, name string }

func (s *Summariser) addGroups(groups []Group) {
	for _, g := range groups {
		key := groupKey{g.Kind, g.Name}
		sum, known := s.groups[key]
		if !known {
			sum = Group{Kind: g.Kind, Name: g.Name}
		}
		if !sum.Add(g) {
			s.oddGroups++
			continue
		}
		s.groups[key] = sum
	}
}

// Add adds the counts of h to those of g. Negative and absurd ones are refused:
// nothing changes and the result is false.
func (g *Group) Add(h Group) bool {
	if !countable(h.Expected) || !countable(h.Extracted) || !countable(h.Matched) {
		return false
	}
	g.Expected += h.Expected
	g.Extracted += h.Extracted
	g.Matched += h.Matched
	return true
}

// Stat returns the counts with their ratios.
func (g Group) Stat() GroupStat {
	s := GroupStat{Kind: g.Kind, Name: g.Name, Expected: g.Expected, Extracted: g.Extracted, Matched: g.Matched}
	if g.Expected+g.Extracted > 0 {
		s.Precision = new(quotient(g.Matched, g.Extracted, false))
		s.Recall = new(quotient(g.Matched, g.Expected, false))
		s.F1 = new(quotient(2*g.Matched, g.Expected+g.Extracted, false))
	}
	return s
}

// groupStats sorts by kind, then the most frequent first, then by name.
func (s *Summariser) groupStats() []GroupStat {
	list := make([]GroupStat, 0, len(s.groups))
	for _, g := range s.groups {
		list = append(list, g.Stat())
	}
	slices.SortFunc(list, func(a, b GroupStat) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Expected, a.Expected),
			cmp.Compare(b.Extracted, a.Extracted), cmp.Compare(a.Name, b.Name))
	})
	return list
}
