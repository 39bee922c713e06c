package scoring

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
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
// are in a row within the other's. inDocument says whether a name is in
// the document; nil calls nothing invented. Faults are in the order of the
// expected list, entities first, then the rest in the order of the extracted
// one. The counts by cause do not depend on the order of the lists, but for
// collapsed repetitions, which are worded as the first of them. Cost O(f·log f)
// for f faults.
func Classify(r Result, inDocument func(name string) bool) []Fault {
	if inDocument == nil {
		inDocument = func(string) bool { return true }
	}
	entities := classifier{what: AnEntity, inDocument: inDocument}
	for _, m := range r.Entities {
		if m.Type == TypeWrong {
			entities.add(CauseWrongType, &m.ExpectedIndex, &m.ExtractedIndex)
		}
	}
	entities.missed = cli.Each(r.MissedEntities, EntityMiss.loose)
	entities.spurious = cli.Each(r.SpuriousEntities, EntityMiss.loose)
	relationships := classifier{what: ARelationship, inDocument: inDocument}
	relationships.missed = cli.Each(r.MissedRelationships, RelationshipMiss.loose)
	relationships.spurious = cli.Each(r.SpuriousRelationships, RelationshipMiss.loose)
	faults := entities.classify(r.Duplicates.ExtractedEntities)
	return append(faults, relationships.classify(r.Duplicates.ExtractedRelationships)...)
}

// loose is a missed or spurious thing.
type loose struct {
	index  int
	text   string
	reason Reason
	names  []string
	cause  Cause // that it has in common with the nearest of the other side, where that is free; "" for none
	near   near
}

// near is the nearest thing of the other side.
type near struct {
	index      int
	text       string
	similarity float64
}

func (m EntityMiss) loose() loose {
	l := loose{index: m.Index, text: m.Name + "\x00" + m.Type, reason: m.Reason, names: []string{m.Name}}
	n := m.Nearest
	if n == nil {
		return l
	}
	l.near = near{n.Index, n.Name + "\x00" + n.Type, n.Similarity}
	if n.TakenBy == nil && (m.Reason == ReasonFuzzyOff ||
		m.Reason == ReasonUnderThreshold && (n.Similarity >= leastBoundary || partOf(m.Name, n.Name))) {
		l.cause = CauseBoundary
	}
	return l
}

func (m RelationshipMiss) loose() loose {
	l := loose{index: m.Index, text: m.text(), reason: m.Reason, names: []string{m.Source, m.Target}}
	n := m.Nearest
	if n == nil {
		return l
	}
	l.near = near{n.Index, n.text(), n.SourceSimilarity + n.TargetSimilarity}
	switch {
	case n.TakenBy != nil:
	case m.Reason == ReasonWrongDirection:
		l.cause = CauseSwapped
	case m.Reason == ReasonWrongType:
		l.cause = CauseWrongRelationshipType
	case m.Reason == ReasonFuzzyOff, m.Reason == ReasonWrongEnd && n.hasNear(m.Statement):
		l.cause = CauseBoundary
	}
	return l
}

// leastBoundary is the similarity from which a name that did not match is still
// called similar.
const leastBoundary = 0.5

// hasNear reports whether the end of a statement that is less similar is still so, or a
// part of a name here.
func (n *NearestRelationship) hasNear(s Statement) bool {
	end := s.Source
	if n.TargetSimilarity < n.SourceSimilarity {
		end = s.Target
	}
	return min(n.SourceSimilarity, n.TargetSimilarity) >= leastBoundary || partOf(end, n.Source) || partOf(end, n.Target)
}

func (s Statement) text() string { return s.Source + "\x00" + s.Type + "\x00" + s.Target }

// classifier finds the faults of one family.
type classifier struct {
	what             string
	inDocument       func(name string) bool
	missed, spurious []loose
	faults           []Fault
}

func (c *classifier) add(cause Cause, expected, extracted *int) {
	c.faults = append(c.faults, Fault{Cause: cause, What: c.what, Expected: expected, Extracted: extracted})
}

