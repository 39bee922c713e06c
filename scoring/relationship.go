package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

// relationMatching links and matches the relationships of both sides.
type relationMatching struct {
	matching
	c            *call
	byForm       map[form]int  // the extracted node of a form
	isEnd        []bool        // by name, whether an extracted relationship has it as an end
	similar      [][]similarTo // by name of an expected end, the similar names of extracted ends
	matchable    [][]similarTo // by expected end, the result of matchesOfEnd
	latestLink   []int         // by extracted node, its latest link + 1
	searchBudget budget
}

func (c *call) matchRelationships() *relationMatching {
	m := &relationMatching{c: c, isEnd: make([]bool, len(c.names.texts)), searchBudget: budget{searchAllowance}}
	m.expected, m.extracted = c.expected.statementNodes(), c.extracted.statementNodes()
	m.byForm = make(map[form]int, len(m.extracted))
	m.latestLink = make([]int, len(m.extracted))
	m.similar = make([][]similarTo, len(c.names.texts))
	m.links = c.links[:0]
	for x, n := range m.extracted {
		for _, f := range c.extracted.relationships[n.first].forms {
			m.byForm[f] = x
			m.isEnd[f.source], m.isEnd[f.target] = true, true
		}
	}
	m.matchable = make([][]similarTo, len(c.names.texts))
	for e := range m.expected { // finds most matches of a good extraction without a search
		m.findMatches(e, true)
	}
	m.findInexactMatches()
	m.sortLinks()
	c.assign(&m.matching, "relationships", &m.searchBudget)
	return m
}

// statementNodes groups equal statements of a side, without those that have an empty end or type.
func (s *side) statementNodes() []node {
	complete := func(i int) bool {
		first := s.relationships[i].forms[0]
		return first.source != 0 && first.target != 0 && first.typ != 0
	}
	return nodesOf(ordered(len(s.relationships), complete, s.compareStatements),
		func(i, j int) bool { return slices.Equal(s.relationships[i].forms, s.relationships[j].forms) },
		func(int) int { return 0 })
}

// findInexactMatches finds inverse and fuzzy matches for the nodes that exact matches do not
// settle.
func (m *relationMatching) findInexactMatches() {
	m.settleNodes()
	if m.c.options.FuzzyRelationships {
		m.findSimilarEnds()
	}
	clear(m.matchable)
	exact, next := m.links, 0 // in the order of the expected nodes
	for e := range m.expected {
		for ; next < len(exact) && exact[next].expected == e; next++ {
			m.latestLink[exact[next].extracted] = next + 1
		}
		if !m.expected[e].settled {
			m.findMatches(e, false)
		}
	}
}

// findSimilarEnds finds similar names among the ends of the nodes that are not settled.
func (m *relationMatching) findSimilarEnds() {
	var ours, theirs []int
	for _, n := range m.expected {
		if n.settled {
			continue
		}
		for _, f := range m.c.expected.relationships[n.first].forms {
			ours = append(append(ours, m.c.endNames.names(f.source)...), m.c.endNames.names(f.target)...)
		}
	}
	for _, n := range m.extracted {
		if n.settled {
			continue
		}
		for _, f := range m.c.extracted.relationships[n.first].forms {
			theirs = append(theirs, f.source, f.target)
		}
	}
	m.similar = m.c.findSimilar(sortedSet(ours), sortedSet(theirs), &m.searchBudget)
}

