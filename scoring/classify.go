package scoring

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// classifier collects the faults of one family.
type classifier struct {
	what           string
	repeated       map[int]bool // extracted, by index
	candidatePairs []faultPair
	faults         []Fault

	expected, extracted map[int]bool // explained already
}

func (c *classifier) propose(j faultPair) {
	if !c.repeated[j.extracted] {
		c.candidatePairs = append(c.candidatePairs, j)
	}
}

// join makes faults of the proposed pairs, the best first.
func (c *classifier) join() {
	c.expected, c.extracted = map[int]bool{}, map[int]bool{}
	slices.SortFunc(c.candidatePairs, faultPair.compare)
	for _, j := range c.candidatePairs {
		if c.expected[j.expected] || c.extracted[j.extracted] {
			continue
		}
		c.expected[j.expected], c.extracted[j.extracted] = true, true
		c.add(j.cause, &j.expected, &j.extracted)
	}
}

// addMissed classifies what is expected and in no pair.
func (c *classifier) addMissed(index int, reason Reason) {
	switch {
	case c.expected[index]:
	case reason == ReasonDuplicate:
		c.add(CauseDuplicate, &index, nil)
	default:
		c.add(CauseMissed, &index, nil)
	}
}

// addSpurious classifies what is extracted and in no pair.
func (c *classifier) addSpurious(index int, reason Reason, grounded func() bool) {
	cause := CauseSpurious
	switch {
	case c.extracted[index]:
		return
	case reason == ReasonDangling || reason == ReasonEmptyEnd:
		cause = CauseDangling
	case reason == ReasonDuplicate || c.repeated[index]:
		cause = CauseDuplicate
	case reason == ReasonWrongDirection:
		cause = CauseSwapped
	case reason == ReasonWrongType:
		cause = CauseWrongRelationshipType
	case !grounded():
		cause = CauseInvented
	}
	c.add(cause, nil, &index)
}

func (c *classifier) add(cause Cause, expected, extracted *int) {
	c.faults = append(c.faults, Fault{Cause: cause, What: c.what, Expected: expected, Extracted: extracted})
}

func (c *classifier) sorted() []Fault {
	place := func(index *int) int {
		if index == nil {
			return math.MaxInt
		}
		return *index
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a.Expected), place(b.Expected)), cmp.Compare(place(a.Extracted), place(b.Extracted)))
	})
	return c.faults
}

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
			c.propose(faultPair{CauseBoundary, boundaryRank, near.Similarity, m.Index, near.Index, m.text() + "\x00" + near.text()})
		}
	}
	for _, m := range r.SpuriousEntities {
		if near := m.Nearest; boundaryOf(m) {
			c.propose(faultPair{CauseBoundary, boundaryRank, near.Similarity, near.Index, m.Index, near.text() + "\x00" + m.text()})
		}
	}
	c.join()
	for _, m := range r.MissedEntities {
		c.addMissed(m.Index, m.Reason)
	}
	for _, m := range r.SpuriousEntities {
		c.addSpurious(m.Index, m.Reason, func() bool { return m.Name == "" || inDocument(m.Name) })
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
			c.propose(faultPair{cause, rank, m.Nearest.similarity(), m.Index, m.Nearest.Index, m.text() + "\x00" + m.Nearest.text()})
		}
	}
	for _, m := range r.SpuriousRelationships {
		if cause, rank := explained(m); rank > 0 {
			c.propose(faultPair{cause, rank, m.Nearest.similarity(), m.Nearest.Index, m.Index, m.Nearest.text() + "\x00" + m.text()})
		}
	}
	c.join()
	for _, m := range r.MissedRelationships {
		c.addMissed(m.Index, m.Reason)
	}
	for _, m := range r.SpuriousRelationships {
		c.addSpurious(m.Index, m.Reason, func() bool { return inDocument(m.Source) && inDocument(m.Target) })
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
	a, b = textutil.FoldName(a), textutil.FoldName(b)
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

// faultPair is an expected and an extracted thing that may be one fault.
type faultPair struct {
	cause               Cause
	rank                int
	similarity          float64
	expected, extracted int
	text                string // of both, so that ties do not depend on the order of the lists
}

func (a faultPair) compare(b faultPair) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.text, b.text),
		cmp.Compare(a.expected, b.expected), cmp.Compare(a.extracted, b.extracted))
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
