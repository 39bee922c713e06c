package scoring

import (
	"cmp"
	"slices"
	"strings"

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

// Duplicate is a repetition within one list.
type Duplicate struct {
	Index int `json:"index"`
	// Of is the index of the first of the equal things.
	Of int `json:"of"`
	// Collapsed reports whether the repetition was left out of the counts.
	Collapsed bool `json:"collapsed,omitempty"`
}

// Duplicates are the repetitions in all lists, whether or not they are collapsed: entities of
// equal normalised name and type, and relationships that state the same fact.
type Duplicates struct {
	ExpectedEntities       []Duplicate `json:"expected_entities,omitempty"`
	ExtractedEntities      []Duplicate `json:"extracted_entities,omitempty"`
	ExpectedRelationships  []Duplicate `json:"expected_relationships,omitempty"`
	ExtractedRelationships []Duplicate `json:"extracted_relationships,omitempty"`
}

// sameFacts returns for each relationship of a side the index of the first one that states the
// same fact, which may be its own.
func (c *call) sameFacts(s *side) []int {
	type fact struct {
		form
		sourceRef, targetRef string
		index                int
	}
	compare := func(f, g fact) int {
		return cmp.Or(f.compare(g.form), cmp.Compare(f.sourceRef, g.sourceRef), cmp.Compare(f.targetRef, g.targetRef))
	}
	facts := make([]fact, len(s.relationships))
	for i, r := range s.given.Relationships {
		facts[i] = fact{s.relationships[i].forms[0], r.SourceRef, r.TargetRef, i}
	}
	slices.SortFunc(facts, compare)
	first := newDisjointSet(len(facts))
	for k, f := range facts {
		if k > 0 && compare(facts[k-1], f) == 0 {
			first.join(facts[k-1].index, f.index)
			continue
		}
		reversed := fact{f.swapped(), f.targetRef, f.sourceRef, 0}
		for _, r := range c.reversals[f.typ] {
			reversed.typ = r.typ
			if at, ok := slices.BinarySearchFunc(facts, reversed, compare); ok {
				first.join(f.index, facts[at].index)
			}
		}
	}
	for i := range facts {
		first.parent[i] = first.find(i)
	}
	return first.parent
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