// findMatches links an expected node with each extracted node that matches, by the best match of
// the two.
func (m *relationMatching) findMatches(e int, exactOnly bool) {
	for _, f := range m.c.expected.relationships[m.expected[e].first].forms {
		// Equal forms are found even if the budget is used up.
		if x, ok := m.byForm[f]; ok && exactOnly {
			m.addLink(e, x, similarTo{f.source, equalNames}, similarTo{f.target, equalNames}, false)
		}
		source, target := m.matchesOfEnd(f.source), m.matchesOfEnd(f.target)
		try := func(typ int, swapped, inverse bool) {
			for _, s := range source {
				for _, t := range target {
					if !m.searchBudget.spend(20) {
						return
					}
					wanted := form{s.name, typ, t.name}
					if swapped {
						wanted = wanted.swapped()
					}
					if x, ok := m.byForm[wanted]; ok && !m.extracted[x].settled {
						m.addLink(e, x, s, t, inverse)
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

// addLink adds a link between nodes e and x, or replaces the match of their link if this one is
// better.
func (m *relationMatching) addLink(e, x int, s, t similarTo, inverse bool) {
	w := statementMatch{ends: ends{s.similarity, t.similarity}}
	if inverse {
		w.rank = 1
	}
	if !w.equal() {
		w.rank += 2
	}
	at := m.latestLink[x] - 1
	known := at >= 0 && m.links[at].expected == e
	switch {
	case known && !w.betterThan(m.links[at].match):
		return
	case known:
	case !m.searchBudget.spend(edgeCost) && !w.isExact():
		return
	default:
		at = len(m.links)
		m.links, m.latestLink[x] = append(m.links, link{}), at+1
	}
	m.links[at] = link{e, x, w.isExact(), w.gain(), w}
}

// matchesOfEnd returns the names of extracted ends that an expected end may match: those equal or
// similar to one of its names. The cost is proportional to the number of names. If the budget is
// used up, the result is the end itself.
func (m *relationMatching) matchesOfEnd(end int) []similarTo {
	if list := m.matchable[end]; list != nil {
		return list
	}
	names := m.c.endNames.names(end)
	if !m.searchBudget.spend(len(names)) {
		return []similarTo{{end, equalNames}}
	}
	list := []similarTo{} // not nil, so that it is not collected again
	for _, name := range names {
		if m.isEnd[name] {
			list = append(list, similarTo{name, equalNames})
		}
		list = append(list, m.similar[name]...)
	}
	m.searchBudget.spend(20 * len(list))
	m.matchable[end] = bestOfEach(list)
	return m.matchable[end]
}

// scoreRelationships matches the relationships, adds matches, misses and groups to the result,
// and returns the counts.
func (c *call) scoreRelationships(r *Result) *RelationshipCounts {
	m := c.matchRelationships()
	expected, extracted := c.expected.relationships, c.extracted.relationships
	counts := &RelationshipCounts{Expected: int64(len(expected)), Extracted: int64(len(extracted))}
	byRank := [...]*int64{&counts.Exact, &counts.Inverse, &counts.Fuzzy, &counts.InverseFuzzy}
	if c.explains {
		r.Relationships = make([]RelationshipMatch, 0, len(m.pairs))
	}
	groups := make([]outcome.Group, len(c.types.texts)) // by type
	for _, p := range m.pairs {
		w := m.links[p.link].match
		counts.Correct++
		*byRank[w.rank]++
		expected[p.expected].partner, extracted[p.extracted].partner = p.extracted, p.expected
		if c.explains {
			r.Relationships = append(r.Relationships, c.relationshipMatch(p, w))
		}
	}
	for _, e := range expected {
		groups[e.forms[0].typ].Expected++
	}
	for _, x := range extracted {
		// A statement that matched counts in the group of the expected type, even if its own is
		// the inverse.
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

// statement returns a relationship as given. A dangling end shows its reference.
func (s *side) statement(i int) Statement {
	r := &s.given.Relationships[s.relationships[i].index]
	return Statement{Source: cmp.Or(r.Source, r.SourceRef), Type: r.Type, Target: cmp.Or(r.Target, r.TargetRef)}
}

// compareStatements orders statements by their normalised forms, then by their text as given.
func (s *side) compareStatements(i, j int) int {
	if d := slices.CompareFunc(s.relationships[i].forms, s.relationships[j].forms, form.compare); d != 0 {
		return d
	}
	a, b := s.statement(i), s.statement(j)
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Target, b.Target))
}

// relationshipMisses explains the relationships of own that have no partner, in the order of their
// content, as entityMisses does.
func (c *call) relationshipMisses(m *relationMatching, own, opposite *side) []RelationshipMiss {
	isMissed := func(i int) bool { return own.relationships[i].partner < 0 }
	missed := ordered(len(own.relationships), isMissed, own.compareStatements)
	if len(missed) == 0 || !c.explains {
		return nil
	}
	search := newStatementSearch(c, m, own, opposite)
	left := budget{nearestAllowance}
	var misses []RelationshipMiss
	for _, i := range missed {
		r := own.relationships[i]
		given := own.given.Relationships[r.index]
		miss := RelationshipMiss{Index: r.index, Statement: own.statement(i)}
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
		c.warn("%s relationships: too many misses to look for the nearest of each; the scores are not affected", own.label)
	}
	slices.SortFunc(misses, func(a, b RelationshipMiss) int { return cmp.Compare(a.Index, b.Index) })
	return misses
}

func (f form) compare(g form) int {
	return cmp.Or(cmp.Compare(f.source, g.source), cmp.Compare(f.typ, g.typ), cmp.Compare(f.target, g.target))
}

// statementSearch finds the nearest statement of the other side among those that share an end, or
// have a similar one.
type statementSearch struct {
	c             *call
	own, opposite *side
	byEnd         index // members of opposite, by the names of their ends
	similar       index // by name, the names that are similar enough, in both directions
	seen          []int // by member of opposite, the index of the last miss that it was compared with, + 1
}

func newStatementSearch(c *call, m *relationMatching, own, opposite *side) *statementSearch {
	var ends, similar [][2]int
	for i, r := range opposite.relationships {
		ends = append(ends, [2]int{r.forms[0].source, i}, [2]int{r.forms[0].target, i})
	}
	for name, list := range m.similar {
		for _, other := range list {
			similar = append(similar, [2]int{name, other.name}, [2]int{other.name, name})
		}
	}
	n := len(c.names.texts)
	seen := make([]int, len(opposite.relationships))
	return &statementSearch{c, own, opposite, newIndex(n, ends), newIndex(n, similar), seen}
}

// candidate is a statement of the other side, and how near it comes to a miss.
type candidate struct {
	member int
	reason Reason
	rank   int // of the reason, the nearest first; or unrelated
	ends
}

// unrelated is the rank of a candidate that is not near.
const unrelated = 5

func (s *statementSearch) isNearer(a, b candidate) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	taken := func(c candidate) bool { return s.opposite.relationships[c.member].partner >= 0 }
	return cmp.Or(cmp.Compare(b.ppm(), a.ppm()), falseFirst(taken(a), taken(b)),
		s.opposite.compareStatements(a.member, b.member)) < 0
}

// explain sets the reason and the nearest statement of a miss with the form f.
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
	other := s.opposite.relationships[best.member]
	miss.Nearest = &NearestRelationship{
		Index: other.index, Statement: s.opposite.statement(best.member),
		SourceSimilarity: best.source.value(), TargetSimilarity: best.target.value(),
	}
	if other.partner < 0 {
		return
	}
	taker := &s.own.relationships[other.partner]
	miss.Nearest.TakenBy = &taker.index
	if best.reason == ReasonTaken && taker.forms[0] == f {
		miss.Reason = ReasonDuplicate
	}
}

// related returns the names of both ends and the names similar to them, sorted.
func (s *statementSearch) related(f form) []int {
	var all []int
	for _, end := range []int{f.source, f.target} {
		for _, name := range s.c.endNames.names(end) {
			all = append(append(all, name), s.similar.of(name)...)
		}
	}
	return sortedSet(all)
}

// judge compares the form of a miss with statement i of the other side, in both directions.
func (s *statementSearch) judge(f form, i int, left *budget) candidate {
	g := s.opposite.relationships[i].forms[0]
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

// holds reports whether a similarity of two ends is enough for a match.
func (s *statementSearch) holds(e similarity) bool {
	return e == equalNames || e.initials || s.c.threshold.matches(e)
}

// end returns the similarity of an end to an end of the other side, or 0 if it is less than a
// third. If b equals no name that a stands for, only a itself is compared with b.
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
	if similar, ok := s.c.similarityWithin(a, b, maxNearEdits(s.c.longer(a, b)), left); ok {
		return similar
	}
	return similarity{den: 1}
}
