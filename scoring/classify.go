package scoring

import (
	"cmp"
	"slices"
	"strings"

	"extraction-experiment/internal/fold"
)

// Classify gives every fault of a result its cause.
//
// A missed and a spurious thing that explain each other are one fault with both
// indices; the most similar pairs are joined first, each thing at most once.
// What is left over of the extracted side is, by the first rule that holds:
// dangling, a duplicate, swapped or of the wrong relationship type (where its
// counterpart has a better partner), invented, spurious. What is left over of
// the expected side is missed, or a duplicate where the gold repeats itself.
//
// A boundary fault needs a similarity of at least 0.5, or one name whose words
// stand in a row within the other's. inDocument says whether a name stands in
// the document; nil calls nothing invented. Faults are in the order of the
// expected list, entities first, then the rest in the order of the extracted
// one. The counts by cause do not depend on the order of the lists, but for
// collapsed repetitions, which are worded as the first of them. Cost O(f·log f)
// for f faults.
func Classify(r Result, inDocument func(name string) bool) []Fault {
	if inDocument == nil {
		inDocument = func(string) bool { return true }
	}
	faults := classifyEntities(r, inDocument)
	return append(faults, classifyRelationships(r, inDocument)...)
}

func classifyEntities(r Result, inDocument func(string) bool) []Fault {
	spurious := map[int]string{}
	for _, m := range r.SpuriousEntities {
		spurious[m.Index] = m.text()
	}
	c := classifier{what: AnEntity, repeated: repetitions(r.Duplicates.ExtractedEntities, spurious)}
	for _, m := range r.Entities {
		if m.Type == TypeWrong {
			c.add(CauseWrongType, &m.ExpectedIndex, &m.ExtractedIndex)
		}
	}
	for _, m := range r.MissedEntities {
		if near := m.Nearest; boundaryOf(m) {
			c.propose(joint{CauseBoundary, boundaryRank, near.Similarity, m.Index, near.Index, m.text() + "\x00" + near.text()})
		}
	}
	for _, m := range r.SpuriousEntities {
		if near := m.Nearest; boundaryOf(m) {
			c.propose(joint{CauseBoundary, boundaryRank, near.Similarity, near.Index, m.Index, near.text() + "\x00" + m.text()})
		}
	}
	c.join()
	for _, m := range r.MissedEntities {
		c.left(m.Index, m.Reason)
	}
	for _, m := range r.SpuriousEntities {
		c.over(m.Index, m.Reason, func() bool { return m.Name == "" || inDocument(m.Name) })
	}
	return c.sorted()
}

func classifyRelationships(r Result, inDocument func(string) bool) []Fault {
	spurious := map[int]string{}
	for _, m := range r.SpuriousRelationships {
		spurious[m.Index] = m.text()
	}
	c := classifier{what: ARelationship, repeated: repetitions(r.Duplicates.ExtractedRelationships, spurious)}
	for _, m := range r.MissedRelationships {
		if cause, rank := explained(m); rank > 0 {
			c.propose(joint{cause, rank, m.Nearest.similarity(), m.Index, m.Nearest.Index, m.text() + "\x00" + m.Nearest.text()})
		}
	}
	for _, m := range r.SpuriousRelationships {
		if cause, rank := explained(m); rank > 0 {
			c.propose(joint{cause, rank, m.Nearest.similarity(), m.Nearest.Index, m.Index, m.Nearest.text() + "\x00" + m.text()})
		}
	}
	c.join()
	for _, m := range r.MissedRelationships {
		c.left(m.Index, m.Reason)
	}
	for _, m := range r.SpuriousRelationships {
		c.over(m.Index, m.Reason, func() bool { return inDocument(m.Source) && inDocument(m.Target) })
	}
	return c.sorted()
}

// leastBoundary is the similarity from which a name that did not match is still
// called similar.
const leastBoundary = 0.5

// The ranks of the causes that join a missed and a spurious thing.
const (
	swappedRank = iota + 1
	wrongTypeRank
	boundaryRank
)

// boundaryOf reports whether the nearest entity is free and nearly the same.
func boundaryOf(m EntityMiss) bool {
	if m.Nearest == nil || m.Nearest.TakenBy != nil {
		return false
	}
	switch m.Reason {
	case ReasonFuzzyOff:
		return true
	case ReasonUnderThreshold:
		return m.Nearest.Similarity >= leastBoundary || partOf(m.Name, m.Nearest.Name)
	}
	return false
}

// explained returns the cause that a free nearest statement gives to a miss,
// and its rank, the best first; 0 for none.
func explained(m RelationshipMiss) (Cause, int) {
	if m.Nearest == nil || m.Nearest.TakenBy != nil {
		return "", 0
	}
	switch m.Reason {
	case ReasonWrongDirection:
		return CauseSwapped, swappedRank
	case ReasonWrongType:
		return CauseWrongRelationshipType, wrongTypeRank
	case ReasonFuzzyOff:
		return CauseBoundary, boundaryRank
	case ReasonWrongEnd:
		end := m.Source
		if m.Nearest.TargetSimilarity < m.Nearest.SourceSimilarity {
			end = m.Target
		}
		if min(m.Nearest.SourceSimilarity, m.Nearest.TargetSimilarity) >= leastBoundary ||
			partOf(end, m.Nearest.Source) || partOf(end, m.Nearest.Target) {
			return CauseBoundary, boundaryRank
		}
	}
	return "", 0
}

func (n NearestRelationship) similarity() float64 { return n.SourceSimilarity + n.TargetSimilarity }

func (m EntityMiss) text() string { return m.Name + "\x00" + m.Type }

func (n NearestEntity) text() string { return n.Name + "\x00" + n.Type }

func (s Statement) text() string { return s.Source + "\x00" + s.Type + "\x00" + s.Target }

// partOf reports whether the words of one name stand in a row in the other, and
// the names differ.
func partOf(a, b string) bool {
	a, b = fold.Name(a), fold.Name(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && strings.Contains(" "+b+" ", " "+a+" ")
}

// repetitions returns which of the spurious things, texts by index, repeat
// another. Where one of those that say the same is matched, all others do; else
// all but the one that is first by its text.
func repetitions(list []Duplicate, spurious map[int]string) map[int]bool {
	groups := map[int][]int{}
	for _, d := range list {
		if !d.Collapsed { // else it counts nowhere
			groups[d.Of] = append(groups[d.Of], d.Index)
		}
	}
	repeated := map[int]bool{}
	for first, others := range groups {
		members := append([]int{first}, others...)
		left := slices.DeleteFunc(slices.Clone(members), func(i int) bool { _, is := spurious[i]; return !is })
		for _, i := range left {
			repeated[i] = true
		}
		if len(left) == len(members) {
			delete(repeated, slices.MinFunc(left, func(i, j int) int { return cmp.Compare(spurious[i], spurious[j]) }))
		}
	}
	return repeated
}

// joint is an expected and an extracted thing that may be one fault.
type joint struct {
	cause               Cause
	rank                int
	similarity          float64
	expected, extracted int
	text                string // of both, so that ties do not depend on the order of the lists
}

func (a joint) compare(b joint) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.text, b.text),
		cmp.Compare(a.expected, b.expected), cmp.Compare(a.extracted, b.extracted))
}
