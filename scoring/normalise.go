package scoring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// Normalisation says how names are spelled before they are compared.
type Normalisation string

// The normalisations of names. Each reads a byte that is not UTF-8 as U+FFFD,
// as JSON readers do, and treats a name of white space only as empty.
const (
	// NFKCCaseFold is NFKC, full case folding and NFKC again; runs of white
	// space become one space, the ends are trimmed. ß equals SS, ﬁ equals fi,
	// final and other sigma are equal. Diacritics and punctuation stay.
	NFKCCaseFold Normalisation = "nfkc_casefold"
	// Lower lower-cases code point by code point and treats white space
	// likewise; composed and decomposed letters differ.
	Lower Normalisation = "lower"
	// None compares names as they are written.
	None Normalisation = "none"
)

// spell brings a name into the form in which it is compared.
func (o Options) spell(name string) string {
	switch o.Normalise {
	case Lower:
		name = textutil.OneSpace(strings.ToLower(textutil.ValidUTF8(name)))
	case None:
		if name = textutil.ValidUTF8(name); strings.TrimSpace(name) == "" {
			name = ""
		}
	default:
		name = textutil.FoldName(name)
	}
	if o.FoldDiacritics {
		name = dropDiacritics(name)
	}
	return name
}

// dropDiacritics removes the combining marks of the Latin, Greek and Cyrillic
// scripts: é becomes e, й becomes и. Letters that do not decompose (ø, ł) and
// the vowel signs of other scripts stay.
func dropDiacritics(s string) string {
	marks := strings.Map(func(r rune) rune {
		if r >= 0x0300 && r <= 0x036F || r >= 0x1AB0 && r <= 0x1AFF ||
			r >= 0x1DC0 && r <= 0x1DFF || r >= 0x20D0 && r <= 0x20FF {
			return -1
		}
		return r
	}, norm.NFD.String(s))
	return norm.NFC.String(marks)
}

// entity is one entity of a side, with what it is compared by.
type entity struct {
	index   int // in the list as given
	name    int
	typ     int
	names   []int // name and aliases, sorted; nil for an empty name
	partner int   // that it is matched with, of the other side; -1 for none
}

// statement is one relationship of a side, with what it is compared by.
type statement struct {
	index   int // in the list as given
	forms   []form
	partner int // that it is matched with, of the other side; -1 for none
}

// form is one wording of a statement.
type form struct{ source, typ, target int }

// swapped is the form with its ends exchanged.
func (f form) swapped() form { return form{f.target, f.typ, f.source} }

// prepareEntities numbers the names and types of a side, finds repetitions and
// collapses them if asked to.
func (c *call) prepareEntities(s *side, aliases bool) {
	first := make(map[[2]int]int, len(s.entities))
	kept, empty, collapse := s.entities[:0], 0, c.options.Dedupe == Exact
	for _, e := range s.entities {
		e.name, e.typ = c.names.ids[e.name], c.types.ids[e.typ]
		if e.name == 0 {
			empty++
		} else {
			e.names = c.namesOfEntity(s.given.Entities[e.index], e.name, aliases)
		}
		key := [2]int{e.name, e.typ}
		of, repeated := first[key]
		if !repeated {
			first[key] = len(kept)
		} else {
			s.repeatedEntities = append(s.repeatedEntities, Duplicate{e.index, kept[of].index, collapse})
		}
		if repeated && collapse {
			kept[of].names = sortedSet(append(kept[of].names, e.names...))
		} else {
			kept = append(kept, e)
		}
	}
	s.entities = kept
	if empty > 0 {
		c.warn("%s: %s with an empty name, which counts and never matches", s.word, textutil.Counted(empty, "entity"))
	}
}

func (c *call) namesOfEntity(given extraction.Entity, name int, aliases bool) []int {
	all := c.names.only(name)
	if aliases {
		for _, alias := range given.Aliases {
			if id := c.names.id(alias); id != 0 {
				all = append(all, id)
			}
		}
	}
	return sortedSet(all)
}

