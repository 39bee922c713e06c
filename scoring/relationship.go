package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

// relationMatching links and matches the relationships of both sides.
type relationMatching struct {
	matching
	c       *call
	byForm  map[form]int  // extracted node of a form
	ends    []bool        // by name, whether it is at the end of an extracted one
	similar [][]similarTo // by name of expected ends, such names
	reach   [][]similarTo // by expected end, equal names included
	room    []similarTo   // for the next of reach
	last    []int         // by extracted node, its latest link + 1
	search  budget
}

func (c *call) matchRelationships() *relationMatching {
	m := &relationMatching{c: c, ends: make([]bool, len(c.names.texts)), search: budget{searchAllowance}}
	m.expected, m.extracted = c.expected.statementNodes(), c.extracted.statementNodes()
	m.byForm = make(map[form]int, len(m.extracted))
	m.last = make([]int, len(m.extracted))
	m.similar = make([][]similarTo, len(c.names.texts))
	m.room = slices.Grow(c.reachable[:0], 2*len(m.expected)+1) // not nil, and so are its parts
	m.links = c.links[:0]
	for x, n := range m.extracted {
		for _, f := range c.extracted.relationships[n.first].forms {
			m.byForm[f] = x
			m.ends[f.source], m.ends[f.target] = true, true
		}
	}
	m.reach = make([][]similarTo, len(c.names.texts))
	for e := range m.expected { // most of a good extraction, and needs no search
		m.findMatches(e, true)
	}
	m.findOthers()
	m.sortLinks()
	c.reachable = m.room
	c.assign(&m.matching, "relationships", &m.search)
	return m
}

// statementNodes groups the statements of a side that can match by what they say.
func (s *side) statementNodes() []node {
	order := make([]int, 0, len(s.relationships))
	for i, r := range s.relationships {
		if first := r.forms[0]; first.source != 0 && first.target != 0 && first.typ != 0 {
			order = append(order, i)
		}
	}
	return nodesOf(order, s.compareStatements,
		func(i, j int) bool { return slices.Equal(s.relationships[i].forms, s.relationships[j].forms) },
		func(int) int { return 0 })
}

// findOthers finds the other matches, for the statements that exact ones do not
// use up.
func (m *relationMatching) findOthers() {
	m.closeNodes()
	if m.c.options.FuzzyRelationships {
		m.joinEnds()
	}
	clear(m.reach)
	exact, next := m.links, 0 // in the order of the expected statements
	for e := range m.expected {
		for ; next < len(exact) && exact[next].expected == e; next++ {
			m.last[exact[next].extracted] = next + 1
		}
		if !m.expected[e].closed {
			m.findMatches(e, false)
		}
	}
}

// joinEnds finds the similar names among the ends of open statements.
func (m *relationMatching) joinEnds() {
	var ours, theirs []int
	for _, n := range m.expected {
		if n.closed {
			continue
		}
		for _, f := range m.c.expected.relationships[n.first].forms {
			ours = append(append(ours, m.c.endNames.names(f.source)...), m.c.endNames.names(f.target)...)
		}
	}
	for _, n := range m.extracted {
		if n.closed {
			continue
		}
		for _, f := range m.c.extracted.relationships[n.first].forms {
			theirs = append(theirs, f.source, f.target)
		}
	}
	m.similar = m.c.similarAmong(sortedSet(ours), sortedSet(theirs), &m.search)
}

// findMatches notes the best match from one expected statement to each extracted
// one.
func (m *relationMatching) findMatches(e int, exactOnly bool) {
	for _, f := range m.c.expected.relationships[m.expected[e].first].forms {
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
					if x, ok := m.byForm[wanted]; ok && !m.extracted[x].closed {
						m.note(e, x, s, t, inverse)
					}
				}
			}
		}
		try(f.typ, false, false)
		for _, r := range m.c.reversals[f.typ] {
			if !exactOnly || !r.inverse {
				try(r.typ, true, r.inverse)
			}
		}
	}
}

func (m *relationMatching) note(e, x int, s, t similarTo, inverse bool) {
	w := statementMatch{ends: ends{s.similarity, t.similarity}}
	if inverse {
		w.rank = 1
	}
	if !w.equal() {
		w.rank += 2
	}
	at := m.last[x] - 1
	known := at >= 0 && m.links[at].expected == e
	switch {
	case known && !w.betterThan(m.links[at].match):
		return
	case known:
	case !m.search.spend(edgeCost) && !w.isExact():
		return
	default:
		at = len(m.links)
		m.links, m.last[x] = append(m.links, link{}), at+1
	}
	m.links[at] = link{e, x, w.isExact(), w.gain(), w}
}

