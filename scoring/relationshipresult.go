package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/extraction"
)

// scoreRelationships matches the relationships, writes matches, misses and
// groups into the result, and returns the counts.
func (c *call) scoreRelationships(r *Result) *RelationshipCounts {
	m := c.matchRelationships()
	expected, extracted := c.expected.relationships, c.extracted.relationships
	counts := &RelationshipCounts{Expected: int64(len(expected)), Extracted: int64(len(extracted))}
	r.Relationships = []RelationshipMatch{}
	groups := c.newGroups("relationship_type")
	partners := newPartners(len(expected), len(extracted))
	for _, p := range m.pairs {
		w := m.ways[m.links[p.link].detail]
		counts.add(w.kind)
		partners.pair(p)
		r.Relationships = append(r.Relationships, c.relationshipMatch(p, w))
	}
	slices.SortFunc(r.Relationships, func(a, b RelationshipMatch) int { return cmp.Compare(a.ExpectedIndex, b.ExpectedIndex) })
	for _, e := range expected {
		groups.expected(e.forms[0].typ)
	}
	for i, x := range extracted {
		// What matched by an inverse type stands in the group of that type.
		typ := x.forms[0].typ
		if e := partners.ofExtracted[i]; e >= 0 {
			typ = expected[e].forms[0].typ
			groups.matched(typ)
		}
		groups.extracted(typ)
	}
	r.Groups = append(r.Groups, groups.list()...)
	r.MissedRelationships = c.relationshipMisses(m, &c.expected, &c.extracted, partners.ofExpected, partners.ofExtracted)
	r.SpuriousRelationships = c.relationshipMisses(m, &c.extracted, &c.expected, partners.ofExtracted, partners.ofExpected)
	return counts
}

func (n *RelationshipCounts) add(kind MatchType) {
	n.Correct++
	switch kind {
	case ExactMatch:
		n.Exact++
	case InverseMatch:
		n.Inverse++
	case FuzzyMatch:
		n.Fuzzy++
	case InverseFuzzyMatch:
		n.InverseFuzzy++
	}
}

func (c *call) relationshipMatch(p pairing, w way) RelationshipMatch {
	e, x := c.expected.relationships[p.expected], c.extracted.relationships[p.extracted]
	return RelationshipMatch{
		Expected:         statementOf(c.expected.given.Relationships[e.index]),
		Extracted:        statementOf(c.extracted.given.Relationships[x.index]),
		ExpectedIndex:    e.index,
		ExtractedIndex:   x.index,
		MatchType:        w.kind,
		SourceSimilarity: w.source.value(),
		TargetSimilarity: w.target.value(),
		SourceRatio:      w.source.ratio(),
		TargetRatio:      w.target.ratio(),
	}
}

// statementOf shows a relationship as it was given; an end that refers to
// nothing shows the reference.
func statementOf(r extraction.Relationship) Statement {
	return Statement{
		Source: cmp.Or(r.Source, r.SourceRef),
		Type:   r.Type,
		Target: cmp.Or(r.Target, r.TargetRef),
	}
}
