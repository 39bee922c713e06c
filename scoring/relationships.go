package scoring

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// relationMatching links and matches the relationships of both sides.
type relationMatching struct {
	matching
	c              *call
	expectedForms  [][]form // by node
	extractedForms [][]form
	byForm         map[form]int        // extracted node of a form
	ends           map[int]bool        // names at the ends of extracted ones
	similar        map[int][]similarTo // names of expected ends to such names
	reach          map[int][]similarTo // by expected end, equal names included
	best           map[[2]int]way      // by pair of nodes
	ways           []way               // by the detail of a link
	search         budget
}

func (c *call) matchRelationships() *relationMatching {
	m := &relationMatching{c: c, best: map[[2]int]way{}, byForm: map[form]int{}, ends: map[int]bool{}, search: budget{searchAllowance}}
	m.expected, m.expectedForms = c.statementNodes(&c.expected)
	m.extracted, m.extractedForms = c.statementNodes(&c.extracted)
	for x, forms := range m.extractedForms {
		for _, f := range forms {
			m.byForm[f] = x
			m.ends[f.source], m.ends[f.target] = true, true
		}
	}
	m.findExact()
	m.findOthers()
	if m.search.exhausted() {
		c.warn("relationships: too many names or too long ones to compare all of them; some similar ends were not matched")
	}
	m.collectLinks()
	m.solve(&budget{assignAllowance})
	if m.degraded > 0 {
		c.warn("relationships: %s too many similar statements for the best assignment; its best pairs were taken first",
			counted(m.degraded, "group of statements has", "groups of statements have"))
	}
	return m
}

// statementNodes groups the statements of a side that can match by what they
// say, in the order of their forms.
func (c *call) statementNodes(s *side) ([]node, [][]form) {
	groups := map[string][]int{}
	for i, r := range s.relationships {
		if first := r.forms[0]; first.source == 0 || first.target == 0 || first.typ == 0 {
			continue
		}
		var key []byte
		for _, f := range r.forms {
			for _, id := range []int{f.source, f.typ, f.target} {
				key = binary.BigEndian.AppendUint32(key, uint32(id))
			}
		}
		groups[string(key)] = append(groups[string(key)], i)
	}
	var nodes []node
	var forms [][]form
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		members := groups[key]
		slices.SortFunc(members, func(i, j int) int {
			a, b := s.given.Relationships[s.relationships[i].index], s.given.Relationships[s.relationships[j].index]
			return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Target, b.Target), cmp.Compare(i, j))
		})
		nodes = append(nodes, node{pools: []pool{{0, members}}, size: len(members)})
		forms = append(forms, s.relationships[members[0]].forms)
	}
	return nodes, forms
}

// findExact finds the exact ways; equal statements make up most of a good
// extraction, and need no search.
func (m *relationMatching) findExact() {
	m.reach = map[int][]similarTo{}
	for e := range m.expected {
		m.findWays(e, true, nil)
	}
}

// findOthers finds the other ways, for the statements that exact ones do not
// use up.
func (m *relationMatching) findOthers() {
	m.collectLinks()
	closedExpected, closedExtracted := closed(m.expected, m.extracted, m.links)
	if m.c.options.FuzzyRelationships {
		m.joinEnds(closedExpected, closedExtracted)
	}
	m.reach = map[int][]similarTo{}
	for e := range m.expected {
		if !closedExpected[e] {
			m.findWays(e, false, closedExtracted)
		}
	}
}

// joinEnds finds the similar names among the ends of open statements.
func (m *relationMatching) joinEnds(closedExpected, closedExtracted []bool) {
	ours, theirs := map[int]bool{}, map[int]bool{}
	for e, forms := range m.expectedForms {
		if closedExpected[e] {
			continue
		}
		for _, f := range forms {
			for _, end := range []int{f.source, f.target} {
				for _, name := range m.c.aliasing.names(end) {
					ours[name] = true
				}
			}
		}
	}
	for x, forms := range m.extractedForms {
		if closedExtracted[x] {
			continue
		}
		for _, f := range forms {
			theirs[f.source], theirs[f.target] = true, true
		}
	}
	m.similar = m.c.matcher.join(slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(theirs)), &m.search)
}

// findWays notes the best way from one expected statement to each extracted
// one.
func (m *relationMatching) findWays(e int, exactOnly bool, closedExtracted []bool) {
	for _, f := range m.expectedForms[e] {
		// The same words are found whatever the budget.
		if x, ok := m.byForm[f]; ok && exactOnly {
			m.note(e, x, similarTo{f.source, equalNames}, similarTo{f.target, equalNames}, false)
		}
		source, target := m.reachable(f.source), m.reachable(f.target)
		try := func(typ int, swapped, inverse bool) {
			for _, s := range source {
				for _, t := range target {
					if !m.search.spend(20) {
						return
					}
					wanted := form{s.name, typ, t.name}
					if swapped {
						wanted = wanted.swapped()
					}
					x, ok := m.byForm[wanted]
					if !ok || closedExtracted != nil && closedExtracted[x] {
						continue
					}
					m.note(e, x, s, t, inverse)
				}
			}
		}
		try(f.typ, false, false)
		if m.c.symmetric[m.c.types.texts[f.typ]] {
			try(f.typ, true, false)
		}
		if exactOnly {
			continue
		}
		for _, typ := range m.c.inverses(f.typ) {
			try(typ, true, true)
		}
	}
}

func (m *relationMatching) note(e, x int, s, t similarTo, inverse bool) {
	w := way{source: s.similarity, target: t.similarity}
	w.kind, w.rank = matchTypeOf(inverse, s.similarity == equalNames && t.similarity == equalNames)
	key := [2]int{e, x}
	known, ok := m.best[key]
	if !ok && !m.search.spend(edgeCost) && w.kind != ExactMatch {
		return
	}
	if !ok || w.betterThan(known) {
		m.best[key] = w
	}
}

// reachable returns the names at extracted ends that an expected end may be
// matched with: equal to one of its names, or similar to one. It costs in
// proportion to the names; where the budget is used up, the end itself is
// still compared.
func (m *relationMatching) reachable(end int) []similarTo {
	if list, known := m.reach[end]; known {
		return list
	}
	names := m.c.aliasing.names(end)
	if !m.search.spend(len(names)) {
		return []similarTo{{end, equalNames}}
	}
	var list []similarTo
	for _, name := range names {
		if m.ends[name] {
			list = append(list, similarTo{name, equalNames})
		}
		list = append(list, m.similar[name]...)
	}
	m.search.spend(20 * len(list))
	list = bestOfEach(list)
	m.reach[end] = list
	return list
}

// collectLinks makes links of the ways found so far.
func (m *relationMatching) collectLinks() {
	m.links, m.ways = nil, nil
	for key, w := range m.best {
		m.links = append(m.links, link{expected: key[0], extracted: key[1], exact: w.kind == ExactMatch, gain: w.gain(), detail: len(m.ways)})
		m.ways = append(m.ways, w)
	}
	slices.SortFunc(m.links, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.expected, b.expected), cmp.Compare(a.extracted, b.extracted))
	})
}