// reachable returns the names at extracted ends that an expected end may be
// matched with: equal to one of its names, or similar to one. It costs in
// proportion to the names; where the budget is used up, the end itself is
// still compared.
func (m *relationMatching) reachable(end int) []similarTo {
	if list := m.reach[end]; list != nil {
		return list
	}
	names := m.c.endNames.names(end)
	if !m.search.spend(len(names)) {
		return []similarTo{{end, equalNames}}
	}
	from := len(m.room)
	for _, name := range names {
		if m.ends[name] {
			m.room = append(m.room, similarTo{name, equalNames})
		}
		m.room = append(m.room, m.similar[name]...)
	}
	list := m.room[from:]
	m.search.spend(20 * len(list))
	m.reach[end] = bestOfEach(list)
	return m.reach[end]
}

// scoreRelationships matches the relationships, writes matches, misses and
// groups into the result, and returns the counts.
func (c *call) scoreRelationships(r *Result) *RelationshipCounts {
	m := c.matchRelationships()
	expected, extracted := c.expected.relationships, c.extracted.relationships
	counts := &RelationshipCounts{Expected: int64(len(expected)), Extracted: int64(len(extracted))}
	ways := [...]*int64{&counts.Exact, &counts.Inverse, &counts.Fuzzy, &counts.InverseFuzzy}
	if c.explains {
		r.Relationships = make([]RelationshipMatch, 0, len(m.pairs))
	}
	groups := make([]outcome.Group, len(c.types.texts)) // by type
	for _, p := range m.pairs {
		w := m.links[p.link].match
		counts.Correct++
		*ways[w.rank]++
		expected[p.expected].partner, extracted[p.extracted].partner = p.extracted, p.expected
		if c.explains {
			r.Relationships = append(r.Relationships, c.relationshipMatch(p, w))
		}
	}
	for _, e := range expected {
		groups[e.forms[0].typ].Expected++
	}
	for _, x := range extracted {
		// What matched by an inverse type is in the group of that type.
		typ := x.forms[0].typ
		if x.partner >= 0 {
			typ = expected[x.partner].forms[0].typ
			groups[typ].Matched++
		}
		groups[typ].Extracted++
	}
	r.addGroups("relationship_type", groups, c.types.texts)
	r.MissedRelationships = c.relationshipMisses(m, &c.expected, &c.extracted)
	r.SpuriousRelationships = c.relationshipMisses(m, &c.extracted, &c.expected)
	return counts
}

func (c *call) relationshipMatch(p pairing, w statementMatch) RelationshipMatch {
	return RelationshipMatch{
		Expected:         c.expected.statement(p.expected),
		Extracted:        c.extracted.statement(p.extracted),
		ExpectedIndex:    c.expected.relationships[p.expected].index,
		ExtractedIndex:   c.extracted.relationships[p.extracted].index,
		MatchType:        matchTypes[w.rank],
		SourceSimilarity: w.source.value(),
		TargetSimilarity: w.target.value(),
		SourceRatio:      w.source.ratio(),
		TargetRatio:      w.target.ratio(),
	}
}

// statement shows a relationship as it was given; an end that refers to nothing
// shows the reference.
func (s *side) statement(i int) Statement {
	r := &s.given.Relationships[s.relationships[i].index]
	return Statement{Source: cmp.Or(r.Source, r.SourceRef), Type: r.Type, Target: cmp.Or(r.Target, r.TargetRef)}
}

// compareStatements orders statements by what they say, then by how.
func (s *side) compareStatements(i, j int) int {
	if d := slices.CompareFunc(s.relationships[i].forms, s.relationships[j].forms, form.compare); d != 0 {
		return d
	}
	a, b := s.statement(i), s.statement(j)
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Target, b.Target))
}

// relationshipMisses explains the relationships of one side that have no
// partner.
func (c *call) relationshipMisses(m *relationMatching, here, there *side) []RelationshipMiss {
	partner := func(i int) int { return here.relationships[i].partner }
	missed := unmatched(len(here.relationships), partner, here.compareStatements)
	if len(missed) == 0 || !c.explains {
		return nil
	}
	search := newStatementSearch(c, m, here, there)
	left := budget{nearestAllowance}
	var misses []RelationshipMiss
	for _, i := range missed {
		r := here.relationships[i]
		given := here.given.Relationships[r.index]
		miss := RelationshipMiss{Index: r.index, Statement: here.statement(i)}
		f := r.forms[0]
		switch {
		case given.Dangling():
			miss.Reason = ReasonDangling
		case f.source == 0 || f.target == 0:
			miss.Reason = ReasonEmptyEnd
		case f.typ == 0:
			miss.Reason = ReasonEmptyType
		default:
			search.explain(&miss, f, &left)
		}
		misses = append(misses, miss)
	}
	if left.exhausted() {
		c.warn("%s relationships: too many misses to look for the nearest of each; the scores are not affected", here.word)
	}
	slices.SortFunc(misses, func(a, b RelationshipMiss) int { return cmp.Compare(a.Index, b.Index) })
	return misses
}

func (f form) compare(g form) int {
	return cmp.Or(cmp.Compare(f.source, g.source), cmp.Compare(f.typ, g.typ), cmp.Compare(f.target, g.target))
}

