package scoring

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// Classify returns the faults of a result: each missed, spurious or wrongly typed thing is in
// exactly one fault, with one cause.
//
// A missed and a spurious thing that explain each other are one fault with both indices. The most
// similar pairs are joined first, each thing at most once. An extracted thing without a pair gets
// the first cause that applies: dangling, duplicate, swapped or wrong relationship type (if its
// counterpart has a better partner), invented, spurious. An expected thing without a pair is
// missed, or a duplicate if the gold repeats itself.
//
// A boundary fault needs a similarity of at least 0.5, or that the words of one name occur in a
// row in the other. inDocument reports whether the document contains a name; if it is nil,
// nothing is invented.
//
// Faults are in the order of the expected list, entities first, followed by those with an
// extracted index only, in the order of the extracted list. The number of faults of each cause
// does not depend on the order of the lists, except that collapsed repetitions count with the
// wording of the first. Cost: O(f·log f) for f faults.
func Classify(r Result, inDocument func(name string) bool) []Fault {
	if inDocument == nil {
		inDocument = func(string) bool { return true }
	}
	entities := classifier{what: FaultEntity, inDocument: inDocument}
	for _, m := range r.Entities {
		if m.Type == TypeWrong {
			entities.add(CauseWrongType, &m.ExpectedIndex, &m.ExtractedIndex)
		}
	}
	entities.missed = cli.Each(r.MissedEntities, EntityMiss.asMiss)
	entities.spurious = cli.Each(r.SpuriousEntities, EntityMiss.asMiss)
	relationships := classifier{what: FaultRelationship, inDocument: inDocument}
	relationships.missed = cli.Each(r.MissedRelationships, RelationshipMiss.asMiss)
	relationships.spurious = cli.Each(r.SpuriousRelationships, RelationshipMiss.asMiss)
	faults := entities.classify(r.Duplicates.ExtractedEntities)
	return append(faults, relationships.classify(r.Duplicates.ExtractedRelationships)...)
}

// miss is a missed or spurious thing.
type miss struct {
	index  int
	text   string
	reason Reason
	names  []string
	// The fault that it forms with the nearest thing of the other side if that is free; cause is ""
	// if they form none.
	cause       Cause
	similarity  float64
	nearest     int
	nearestText string
}

func (m EntityMiss) asMiss() miss {
	l := miss{index: m.Index, text: m.Name + "\x00" + m.Type, reason: m.Reason, names: []string{m.Name}}
	if n := m.Nearest; n != nil && n.TakenBy == nil {
		l.nearest, l.nearestText, l.similarity = n.Index, n.Name+"\x00"+n.Type, n.Similarity
		if m.Reason == ReasonFuzzyOff ||
			m.Reason == ReasonUnderThreshold && (n.Similarity >= minBoundarySimilarity || partOf(m.Name, n.Name)) {
			l.cause = CauseBoundary
		}
	}
	return l
}

func (m RelationshipMiss) asMiss() miss {
	l := miss{index: m.Index, text: m.text(), reason: m.Reason, names: []string{m.Source, m.Target}}
	if n := m.Nearest; n != nil && n.TakenBy == nil {
		l.nearest, l.nearestText, l.similarity = n.Index, n.text(), n.SourceSimilarity+n.TargetSimilarity
		switch {
		case m.Reason == ReasonWrongDirection:
			l.cause = CauseSwapped
		case m.Reason == ReasonWrongType:
			l.cause = CauseWrongRelationshipType
		case m.Reason == ReasonFuzzyOff, m.Reason == ReasonWrongEnd && n.hasSimilarEnd(m.Statement):
			l.cause = CauseBoundary
		}
	}
	return l
}

// minBoundarySimilarity is the similarity from which an unmatched name makes a boundary fault.
const minBoundarySimilarity = 0.5

// hasSimilarEnd reports whether the less similar end of s is similar to its counterpart in n, or
// one contains the words of the other.
func (n *NearestRelationship) hasSimilarEnd(s Statement) bool {
	end := s.Source
	if n.TargetSimilarity < n.SourceSimilarity {
		end = s.Target
	}
	return min(n.SourceSimilarity, n.TargetSimilarity) >= minBoundarySimilarity ||
		partOf(end, n.Source) || partOf(end, n.Target)
}

func (s Statement) text() string { return s.Source + "\x00" + s.Type + "\x00" + s.Target }

// classifier finds the faults of one family.
type classifier struct {
	what             string
	inDocument       func(name string) bool
	missed, spurious []miss
	faults           []Fault
}

func (c *classifier) add(cause Cause, expected, extracted *int) {
	c.faults = append(c.faults, Fault{Cause: cause, What: c.what, Expected: expected, Extracted: extracted})
}

// classify joins the best pairs first, then gives each remaining thing its own fault.
func (c *classifier) classify(duplicates []Duplicate) []Fault {
	repeated := repetitions(duplicates, c.spurious)
	expected, extracted := map[int]bool{}, map[int]bool{}
	for _, p := range c.pairs(repeated) {
		if !expected[p.expected] && !extracted[p.extracted] {
			expected[p.expected], extracted[p.extracted] = true, true
			c.add(p.cause, &p.expected, &p.extracted)
		}
	}
	for _, m := range c.missed {
		if !expected[m.index] {
			cause := CauseMissed
			if m.reason == ReasonDuplicate {
				cause = CauseDuplicate
			}
			c.add(cause, &m.index, nil)
		}
	}
	for _, m := range c.spurious {
		if !extracted[m.index] {
			c.add(c.unpairedCause(m, repeated[m.index]), nil, &m.index)
		}
	}
	place := func(index *int) int { return *cmp.Or(index, new(math.MaxInt)) }
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a.Expected), place(b.Expected)), cmp.Compare(place(a.Extracted), place(b.Extracted)))
	})
	return c.faults
}

