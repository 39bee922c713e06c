package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

// entityNodes groups the entities that have a name by their names, and within a group by type.
func (s *side) entityNodes() []node {
	order := ordered(len(s.entities), func(i int) bool { return s.entities[i].name != 0 }, s.compareEntities)
	return nodesOf(order,
		func(i, j int) bool { return slices.Equal(s.entities[i].names, s.entities[j].names) },
		func(i int) int { return s.entities[i].typ })
}

// compareEntities orders entities by normalised names and type, then by name and type as given.
func (s *side) compareEntities(i, j int) int {
	a, b := &s.entities[i], &s.entities[j]
	if d := cmp.Or(slices.Compare(a.names, b.names), cmp.Compare(a.typ, b.typ)); d != 0 {
		return d
	}
	x, y := &s.given.Entities[a.index], &s.given.Entities[b.index]
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
}

// matchEntities returns the best assignment between the entities of both sides.
func (c *call) matchEntities() *matching {
	m := &matching{expected: c.expected.entityNodes(), extracted: c.extracted.entityNodes()}
	byName := make([]int, len(c.names.texts)) // by name, the extracted node + 1
	c.linkEqualNames(m, byName)
	left := budget{searchAllowance}
	if c.options.FuzzyEntities {
		c.linkSimilarNames(m, byName, &left)
	}
	c.assign(m, "entities", &left)
	return m
}

// linkEqualNames links nodes that share a name, and fills byName.
func (c *call) linkEqualNames(m *matching, byName []int) {
	for x, n := range m.extracted {
		byName[c.extracted.entities[n.first].name] = x + 1
	}
	m.links = slices.Grow(c.links[:0], len(m.expected))
	for e, n := range m.expected {
		for _, name := range c.expected.entities[n.first].names {
			if x := byName[name] - 1; x >= 0 {
				match := statementMatch{ends: ends{source: equalNames}}
				m.links = append(m.links, link{e, x, true, gain{field + 1, equalNames.ppm()}, match})
			}
		}
	}
}

// linkSimilarNames links nodes that have similar names but none in common. Of several similar
// pairs of names of two nodes, the most similar counts.
func (c *call) linkSimilarNames(m *matching, byName []int, left *budget) {
	m.settleNodes()
	var ours, theirs []int
	var owners [][2]int
	for e, n := range m.expected {
		if n.settled {
			continue
		}
		for _, name := range c.expected.entities[n.first].names {
			ours, owners = append(ours, name), append(owners, [2]int{name, e})
		}
	}
	for _, n := range m.extracted { // in the order of the names
		if !n.settled {
			theirs = append(theirs, c.extracted.entities[n.first].name)
		}
	}
	ours, nodesOf := sortedSet(ours), newIndex(len(c.names.texts), owners)
	similar := c.findSimilar(ours, theirs, left)
	m.links = slices.Grow(m.links, len(c.similarNames))
	for _, name := range ours {
		for _, other := range similar[name] {
			for _, e := range nodesOf.of(name) {
				if !left.spend(edgeCost) {
					break
				}
				match := statementMatch{ends: ends{source: other.similarity}}
				m.links = append(m.links, link{e, byName[other.name] - 1, false, gain{1, other.ppm()}, match})
			}
		}
	}
	m.sortLinks() // the best of each pair of nodes first
	m.links = slices.CompactFunc(m.links, func(a, b link) bool { return a.expected == b.expected && a.extracted == b.extracted })
}

// scoreEntities matches the entities, adds matches, misses and groups to the result, and returns
// the counts.
func (c *call) scoreEntities(r *Result) *EntityCounts {
	m := c.matchEntities()
	expected, extracted := c.expected.entities, c.extracted.entities
	counts := &EntityCounts{Expected: int64(len(expected)), Extracted: int64(len(extracted))}
	if c.explains {
		r.Entities = make([]EntityMatch, 0, len(m.pairs))
	}
	groups := make([]outcome.Group, len(c.types.texts)) // by type
	for _, p := range m.pairs {
		match := c.entityMatch(m, p)
		counts.add(match)
		expected[p.expected].partner, extracted[p.extracted].partner = p.extracted, p.expected
		if c.explains {
			r.Entities = append(r.Entities, match)
		}
	}
	for _, e := range expected {
		groups[e.typ].Expected++
		if e.partner >= 0 && (e.typ == 0 || extracted[e.partner].typ == e.typ) {
			groups[e.typ].Matched++
		}
	}
	for _, x := range extracted {
		if x.partner >= 0 && expected[x.partner].typ == 0 {
			x.typ = 0 // not judged
		}
		groups[x.typ].Extracted++
	}
	r.addGroups("entity_type", groups, c.types.texts)
	r.MissedEntities = c.entityMisses(&c.expected, &c.extracted)
	r.SpuriousEntities = c.entityMisses(&c.extracted, &c.expected)
	if c.nearestBudget.exhausted() {
		c.warn("entities: too many misses to look for the nearest of each; the scores are not affected")
	}
	return counts
}

func (n *EntityCounts) add(m EntityMatch) {
	exact := m.Kind == ExactName || m.Kind == AliasName
	n.Matched++
	if exact {
		n.Exact++
	}
	if m.Type != TypeUnjudged {
		n.TypeJudged++
	}
	if m.Type == TypeCorrect {
		n.TypeCorrect++
	}
	if m.Type == TypeCorrect && exact {
		n.Strict++
	}
}

