package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/outcome"
)

// scoreEntities matches the entities, writes matches, misses and groups into
// the result, and returns the counts.
func (c *call) scoreEntities(r *Result) *EntityCounts {
	m := c.matchEntities()
	counts := &EntityCounts{Expected: int64(len(c.expected.entities)), Extracted: int64(len(c.extracted.entities))}
	r.Entities = []EntityMatch{}
	groups := c.newGroups("entity_type")
	partners := newPartners(len(c.expected.entities), len(c.extracted.entities))
	for _, p := range m.pairs {
		match := c.entityMatch(m, p)
		counts.add(match)
		partners.pair(p)
		r.Entities = append(r.Entities, match)
		if c.expected.entities[p.expected].typ == c.extracted.entities[p.extracted].typ {
			groups.matched(c.expected.entities[p.expected].typ)
		}
	}
	slices.SortFunc(r.Entities, func(a, b EntityMatch) int { return cmp.Compare(a.ExpectedIndex, b.ExpectedIndex) })
	for _, e := range c.expected.entities {
		groups.expected(e.typ)
	}
	for _, x := range c.extracted.entities {
		groups.extracted(x.typ)
	}
	r.Groups = append(r.Groups, groups.list()...)
	r.MissedEntities = c.entityMisses(&c.expected, &c.extracted, partners.ofExpected, partners.ofExtracted)
	r.SpuriousEntities = c.entityMisses(&c.extracted, &c.expected, partners.ofExtracted, partners.ofExpected)
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

func (c *call) entityMatch(m *entityMatching, p pairing) EntityMatch {
	e, x := c.expected.entities[p.expected], c.extracted.entities[p.extracted]
	expected, extracted := c.expected.given.Entities[e.index], c.extracted.given.Entities[x.index]
	link := m.links[p.link]
	s := m.similarities[link.detail]
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

// partners knows for each member of either side with which one it was matched,
// -1 for none.
type partners struct{ ofExpected, ofExtracted []int }

func newPartners(expected, extracted int) partners {
	p := partners{make([]int, expected), make([]int, extracted)}
	for i := range p.ofExpected {
		p.ofExpected[i] = -1
	}
	for i := range p.ofExtracted {
		p.ofExtracted[i] = -1
	}
	return p
}

func (p partners) pair(q pairing) {
	p.ofExpected[q.expected], p.ofExtracted[q.extracted] = q.extracted, q.expected
}
