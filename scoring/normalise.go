package scoring

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// Normalisation is how names are normalised before they are compared.
type Normalisation string

// Normalisations of names. Each reads bytes that are not UTF-8 as U+FFFD, as JSON readers do, and
// treats a name that is only white space as empty.
const (
	// NFKCCaseFold applies NFKC, full case folding and NFKC again, makes runs of white space one
	// space, and trims the ends. ß equals SS, ﬁ equals fi, and a final sigma equals other sigmas.
	// Diacritics and punctuation stay.
	NFKCCaseFold Normalisation = "nfkc_casefold"
	// Lower makes each code point lower case and treats white space as NFKCCaseFold does.
	// Composed and decomposed letters differ.
	Lower Normalisation = "lower"
	// NoNormalisation compares names as they are given.
	NoNormalisation Normalisation = "none"
)

// normalise returns the form of a name that is compared.
func (o Options) normalise(name string) string {
	switch o.Normalise {
	case Lower:
		name = textutil.OneSpace(strings.ToLower(textutil.ValidUTF8(name)))
	case NoNormalisation:
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

// dropDiacritics removes the combining marks of the Latin, Greek and Cyrillic scripts: é becomes
// e, й becomes и. Letters that do not decompose (ø, ł) and the vowel signs of other scripts stay.
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

// entity is one entity of a side, as numbers of a dictionary.
type entity struct {
	index   int // in the given list
	name    int
	typ     int
	names   []int // name and aliases, sorted; nil for an empty name
	partner int   // the matched entity of the other side; -1 for none
}

// statement is one relationship of a side.
type statement struct {
	index   int    // in the given list
	forms   []form // one, or several if repetitions are collapsed
	partner int    // the matched statement of the other side; -1 for none
}

// form is one wording of a statement, as numbers of the dictionaries.
type form struct{ source, typ, target int }

// swapped returns the form with its ends exchanged.
func (f form) swapped() form { return form{f.target, f.typ, f.source} }

// prepareEntities sets the numbers of names and types of a side, and finds repetitions, which it
// collapses if the options say so.
func (c *call) prepareEntities(s *side, aliases bool) {
	first := make(map[[2]int]int, len(s.entities))
	kept, empty, collapse := s.entities[:0], 0, c.options.Dedupe == CollapseExact
	for _, e := range s.entities {
		e.name, e.typ = c.names.ids[e.name], c.types.ids[e.typ]
		if e.name != 0 {
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
			continue
		}
		kept = append(kept, e)
		if e.name == 0 {
			empty++
		}
	}
	s.entities = kept
	if empty > 0 && c.expected.given.Entities != nil {
		c.warn("%s: %s with an empty name, which counts and never matches", s.label, textutil.Counted(empty, "entity"))
	}
}

func (c *call) namesOfEntity(given extraction.Entity, name int, aliases bool) []int {
	all := c.names.single(name)
	if aliases {
		for _, alias := range given.Aliases {
			if id := c.names.id(alias); id != 0 {
				all = append(all, id)
			}
		}
	}
	return sortedSet(all)
}

// prepareRelationships sets the numbers of ends and types of a side, and finds repetitions, which
// it collapses if the options say so. An end that is a dangling reference is empty, even if it
// has a name.
func (c *call) prepareRelationships(s *side) {
	for i, r := range s.given.Relationships {
		f := &s.relationships[i].forms[0]
		*f = form{c.names.ids[f.source], c.types.ids[f.typ], c.names.ids[f.target]}
		if r.SourceRef != "" {
			f.source = 0
		}
		if r.TargetRef != "" {
			f.target = 0
		}
	}
	first, collapse, dangling := c.sameFacts(s), c.options.Dedupe == CollapseExact, 0
	for i, of := range first {
		if s.given.Relationships[i].Dangling() && (of == i || !collapse) {
			dangling++
		}
		if of == i {
			continue
		}
		s.repeatedFacts = append(s.repeatedFacts, Duplicate{i, of, collapse})
		if collapse {
			s.relationships[of].forms = append(s.relationships[of].forms, s.relationships[i].forms...)
		}
	}
	if dangling > 0 && c.expected.given.Relationships != nil {
		c.warn("%s: %s with an end that refers to no entity, which counts and never matches",
			s.label, textutil.Counted(dangling, "relationship"))
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

// reversal is a converse, with the number of its type.
type reversal struct {
	typ     int
	inverse bool
}

// reversalsOf returns the converses of each type, those that are not inverses first.
func (c *call) reversalsOf() [][]reversal {
	all := make([][]reversal, len(c.types.texts))
	for typ, text := range c.types.texts {
		for _, other := range c.converses[text] {
			if id, ok := slices.BinarySearch(c.types.texts, other.Type); ok {
				all[typ] = append(all[typ], reversal{id, other.Inverse})
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

// sameByInitials reports whether two names agree by their initials: the last words are equal, the
// first words agree, the middle words of the shorter name agree in order with middle words of the
// longer, and the other middle words of the longer are single letters. Words agree if they are
// equal or one is the single letter that begins the other.
func sameByInitials(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 2 || a[len(a)-1] != b[len(b)-1] || !agree(a[0], b[0]) {
		return false
	}
	return alignMiddle(a[1:len(a)-1], b[1:len(b)-1])
}

// alignMiddle reports whether every word of a agrees, in order, with a word of b, and the other
// words of b are single letters. fits[i] reports whether the first i words of a fit the words of
// b seen so far.
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

// initialsAgree reports whether two names agree by their initials, if the options allow that.
func (c *call) initialsAgree(a, b int) bool {
	return c.options.Initials && sameByInitials(c.names.tokensOf(a), c.names.tokensOf(b))
}

// byLastToken groups names by their last word, for compareInitials.
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

// compareInitials appends to similarNames the names in byLast that agree with a name by their
// initials.
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
			c.similarNames = append(c.similarNames, similarTo{other, c.initialsSimilarity(name, other, left)})
		}
	}
}

// initialsSimilarity returns the similarity of two names that agree by their initials: 0.9, or
// the plain similarity if that is higher.
func (c *call) initialsSimilarity(a, b int, left *budget) similarity {
	limit := thresholdAt(byInitials).maxDistance(c.longer(a, b))
	if !left.covers(limit) {
		return byInitials
	}
	s, ok := c.similarityWithin(a, b, limit, left)
	if !ok {
		return byInitials
	}
	s.initials = !c.threshold.matches(s)
	return s
}
