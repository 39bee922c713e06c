package scoring

import (
	"cmp"
	"slices"
)

// relationshipMisses explains the relationships of one side that have no
// partner.
func (c *call) relationshipMisses(m *relationMatching, here, there *side, partner, theirPartner []int) []RelationshipMiss {
	search := newStatementSearch(c, m, here, there, theirPartner)
	var missed []int
	for i := range here.relationships {
		if partner[i] < 0 {
			missed = append(missed, i)
		}
	}
	slices.SortStableFunc(missed, func(i, j int) int {
		return here.relationships[i].forms[0].compare(here.relationships[j].forms[0])
	})
	left := budget{nearestAllowance}
	var misses []RelationshipMiss
	for _, i := range missed {
		r := here.relationships[i]
		given := here.given.Relationships[r.index]
		miss := RelationshipMiss{Index: r.index, Statement: statementOf(given)}
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
	return slices.Compare([]int{f.source, f.typ, f.target}, []int{g.source, g.typ, g.target})
}