// statementSearch looks for the nearest statement of the other side among
// those that share an end.
type statementSearch struct {
	c           *call
	here, there *side
	byEnd       index // members of there, by the names of their ends
	similar     index // names that are similar enough, both ways
	seen        []int // by member of there, the last miss that it was compared with + 1
}

func newStatementSearch(c *call, m *relationMatching, here, there *side) *statementSearch {
	var ends, similar [][2]int
	for i, r := range there.relationships {
		ends = append(ends, [2]int{r.forms[0].source, i}, [2]int{r.forms[0].target, i})
	}
	for name, list := range m.similar {
		for _, other := range list {
			similar = append(similar, [2]int{name, other.name}, [2]int{other.name, name})
		}
	}
	n := len(c.names.texts)
	return &statementSearch{c, here, there, newIndex(n, ends), newIndex(n, similar), make([]int, len(there.relationships))}
}

// candidate is how near a statement of the other side comes.
type candidate struct {
	member int
	reason Reason
	rank   int // of the reason, the nearest first; unrelated for none
	ends
}

// unrelated is the rank of what does not come near.
const unrelated = 5

func (s *statementSearch) isNearer(a, b candidate) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	taken := func(c candidate) bool { return s.there.relationships[c.member].partner >= 0 }
	return cmp.Or(cmp.Compare(b.ppm(), a.ppm()), falseFirst(taken(a), taken(b)),
		s.there.compareStatements(a.member, b.member)) < 0
}

// explain writes the reason and the nearest statement into a miss.
func (s *statementSearch) explain(miss *RelationshipMiss, f form, left *budget) {
	best := candidate{reason: ReasonNothingSimilar, rank: unrelated}
	related := s.related(f)
	left.spend(len(related))
	for _, name := range related {
		for _, i := range s.byEnd.of(name) {
			if !left.spend(50) {
				miss.Reason = ReasonNotSearched
				return
			}
			if s.seen[i] == miss.Index+1 {
				continue
			}
			s.seen[i] = miss.Index + 1
			if c := s.judge(f, i, left); c.rank < unrelated && s.isNearer(c, best) {
				best = c
			}
		}
	}
	miss.Reason = best.reason
	if best.rank == unrelated {
		return
	}
	other := s.there.relationships[best.member]
	miss.Nearest = &NearestRelationship{
		Index: other.index, Statement: s.there.statement(best.member),
		SourceSimilarity: best.source.value(), TargetSimilarity: best.target.value(),
	}
	if other.partner < 0 {
		return
	}
	taker := &s.here.relationships[other.partner]
	miss.Nearest.TakenBy = &taker.index
	if best.reason == ReasonTaken && taker.forms[0] == f {
		miss.Reason = ReasonDuplicate
	}
}

// related returns the names of either end and those similar to them, sorted.
func (s *statementSearch) related(f form) []int {
	var all []int
	for _, end := range []int{f.source, f.target} {
		for _, name := range s.c.endNames.names(end) {
			all = append(append(all, name), s.similar.of(name)...)
		}
	}
	return sortedSet(all)
}

// judge says how near statement i of the other side comes to a form.
func (s *statementSearch) judge(f form, i int, left *budget) candidate {
	g := s.there.relationships[i].forms[0]
	sameType := f.typ == g.typ
	reverse := slices.ContainsFunc(s.c.reversals[f.typ], func(r reversal) bool { return r.typ == g.typ })
	consider := func(g form, right bool) candidate {
		both := ends{s.end(f.source, g.source, left), s.end(f.target, g.target, left)}
		c := candidate{i, ReasonNothingSimilar, unrelated, both}
		switch source, target := s.holds(c.source), s.holds(c.target); {
		case source && target && right:
			if c.reason, c.rank = ReasonTaken, 1; !s.c.options.FuzzyRelationships && !c.equal() {
				c.reason = ReasonFuzzyOff
			}
		case source && target && (sameType || reverse):
			c.reason, c.rank = ReasonWrongDirection, 2
		case source && target:
			c.reason, c.rank = ReasonWrongType, 3
		case (source || target) && right:
			c.reason, c.rank = ReasonWrongEnd, 4
		}
		return c
	}
	straight := consider(g, sameType)
	if crossed := consider(g.swapped(), reverse); s.isNearer(crossed, straight) {
		return crossed
	}
	return straight
}

// holds reports whether two ends are similar enough to be one.
func (s *statementSearch) holds(e similarity) bool {
	return e == equalNames || e.initials || s.c.threshold.exceeded(e)
}

// end returns the similarity of an end to an end of the other side, 0 where
// it is less than a third. Aliases make ends equal and are not compared
// otherwise.
func (s *statementSearch) end(a, b int, left *budget) similarity {
	if _, alias := slices.BinarySearch(s.c.endNames.names(a), b); alias {
		return equalNames
	}
	if b == 0 || s.c.digitsDiffer(a, b) {
		return similarity{den: 1}
	}
	if s.c.initialsAgree(a, b) {
		return byInitials
	}
	if similar, ok := s.c.within(a, b, nearEdits(s.c.longer(a, b)), left); ok {
		return similar
	}
	return similarity{den: 1}
}