func (c *call) entityMatch(m *matching, p pairing) EntityMatch {
	e, x := c.expected.entities[p.expected], c.extracted.entities[p.extracted]
	expected, extracted := c.expected.given.Entities[e.index], c.extracted.given.Entities[x.index]
	link := m.links[p.link]
	s := link.match.source
	kind := FuzzyName
	switch {
	case e.name == x.name:
		kind = ExactName
	case link.exact:
		kind = AliasName
	case s.initials:
		kind = InitialsName
	}
	verdict := TypeWrong
	switch e.typ {
	case 0:
		verdict = TypeUnjudged
	case x.typ:
		verdict = TypeCorrect
	}
	return EntityMatch{
		Expected: expected.Name, Extracted: extracted.Name,
		ExpectedIndex: e.index, ExtractedIndex: x.index,
		Kind: kind, Similarity: s.value(), Ratio: s.ratio(),
		Type: verdict, ExpectedType: expected.Type, ExtractedType: extracted.Type,
	}
}

func (s similarity) value() float64 { return float64(s.num) / float64(s.den) }

func (s similarity) ratio() outcome.Ratio {
	return outcome.Ratio{Num: int64(s.num), Den: int64(s.den)}
}

// entityMisses explains the entities of own that have no partner, in the order of their content: if
// the search is cut short, it stops at the same place for every order of the list.
func (c *call) entityMisses(own, opposite *side) []EntityMiss {
	missed := ordered(len(own.entities), func(i int) bool { return own.entities[i].partner < 0 }, own.compareEntities)
	if len(missed) == 0 || !c.explains {
		return nil
	}
	search := c.newEntitySearch(opposite)
	var misses []EntityMiss
	for _, i := range missed {
		e := own.entities[i]
		given := own.given.Entities[e.index]
		miss := EntityMiss{Index: e.index, Name: given.Name, Type: given.Type}
		var nearest int
		var near similarity
		nearest, near, miss.Reason = search.nearestTo(e)
		if nearest >= 0 {
			other := opposite.entities[nearest]
			theirs := opposite.given.Entities[other.index]
			miss.Nearest = &NearestEntity{
				Index: other.index, Name: theirs.Name, Type: theirs.Type, Similarity: near.value(), Ratio: near.ratio(),
			}
			if other.partner >= 0 {
				taker := &own.entities[other.partner]
				miss.Nearest.TakenBy = &taker.index
				if taker.name == e.name {
					miss.Reason = ReasonDuplicate
				}
			}
		}
		misses = append(misses, miss)
	}
	slices.SortFunc(misses, func(a, b EntityMiss) int { return cmp.Compare(a.Index, b.Index) })
	return misses
}

// entitySearch finds the entity of one side with the most similar name.
type entitySearch struct {
	c       *call
	names   []int // sorted
	members []int // by name, the entity to show, preferably an unmatched one; -1 for none
}

func (c *call) newEntitySearch(opposite *side) *entitySearch {
	s := &entitySearch{c: c, members: slices.Repeat([]int{-1}, len(c.names.texts))}
	better := func(i, j int) bool {
		taken := falseFirst(opposite.entities[i].partner >= 0, opposite.entities[j].partner >= 0)
		return cmp.Or(taken, opposite.compareEntities(i, j)) < 0
	}
	for i, e := range opposite.entities {
		for _, name := range e.names {
			known := s.members[name]
			if known < 0 {
				s.names = append(s.names, name)
			}
			if known < 0 || better(i, known) {
				s.members[name] = i
			}
		}
	}
	slices.Sort(s.names)
	return s
}

// maxNearEdits returns the largest edit distance of near names if the longer has this length.
// Names less than a third similar are not near.
func maxNearEdits(longer int) int { return min(2*longer/3, nearestEdits) }

// nearestTo returns the member of the other side with the most similar name, or -1, the
// similarity, and the reason why the two do not match. Of equally similar names it takes the
// first by text.
func (s *entitySearch) nearestTo(e entity) (member int, best similarity, reason Reason) {
	if e.name == 0 {
		return -1, best, ReasonEmptyName
	}
	for _, name := range e.names {
		if member := s.members[name]; member >= 0 {
			return member, equalNames, ReasonTaken
		}
	}
	best = similarity{den: 1}
	nearest, of := 0, 0 // names; 0 for none
	for _, name := range e.names {
		for _, other := range s.names {
			similar, ok := s.moreSimilar(name, other, best)
			if s.c.nearestBudget.exhausted() {
				return -1, best, ReasonNotSearched
			}
			if ok {
				best, nearest, of = similar, other, name
			}
		}
	}
	if nearest == 0 {
		return -1, best, ReasonNothingSimilar
	}
	return s.members[nearest], best, s.c.mismatchReason(of, nearest, best)
}

// moreSimilar returns the similarity of two names if it is higher than known and at least a
// third.
func (s *entitySearch) moreSimilar(a, b int, known similarity) (similarity, bool) {
	p, q := s.c.names.profile(a), s.c.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	limit := min(maxNearEdits(longer), thresholdAt(known).maxDistance(longer))
	s.c.nearestBudget.spend(1)
	if minEdits(p.letters, q.letters) > limit {
		return similarity{}, false
	}
	return s.c.similarityWithin(a, b, limit, &s.c.nearestBudget)
}

// mismatchReason returns why two different names did not match. If they may match, one of them
// has another partner.
func (c *call) mismatchReason(a, b int, s similarity) Reason {
	switch {
	case !c.threshold.matches(s) && !c.initialsAgree(a, b):
		return ReasonUnderThreshold
	case !c.options.FuzzyEntities:
		return ReasonFuzzyOff
	case c.digitsDiffer(a, b):
		return ReasonDigitsDiffer
	}
	return ReasonTaken
}
