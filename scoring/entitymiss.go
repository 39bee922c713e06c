package scoring

import (
	"cmp"
	"maps"
	"slices"
)

// entityMisses explains the entities of one side that have no partner.
func (c *call) entityMisses(here, there *side, partner, theirPartner []int) []EntityMiss {
	search := c.newEntitySearch(there, theirPartner)
	var missed []int
	for i := range here.entities {
		if partner[i] < 0 {
			missed = append(missed, i)
		}
	}
	// By content, so that a search cut short stops at the same place whatever
	// the order of the list.
	slices.SortStableFunc(missed, func(i, j int) int {
		a, b := here.entities[i], here.entities[j]
		return cmp.Or(slices.Compare(a.names, b.names), cmp.Compare(a.typ, b.typ))
	})
	var misses []EntityMiss
	for _, i := range missed {
		e := here.entities[i]
		given := here.given.Entities[e.index]
		miss := EntityMiss{Index: e.index, Name: given.Name, Type: given.Type}
		near := search.nearestTo(e)
		miss.Reason = near.reason
		if near.member >= 0 {
			other := there.entities[near.member]
			theirs := there.given.Entities[other.index]
			miss.Nearest = &NearestEntity{
				Index: other.index, Name: theirs.Name, Type: theirs.Type,
				Similarity: near.similarity.value(), Ratio: near.similarity.ratio(),
			}
			if taker := theirPartner[near.member]; taker >= 0 {
				miss.Nearest.TakenBy = &here.entities[taker].index
				if here.entities[taker].name == e.name {
					miss.Reason = ReasonDuplicate
				}
			}
		}
		misses = append(misses, miss)
	}
	slices.SortFunc(misses, func(a, b EntityMiss) int { return cmp.Compare(a.Index, b.Index) })
	return misses
}

// near is what comes nearest to a miss.
type near struct {
	member     int // -1 for nothing
	similarity similarity
	reason     Reason
}

// entitySearch looks for the nearest entity of one side by name.
type entitySearch struct {
	c       *call
	names   []int       // sorted
	members map[int]int // by name, the one to show: an unmatched one first
}

func (c *call) newEntitySearch(there *side, partner []int) *entitySearch {
	s := &entitySearch{c: c, members: map[int]int{}}
	better := func(i, j int) bool {
		if (partner[i] < 0) != (partner[j] < 0) {
			return partner[i] < 0
		}
		a, b := there.entities[i], there.entities[j]
		x, y := there.given.Entities[a.index], there.given.Entities[b.index]
		return cmp.Or(slices.Compare(a.names, b.names), cmp.Compare(a.typ, b.typ), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type)) < 0
	}
	for i, e := range there.entities {
		for _, name := range e.names {
			if known, ok := s.members[name]; !ok || better(i, known) {
				s.members[name] = i
			}
		}
	}
	s.names = slices.Sorted(maps.Keys(s.members))
	return s
}

// leastNear is the similarity, as a divisor, under which nothing counts as
// near: a third.
const leastNear = 3

// nearestTo finds the most similar name of the other side; of equally similar
// ones the first by its text.
func (s *entitySearch) nearestTo(e entity) near {
	best := near{member: -1, reason: ReasonNothingSimilar}
	if e.name == 0 {
		best.reason = ReasonEmptyName
		return best
	}
	for _, name := range e.names {
		if member, ok := s.members[name]; ok {
			return near{member, equalNames, ReasonTaken}
		}
	}
	bestName, bestOther := 0, 0
	for _, name := range e.names {
		for _, other := range s.names {
			similar, ok := s.closer(name, other, best.similarity)
			if s.c.nearest.exhausted() {
				return near{member: -1, reason: ReasonNotSearched}
			}
			if ok {
				best.similarity, best.member, bestName, bestOther = similar, s.members[other], name, other
			}
		}
	}
	if best.member >= 0 {
		best.reason = s.c.whyNot(bestName, bestOther, best.similarity)
	}
	return best
}

// closer returns the similarity of two names if it is higher than what is
// known, and at least a third.
func (s *entitySearch) closer(a, b int, known similarity) (similarity, bool) {
	m := s.c.matcher
	p, q := m.names.profile(a), m.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	limit := min(longer-(longer+leastNear-1)/leastNear, nearestEdits)
	if known.den > 0 {
		// (m-d)/m > num/den  ⇔  d < m·(den-num)/den
		limit = min(limit, (longer*(known.den-known.num)+known.den-1)/known.den-1)
	}
	s.c.nearest.spend(1)
	if leastEdits(p.letters, q.letters) > limit {
		return similarity{}, false
	}
	d, work := m.editor.distance(p.runes, q.runes, limit)
	s.c.nearest.spend(editCost * work)
	return similarity{num: longer - d, den: longer}, d >= 0
}

// whyNot says why two different names did not match: of two similar ones that
// were free to match one has another partner.
func (c *call) whyNot(a, b int, s similarity) Reason {
	similar := s.den-s.num <= c.threshold.maxDistance(s.den)
	byInitials := c.options.Initials && sameByInitials(c.names.tokensOf(a), c.names.tokensOf(b))
	switch {
	case !similar && !byInitials:
		return ReasonUnderThreshold
	case !c.options.FuzzyEntities:
		return ReasonFuzzyOff
	case c.matcher.digitsDiffer(a, b):
		return ReasonDigitsDiffer
	}
	return ReasonTaken
}