// prepareRelationships numbers the ends and types of a side, finds repetitions
// and collapses them if asked to. An end that refers to nothing is empty,
// whatever is written beside the reference.
func (c *call) prepareRelationships(s *side) {
	dangling := 0
	for i, r := range s.given.Relationships {
		f := &s.relationships[i].forms[0]
		*f = form{c.names.ids[f.source], c.types.ids[f.typ], c.names.ids[f.target]}
		if r.SourceRef != "" {
			f.source = 0
		}
		if r.TargetRef != "" {
			f.target = 0
		}
		if r.Dangling() {
			dangling++
		}
	}
	if dangling > 0 {
		c.warn("%s: %s with an end that refers to no entity, which counts and never matches",
			s.word, textutil.Counted(dangling, "relationship"))
	}
	first, collapse := c.sameFacts(s), c.options.Dedupe == Exact
	for i, of := range first {
		if of == i {
			continue
		}
		s.repeatedFacts = append(s.repeatedFacts, Duplicate{i, of, collapse})
		if collapse {
			s.relationships[of].forms = append(s.relationships[of].forms, s.relationships[i].forms...)
		}
	}
	if !collapse {
		return
	}
	kept := s.relationships[:0]
	for i, r := range s.relationships {
		if first[i] == i {
			slices.SortFunc(r.forms, form.compare)
			r.forms = slices.Compact(r.forms)
			kept = append(kept, r)
		}
	}
	s.relationships = kept
}

// reversal is a converse by its number.
type reversal struct {
	typ     int
	inverse bool
}

// reversalsOf looks up every type that occurs, the type itself first.
func (c *call) reversalsOf() [][]reversal {
	all := make([][]reversal, len(c.types.texts))
	for typ, text := range c.types.texts {
		for _, other := range c.converses[text] {
			if id, ok := slices.BinarySearch(c.types.texts, other.typ); ok {
				all[typ] = append(all[typ], reversal{id, other.inverse})
			}
		}
		slices.SortFunc(all[typ], func(a, b reversal) int {
			return cmp.Or(falseFirst(a.inverse, b.inverse), cmp.Compare(a.typ, b.typ))
		})
		all[typ] = slices.Compact(all[typ])
	}
	return all
}

