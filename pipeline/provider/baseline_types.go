package provider

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// kind is what the rules themselves tell apart; types of a schema take kinds.
type kind uint8

const (
	person kind = 1 + iota
	org
	place
	date
	money
	percent
	quantity
	work
	code
	role
	thing // a named thing of no other kind
	kinds
)

// evidence is how much speaks for each kind.
type evidence [kinds]float32

func (e *evidence) add(other evidence) {
	for k, v := range other {
		e[k] += v
	}
}

// entityType is an entity type of the schema.
type entityType struct {
	name  string
	own   []string // the words of its name
	takes evidence // how well it takes each kind
}

// readTypes makes the types of a schema that are allowed, in order of their names.
func (d *document) readTypes(doc extraction.Document) {
	names := slices.Sorted(maps.Keys(doc.Objects))
	if len(names) == 0 {
		names = slices.Clone(doc.AllowedTypes)
		slices.Sort(names)
	}
	for _, name := range slices.Compact(names) {
		if len(doc.AllowedTypes) > 0 && !slices.Contains(doc.AllowedTypes, name) {
			continue
		}
		t := entityType{name: name}
		for i, w := range append(splitWords(name), splitWords(doc.Objects[name].Description)...) {
			weight := float32(0.3) / float32(1+i/8)
			if i < len(splitWords(name)) {
				weight = 1
				t.own = append(t.own, w)
			}
			if k := d.schemaKinds[w]; k > 0 {
				d.wanted[k] = true
				t.takes[k] = max(t.takes[k], weight)
			}
		}
		if t.takes == (evidence{}) && doc.Objects[name].Description != "" {
			t.takes[thing], d.wanted[thing] = 0.3, true
		}
		d.types = append(d.types, t)
	}
}

// typeOf chooses the type of an entity, or -1: the sum over kinds of evidence
// and how well the type takes the kind; a word of the type's name in or beside
// the entity's decides. What is mostly of a kind that no type takes has none. Of
// equals the first in the order of names wins.
func (d *document) typeOf(e *entity) int {
	strongest := kind(0)
	for k := person; k < kinds; k++ {
		if e.evidence[k] > e.evidence[strongest] {
			strongest = k
		}
	}
	best, at := float32(0.2), -1
	if !d.wanted[strongest] && e.evidence[strongest] >= 3*float32(len(e.mentions)) {
		best = 2.9 // only its own word is left
	}
	for i, t := range d.types {
		var sum float32
		for k, v := range e.evidence {
			sum += v * t.takes[k]
		}
		sum /= float32(max(1, len(e.mentions)))
		if slices.ContainsFunc(t.own, func(w string) bool { return slices.Contains(e.words, w) }) {
			sum += 3
		}
		if sum > best {
			best, at = sum, i
		}
	}
	return at
}

// splitWords returns the words of a name or a description in lower case; a
// capital inside a word begins another one.
func splitWords(text string) []string {
	var b strings.Builder
	var last rune
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		if last = r; !unicode.IsLetter(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// stem is the beginning that a word shares with its other forms: without its
// last letters, never under four.
func stem(word string) string {
	for _, ending := range []string{"ation", "ing", "ed", "es", "s", "ies", "y", "e"} {
		if cut, ok := strings.CutSuffix(word, ending); ok && utf8.RuneCountInString(cut) >= 4 {
			return cut
		}
	}
	return word
}
