package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

// entityNodes groups the entities of a side that have a name by their names, and
// within by type.
func (s *side) entityNodes() []node {
	order := make([]int, 0, len(s.entities))
	for i, e := range s.entities {
		if e.name != 0 {
			order = append(order, i)
		}
	}
	return nodesOf(order, s.compareEntities,
		func(i, j int) bool { return slices.Equal(s.entities[i].names, s.entities[j].names) },
		func(i int) int { return s.entities[i].typ })
}

// compareEntities orders entities by content: names and type, then how they are
// spelled.
func (s *side) compareEntities(i, j int) int {
	a, b := &s.entities[i], &s.entities[j]
	if d := cmp.Or(slices.Compare(a.names, b.names), cmp.Compare(a.typ, b.typ)); d != 0 {
		return d
	}
	x, y := &s.given.Entities[a.index], &s.given.Entities[b.index]
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
}

// matchEntities links and matches the entities of both sides.
func (c *call) matchEntities() *matching {
	m := &matching{expected: c.expected.entityNodes(), extracted: c.extracted.entityNodes()}
	byName := make([]int, len(c.names.texts)) // extracted nodes + 1
	c.exactEntities(m, byName)
	search := budget{searchAllowance}
	if c.options.FuzzyEntities {
		c.similarEntities(m, byName, &search)
	}
	c.assign(m, "entities", &search)
	return m
}