// unpairedCause returns the cause of a spurious thing that is in no pair.
func (c *classifier) unpairedCause(m miss, repeated bool) Cause {
	switch {
	case m.reason == ReasonDangling || m.reason == ReasonEmptyEnd:
		return CauseDangling
	case m.reason == ReasonDuplicate || repeated:
		return CauseDuplicate
	case m.reason == ReasonWrongDirection:
		return CauseSwapped
	case m.reason == ReasonWrongType:
		return CauseWrongRelationshipType
	case slices.ContainsFunc(m.names, func(name string) bool { return name != "" && !c.inDocument(name) }):
		return CauseInvented
	}
	return CauseSpurious
}

// faultPair is an expected and an extracted thing that may form one fault.
type faultPair struct {
	cause               Cause
	similarity          float64
	expected, extracted int
	text                string // of both; decides ties independently of the order of the lists
}

// pairs returns all pairs of a missed and a spurious thing that may form one fault, the best
// first. Repetitions are in no pair.
func (c *classifier) pairs(repeated map[int]bool) []faultPair {
	var pairs []faultPair
	add := func(cause Cause, similarity float64, expected, extracted int, textExpected, textExtracted string) {
		if cause != "" && !repeated[extracted] {
			pairs = append(pairs, faultPair{cause, similarity, expected, extracted, textExpected + "\x00" + textExtracted})
		}
	}
	for _, m := range c.missed {
		add(m.cause, m.similarity, m.index, m.nearest, m.text, m.nearestText)
	}
	for _, m := range c.spurious {
		add(m.cause, m.similarity, m.nearest, m.index, m.nearestText, m.text)
	}
	rank := func(cause Cause) int {
		return slices.Index([]Cause{CauseSwapped, CauseWrongRelationshipType, CauseBoundary}, cause)
	}
	slices.SortFunc(pairs, func(a, b faultPair) int {
		return cmp.Or(cmp.Compare(rank(a.cause), rank(b.cause)), cmp.Compare(b.similarity, a.similarity),
			cmp.Compare(a.text, b.text), cmp.Compare(a.expected, b.expected), cmp.Compare(a.extracted, b.extracted))
	})
	return pairs
}

// partOf reports whether the names differ and the words of the shorter occur in a row in the
// longer.
func partOf(a, b string) bool {
	a, b = textutil.FoldName(a), textutil.FoldName(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != b && strings.Contains(" "+b+" ", " "+a+" ")
}

// repetitions returns the indices of the spurious things that repeat another. If one of several
// equal things is matched, all others are repetitions; otherwise all but the one whose text sorts
// first.
func repetitions(list []Duplicate, spurious []miss) map[int]bool {
	texts := map[int]string{}
	for _, m := range spurious {
		texts[m.index] = m.text
	}
	groups := map[int][]int{}
	for _, d := range list {
		if !d.Collapsed { // a collapsed one is not counted
			groups[d.Of] = append(groups[d.Of], d.Index)
		}
	}
	repeated := map[int]bool{}
	for first, others := range groups {
		members := append([]int{first}, others...)
		for _, i := range members {
			_, repeated[i] = texts[i]
		}
		// A matched one has no text here, so it sorts first.
		delete(repeated, slices.MinFunc(members, func(i, j int) int { return cmp.Compare(texts[i], texts[j]) }))
	}
	return repeated
}

// Cause is the kind of a fault. Classify assigns one to every missed, spurious or wrongly typed
// thing.
type Cause string

// Causes of faults of entities and relationships, see Causes.
const (
	CauseMissed                Cause = "missed"
	CauseSpurious              Cause = "spurious"
	CauseBoundary              Cause = "boundary" // "Microsoft" for "Microsoft Corporation"
	CauseWrongType             Cause = "wrong_type"
	CauseSwapped               Cause = "swapped_direction"
	CauseWrongRelationshipType Cause = "wrong_relationship_type"
	CauseDangling              Cause = "dangling_end"
	CauseDuplicate             Cause = "duplicate"
	CauseInvented              Cause = "invented"
)

// CauseMeaning is a cause with a sentence that explains it to users.
type CauseMeaning struct {
	Cause   Cause
	Meaning string
}

// Causes lists all causes in the order of the documentation.
func Causes() []CauseMeaning {
	return []CauseMeaning{
		{CauseMissed, "Expected, but nothing extracted matches it."},
		{CauseSpurious, "Extracted and named in the document, but not expected."},
		{CauseBoundary, "The name is similar to the expected one, but not similar enough."},
		{CauseWrongType, "The entity was found, but with another type than expected."},
		{CauseSwapped, "The ends of the relationship are the wrong way round."},
		{CauseWrongRelationshipType, "The relationship joins the right ends with another type."},
		{CauseDangling, "An end of the relationship is empty, or a reference to no entity."},
		{CauseDuplicate, "A repetition of something that is listed already."},
		{CauseInvented, "Extracted with a name that the document does not contain."},
	}
}

// Fault is one error of an extraction.
type Fault struct {
	Cause Cause `json:"cause"`
	// What is FaultEntity or FaultRelationship.
	What string `json:"what"`
	// Expected and Extracted are indices of the given lists; nil if the fault does not involve
	// that side.
	Expected  *int `json:"expected,omitempty"`
	Extracted *int `json:"extracted,omitempty"`
}

// Values of Fault.What.
const (
	FaultEntity       = "entity"
	FaultRelationship = "relationship"
)