func sortedSet[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// maxTokens is how many words a name may have to be read with initials; a
// longer one is not a person's name, and comparing it is quadratic in the words.
const maxTokens = 32

// tokensOf returns the words of a name without their dots, or none where the
// initials rule does not apply: fewer than two words, or more than maxTokens.
func (n *names) tokensOf(id int) []string {
	p := n.profile(id)
	if p.tokens == nil {
		p.tokens = strings.Fields(strings.ReplaceAll(n.texts[id], ".", ""))
		if len(p.tokens) < 2 || len(p.tokens) > maxTokens {
			p.tokens = []string{}
		}
	}
	return p.tokens
}

// sameByInitials reports whether two names are one by their initials: the last
// words are equal, the first words agree, the middle words of the shorter name
// agree in order with middle words of the longer, and the words left over in
// the longer are single letters. Words agree if they are equal or one is the
// single letter that begins the other.
func sameByInitials(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 2 || a[len(a)-1] != b[len(b)-1] || !agree(a[0], b[0]) {
		return false
	}
	return alignMiddle(a[1:len(a)-1], b[1:len(b)-1])
}

// alignMiddle reports whether every word of a agrees, in order, with a word of
// b while the rest of b is single letters. fits[i] says whether the first i
// words of a fit the words of b seen so far.
func alignMiddle(a, b []string) bool {
	fits := make([]bool, len(a)+1)
	fits[0] = true
	for _, word := range b {
		for i := len(a); i >= 0; i-- {
			fits[i] = fits[i] && isLetter(word) || i > 0 && fits[i-1] && agree(a[i-1], word)
		}
	}
	return fits[len(a)]
}

func agree(a, b string) bool {
	return a == b || isLetter(a) && strings.HasPrefix(b, a) || isLetter(b) && strings.HasPrefix(a, b)
}

// isLetter reports whether a word is a single letter.
func isLetter(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.IsLetter(r)
}

// initialsAgree reports whether two names are one by their initials, where these
// count.
func (c *call) initialsAgree(a, b int) bool {
	return c.options.Initials && sameByInitials(c.names.tokensOf(a), c.names.tokensOf(b))
}

// byLastToken groups names by their last word, for the initials rule.
func (c *call) byLastToken(b []key) map[string][]int {
	if !c.options.Initials {
		return nil
	}
	groups := map[string][]int{}
	for _, k := range b {
		if tokens := c.names.tokensOf(k.name); len(tokens) > 0 {
			last := tokens[len(tokens)-1]
			groups[last] = append(groups[last], k.name)
		}
	}
	return groups
}

// compareInitials finds the names with the same last word that are one with a
// name by their initials.
func (c *call) compareInitials(name int, byLast map[string][]int, left *budget) {
	if len(byLast) == 0 {
		return
	}
	tokens := c.names.tokensOf(name)
	if len(tokens) == 0 {
		return
	}
	for _, other := range byLast[tokens[len(tokens)-1]] {
		if !left.spend(20 + len(tokens)*len(c.names.tokensOf(other))) {
			return
		}
		if other == name || c.digitsDiffer(name, other) || !sameByInitials(tokens, c.names.tokensOf(other)) {
			continue
		}
		if left.spend(edgeCost) {
			c.similarNames = append(c.similarNames, similarTo{other, c.withInitials(name, other, left)})
		}
	}
}

// withInitials returns the similarity of two names that are one by their
// initials: 0.9, or the plain similarity where that is higher.
func (c *call) withInitials(a, b int, left *budget) similarity {
	limit := moreThan(byInitials).maxDistance(c.longer(a, b))
	if !left.covers(limit) {
		return byInitials
	}
	s, ok := c.within(a, b, limit, left)
	if !ok {
		return byInitials
	}
	s.initials = !c.threshold.exceeded(s)
	return s
}

// endNames knows which names an end of an expected relationship stands for:
// an end that is a name of an expected entity stands for all its names.
type endNames struct {
	all      *names
	entities []entity
	byName   map[int][]int    // entities that have several names
	together map[string][]int // names of several entities
}

func newEndNames(all *names, entities []entity) endNames {
	a := endNames{all, entities, map[int][]int{}, map[string][]int{}}
	for i, e := range entities {
		if len(e.names) < 2 {
			continue
		}
		for _, name := range e.names {
			a.byName[name] = append(a.byName[name], i)
		}
	}
	return a
}

// names returns all names that an end stands for, sorted. Ends of the same
// entities share one list: an entity may have very many names.
func (a *endNames) names(end int) []int {
	owners := a.byName[end]
	switch len(owners) {
	case 0:
		return a.all.only(end)
	case 1:
		return a.entities[owners[0]].names
	}
	key := fmt.Sprint(owners)
	if _, known := a.together[key]; !known {
		var all []int
		for _, i := range owners {
			all = append(all, a.entities[i].names...)
		}
		a.together[key] = sortedSet(all)
	}
	return a.together[key]
}

// MatchType says how a relationship came to match.
type MatchType string

// The ways in which relationships match, the preferred first.
const (
	// ExactMatch: same type and equal ends; of a symmetric type also swapped.
	ExactMatch MatchType = "exact"
	// InverseMatch: inverse types and equal ends, swapped.
	InverseMatch MatchType = "inverse"
	// FuzzyMatch: as exact, with at least one end similar instead of equal.
	FuzzyMatch MatchType = "fuzzy"
	// InverseFuzzyMatch: as inverse, with at least one end similar.
	InverseFuzzyMatch MatchType = "inverse-fuzzy"
)

// matchTypes has them by rank.
var matchTypes = [...]MatchType{ExactMatch, InverseMatch, FuzzyMatch, InverseFuzzyMatch}

// statementMatch is how an expected statement can be matched with an extracted one.
type statementMatch struct {
	rank int32 // of matchTypes
	ends
}

// ends are the similarities of the ends of two statements.
type ends struct{ source, target similarity }

// ppm is the sum of both in millionths.
func (e ends) ppm() int64 { return e.source.ppm() + e.target.ppm() }

// equal reports whether both ends are.
func (e ends) equal() bool { return e.source == equalNames && e.target == equalNames }

// isExact reports whether the match is an ExactMatch.
func (w statementMatch) isExact() bool { return w.rank == 0 }

func (w statementMatch) betterThan(v statementMatch) bool {
	return w.rank < v.rank || w.rank == v.rank && w.ppm() > v.ppm()
}

// gain orders assignments: most exact, most exact or inverse, most pairs,
// most similar ends, most of the same type.
func (w statementMatch) gain() gain {
	g := gain{1, w.ppm(), 0}
	if w.equal() {
		g[0] += field
	}
	if w.isExact() {
		g[0] += field * field
	}
	if matchTypes[w.rank] == ExactMatch || matchTypes[w.rank] == FuzzyMatch {
		g[2] = 1
	}
	return g
}