// classify makes faults of pairs, the best first, and then of what is in none.
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
			c.add(c.leftOver(m, repeated[m.index]), nil, &m.index)
		}
	}
	place := func(index *int) int { return *cmp.Or(index, new(math.MaxInt)) }
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a.Expected), place(b.Expected)), cmp.Compare(place(a.Extracted), place(b.Extracted)))
	})
	return c.faults
}

// leftOver is the cause of a spurious thing that is in no pair.
func (c *classifier) leftOver(m loose, repeated bool) Cause {
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

// faultPair is an expected and an extracted thing that may be one fault.
type faultPair struct {
	cause               Cause
	similarity          float64
	expected, extracted int
	text                string // of both, so that ties do not depend on the order of the lists
}

// pairs returns every pair of a missed and a spurious thing of which one explains
// the other, the best first. Repetitions are in none.
func (c *classifier) pairs(repeated map[int]bool) []faultPair {
	var pairs []faultPair
	for _, m := range c.missed {
		if m.cause != "" && !repeated[m.near.index] {
			pairs = append(pairs, faultPair{m.cause, m.near.similarity, m.index, m.near.index, m.text + "\x00" + m.near.text})
		}
	}
	for _, m := range c.spurious {
		if m.cause != "" && !repeated[m.index] {
			pairs = append(pairs, faultPair{m.cause, m.near.similarity, m.near.index, m.index, m.near.text + "\x00" + m.text})
		}
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

// partOf reports whether the words of one name are in a row in the other, and
// the names differ.
func partOf(a, b string) bool {
	a, b = textutil.FoldName(a), textutil.FoldName(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && a != b && strings.Contains(" "+b+" ", " "+a+" ")
}

// repetitions returns which of the spurious things, by index, repeat another.
// Where one of those that say the same is matched, all others do; else all but the
// one that is first by its text.
func repetitions(list []Duplicate, spurious []loose) map[int]bool {
	texts := map[int]string{}
	for _, m := range spurious {
		texts[m.index] = m.text
	}
	groups := map[int][]int{}
	for _, d := range list {
		if !d.Collapsed { // else it counts nowhere
			groups[d.Of] = append(groups[d.Of], d.Index)
		}
	}
	repeated := map[int]bool{}
	for first, others := range groups {
		members, matched := append([]int{first}, others...), false
		for _, i := range members {
			_, repeated[i] = texts[i]
			matched = matched || !repeated[i]
		}
		if !matched {
			delete(repeated, slices.MinFunc(members, func(i, j int) int { return cmp.Compare(texts[i], texts[j]) }))
		}
	}
	return repeated
}

// dictionary gives each distinct text a number, in the order of the texts, so
// that whatever is decided by comparing numbers is decided by content and not
// by the order of a list. 0 is the empty text.
//
// Every text is added first, then the dictionary is closed, then it answers.
type dictionary struct {
	spell   func(string) string
	places  map[string]int // of the texts as given
	spelled []string       // by place
	ids     []int          // by place
	texts   []string       // by number
}

func newDictionary(spell func(string) string) *dictionary {
	return &dictionary{spell: spell, places: map[string]int{}}
}

// add returns the place of the text, by which its number is found later.
func (d *dictionary) add(raw string) int {
	place, known := d.places[raw]
	if !known {
		place = len(d.spelled)
		d.places[raw] = place
		d.spelled = append(d.spelled, d.spell(raw))
	}
	return place
}

func (d *dictionary) close() {
	d.texts = append(append(make([]string, 0, len(d.spelled)+1), ""), d.spelled...)
	slices.Sort(d.texts)
	d.texts = slices.Compact(d.texts)
	d.ids = make([]int, len(d.spelled))
	for place, text := range d.spelled {
		d.ids[place], _ = slices.BinarySearch(d.texts, text)
	}
}

// id returns the number of a text that was added.
func (d *dictionary) id(raw string) int { return d.ids[d.places[raw]] }

// profile is what comparing one name with others needs.
type profile struct {
	runes []rune
	// letters has a bit for each code point of the name, by its value modulo
	// 64. One edit takes at most one bit away and adds at most one.
	letters uint64
	digits  *string  // the decimal digits in order; nil until asked for
	tokens  []string // words without dots, at most maxTokens
}

// names are the distinct names of one call with their profiles.
type names struct {
	*dictionary
	numbers  []int     // all in order, see only
	profiles []profile // by number, made when first asked for
	room     []rune    // for the next profiles
}

// only returns the list of one name.
func (n *names) only(id int) []int { return n.numbers[id : id+1 : id+1] }

func (n *names) profile(id int) *profile {
	if n.profiles == nil {
		n.profiles = make([]profile, len(n.texts))
	}
	p, text := &n.profiles[id], n.texts[id]
	if p.runes != nil {
		return p
	}
	if cap(n.room)-len(n.room) < len(text) {
		n.room = make([]rune, 0, max(256, len(text)))
	}
	from := len(n.room)
	for _, r := range text {
		n.room = append(n.room, r)
		p.letters |= 1 << (uint32(r) % 64)
	}
	p.runes = slices.Clip(n.room[from:])
	return p
}

// digitsOf returns the decimal digits of a name, in order.
func (n *names) digitsOf(id int) string {
	p := n.profile(id)
	if p.digits == nil {
		digits := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return r
			}
			return -1
		}, n.texts[id])
		p.digits = &digits
	}
	return *p.digits
}

// leastEdits returns a lower bound of the edit distance of two names that
// costs next to nothing, from the letters that they use.
func leastEdits(a, b uint64) int {
	return max(bits.OnesCount64(a&^b), bits.OnesCount64(b&^a))
}

// Cause says what kind of fault stands between an extraction and what was
// expected. Every missed, spurious or wrongly typed thing has exactly one; see
// Classify.
type Cause string

// The causes, of entities and of relationships.
const (
	// CauseMissed: expected, and nothing extracted answers to it.
	CauseMissed Cause = "missed"
	// CauseSpurious: extracted, named in the document, and not expected.
	CauseSpurious Cause = "spurious"
	// CauseBoundary: extracted with a name that is similar and not similar
	// enough, "Microsoft" for "Microsoft Corporation".
	CauseBoundary Cause = "boundary"
	// CauseWrongType: an entity matched, with another type than expected.
	CauseWrongType Cause = "wrong_type"
	// CauseSwapped: a relationship whose ends are the wrong way round.
	CauseSwapped Cause = "swapped_direction"
	// CauseWrongRelationshipType: a relationship between the right ends, of
	// another type.
	CauseWrongRelationshipType Cause = "wrong_relationship_type"
	// CauseDangling: a relationship with an end that names no entity.
	CauseDangling Cause = "dangling_end"
	// CauseDuplicate: a repetition of something that is matched, or listed,
	// already.
	CauseDuplicate Cause = "duplicate"
	// CauseInvented: extracted with a name that the document does not contain.
	CauseInvented Cause = "invented"
)

// CauseMeaning is a cause with one sentence for people.
type CauseMeaning struct {
	Cause   Cause
	Meaning string
}

// Causes lists every cause in the order of the documentation.
func Causes() []CauseMeaning {
	return []CauseMeaning{
		{CauseMissed, "Expected, and nothing extracted answers to it."},
		{CauseSpurious, "Extracted, named in the document, and not expected."},
		{CauseBoundary, "The name is similar to the expected one, and not similar enough."},
		{CauseWrongType, "The entity was found, with another type than expected."},
		{CauseSwapped, "The ends of the relationship are the wrong way round."},
		{CauseWrongRelationshipType, "The relationship joins the right ends with another type."},
		{CauseDangling, "An end of the relationship names no entity."},
		{CauseDuplicate, "A repetition of something that is listed already."},
		{CauseInvented, "Extracted with a name that the document does not contain."},
	}
}

// Fault is one thing that is wrong with an extraction.
type Fault struct {
	Cause Cause `json:"cause"`
	// What is "entity" or "relationship".
	What string `json:"what"`
	// Expected and Extracted are indices of the given lists; nil where that
	// side has no part in the fault.
	Expected  *int `json:"expected,omitempty"`
	Extracted *int `json:"extracted,omitempty"`
}

// What a Fault is about.
const (
	AnEntity      = "entity"
	ARelationship = "relationship"
)