// exactEntities links nodes that share a name.
func (c *call) exactEntities(m *matching, byName []int) {
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

// similarEntities links nodes that share no name and have similar ones; the
// most similar names decide.
func (c *call) similarEntities(m *matching, byName []int, search *budget) {
	m.closeNodes()
	var ours, theirs []int
	var owners [][2]int
	for e, n := range m.expected {
		if n.closed {
			continue
		}
		for _, name := range c.expected.entities[n.first].names {
			ours, owners = append(ours, name), append(owners, [2]int{name, e})
		}
	}
	for _, n := range m.extracted { // in the order of the names
		if !n.closed {
			theirs = append(theirs, c.extracted.entities[n.first].name)
		}
	}
	ours, nodesOf := sortedSet(ours), newIndex(len(c.names.texts), owners)
	similar := c.similarAmong(ours, theirs, search)
	m.links = slices.Grow(m.links, len(c.similarNames))
	for _, name := range ours {
		for _, other := range similar[name] {
			for _, e := range nodesOf.of(name) {
				if !search.spend(edgeCost) {
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

// scoreEntities matches the entities, writes matches, misses and groups into
// the result, and returns the counts.
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
			x.typ = 0 // it is not judged
		}
		groups[x.typ].Extracted++
	}
	r.addGroups("entity_type", groups, c.types.texts)
	r.MissedEntities = c.entityMisses(&c.expected, &c.extracted)
	r.SpuriousEntities = c.entityMisses(&c.extracted, &c.expected)
	if c.nearest.exhausted() {
		c.warn("entities: too many misses to look for the nearest of each; the scores are not affected")
	}
	return counts
}

// typed reports whether an expected entity with a name has a type.
func (c *call) typed() bool {
	return slices.ContainsFunc(c.expected.entities, func(e entity) bool { return e.name != 0 && e.typ != 0 })
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

// entityMisses explains the entities of one side that have no partner.
func (c *call) entityMisses(here, there *side) []EntityMiss {
	missed := unmatched(len(here.entities), func(i int) int { return here.entities[i].partner }, here.compareEntities)
	if len(missed) == 0 || !c.explains {
		return nil
	}
	search := c.newEntitySearch(there)
	var misses []EntityMiss
	for _, i := range missed {
		e := here.entities[i]
		given := here.given.Entities[e.index]
		miss := EntityMiss{Index: e.index, Name: given.Name, Type: given.Type}
		var nearest int
		var near similarity
		nearest, near, miss.Reason = search.nearestTo(e)
		if nearest >= 0 {
			other := there.entities[nearest]
			theirs := there.given.Entities[other.index]
			miss.Nearest = &NearestEntity{
				Index: other.index, Name: theirs.Name, Type: theirs.Type, Similarity: near.value(), Ratio: near.ratio(),
			}
			if other.partner >= 0 {
				taker := &here.entities[other.partner]
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

// unmatched returns the members that have no partner, in the order of their content:
// so a search cut short stops at the same place whatever the order of the list.
func unmatched(n int, partner func(i int) int, compare func(i, j int) int) []int {
	var list []int
	for i := range n {
		if partner(i) < 0 {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, compare)
	return list
}

// entitySearch looks for the nearest entity of one side by name.
type entitySearch struct {
	c       *call
	names   []int // sorted
	members []int // by name, the one to show: an unmatched one first; -1 for none
}

func (c *call) newEntitySearch(there *side) *entitySearch {
	s := &entitySearch{c: c, members: slices.Repeat([]int{-1}, len(c.names.texts))}
	better := func(i, j int) bool {
		taken := falseFirst(there.entities[i].partner >= 0, there.entities[j].partner >= 0)
		return cmp.Or(taken, there.compareEntities(i, j)) < 0
	}
	for i, e := range there.entities {
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

// nearEdits returns how many edits may lie between near names, the longer of that
// length: what is less than a third similar is not near.
func nearEdits(longer int) int { return min(2*longer/3, nearestEdits) }

// nearestTo finds the member of the other side with the most similar name, -1 for
// none, and says why the two do not match; of equally similar names it takes the
// first by its text.
func (s *entitySearch) nearestTo(e entity) (member int, best similarity, why Reason) {
	if e.name == 0 {
		return -1, best, ReasonEmptyName
	}
	for _, name := range e.names {
		if member := s.members[name]; member >= 0 {
			return member, equalNames, ReasonTaken
		}
	}
	best = similarity{den: 1}
	nearest, of := 0, 0 // 0 for none
	for _, name := range e.names {
		for _, other := range s.names {
			similar, ok := s.closer(name, other, best)
			if s.c.nearest.exhausted() {
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
	return s.members[nearest], best, s.c.whyNot(of, nearest, best)
}

// closer returns the similarity of two names if it is higher than what is
// known, and at least a third.
func (s *entitySearch) closer(a, b int, known similarity) (similarity, bool) {
	p, q := s.c.names.profile(a), s.c.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	limit := min(nearEdits(longer), moreThan(known).maxDistance(longer))
	s.c.nearest.spend(1)
	if leastEdits(p.letters, q.letters) > limit {
		return similarity{}, false
	}
	return s.c.within(a, b, limit, &s.c.nearest)
}

// whyNot says why two different names did not match: of two similar ones that
// were free to match one has another partner.
func (c *call) whyNot(a, b int, s similarity) Reason {
	switch {
	case !c.threshold.exceeded(s) && !c.initialsAgree(a, b):
		return ReasonUnderThreshold
	case !c.options.FuzzyEntities:
		return ReasonFuzzyOff
	case c.digitsDiffer(a, b):
		return ReasonDigitsDiffer
	}
	return ReasonTaken
}

// Duplicate is a repetition in one list.
type Duplicate struct {
	Index int `json:"index"`
	// Of is the index of the first one of its kind.
	Of int `json:"of"`
	// Collapsed says that the repetition was left out of the counts.
	Collapsed bool `json:"collapsed,omitempty"`
}

// Duplicates are the repetitions of all lists, found whether or not they are
// collapsed: entities of equal normalised name and type, and relationships
// that state the same fact.
type Duplicates struct {
	ExpectedEntities       []Duplicate `json:"expected_entities,omitempty"`
	ExtractedEntities      []Duplicate `json:"extracted_entities,omitempty"`
	ExpectedRelationships  []Duplicate `json:"expected_relationships,omitempty"`
	ExtractedRelationships []Duplicate `json:"extracted_relationships,omitempty"`
}

// sameFacts returns for each relationship of a side the first one that states
// the same fact, itself included.
func (c *call) sameFacts(s *side) []int {
	type fact struct {
		form
		sourceRef, targetRef string
		index                int
	}
	compare := func(f, g fact) int {
		return cmp.Or(f.compare(g.form), cmp.Compare(f.sourceRef, g.sourceRef), cmp.Compare(f.targetRef, g.targetRef))
	}
	facts := make([]fact, len(s.relationships))
	for i, r := range s.given.Relationships {
		facts[i] = fact{s.relationships[i].forms[0], r.SourceRef, r.TargetRef, i}
	}
	slices.SortFunc(facts, compare)
	first := newDisjointSet(len(facts))
	for k, f := range facts {
		if k > 0 && compare(facts[k-1], f) == 0 {
			first.join(facts[k-1].index, f.index)
			continue
		}
		turned := fact{f.swapped(), f.targetRef, f.sourceRef, 0}
		for _, r := range c.reversals[f.typ] {
			turned.typ = r.typ
			if at, ok := slices.BinarySearchFunc(facts, turned, compare); ok {
				first.join(f.index, facts[at].index)
			}
		}
	}
	for i := range facts {
		first.parent[i] = first.find(i)
	}
	return first.parent
}
