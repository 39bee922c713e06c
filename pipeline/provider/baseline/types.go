package baseline

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"extraction-experiment/extraction"
)

// threshold is the score below which a candidate is of no type of the schema.
const threshold = 0.35

// leading is the share of the strongest evidence below which a kind is not
// considered: a river is no company only because the schema has no places.
const leading = 0.4

// entityType is one type of the item's schema as the rules read it.
type entityType struct {
	name     string
	affinity evidence // how well the type fits each kind, in [0,1]
	words    map[string]bool
}

// typing assigns types of one item's schema to candidates.
type typing struct {
	types  []entityType // by name
	wanted [kinds]bool  // some type takes the kind
}

// newTyping reads the types that the document allows. Without object schemas
// the allowed types themselves are the schema.
func newTyping(doc extraction.Document, lex *lexicon) typing {
	var t typing
	names := slices.Sorted(maps.Keys(doc.Objects))
	if len(names) == 0 {
		names = slices.Compact(slices.Sorted(slices.Values(doc.AllowedTypes)))
	} else if len(doc.AllowedTypes) > 0 {
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(doc.AllowedTypes, n) })
	}
	for _, name := range names {
		t.types = append(t.types, readType(name, doc.Objects[name], lex))
	}
	t.fallBack()
	return t
}

// readType weighs the words of a type: one in its name decides, the first
// words of its description count more than what comes later.
func readType(name string, schema extraction.ObjectSchema, lex *lexicon) entityType {
	t := entityType{name: name, words: map[string]bool{}}
	seen := schemaTokens(name + " " + schema.Name)
	last := len(seen) - 1
	for i, w := range seen {
		weight := float32(0.75)
		if i == last || len(seen) == 1 {
			weight = 1
		}
		t.note(w, weight, lex)
	}
	if t.affinity != (evidence{}) {
		weight := float32(0.6)
		for _, w := range schemaTokens(schema.Description) {
			t.note(w, weight, lex)
			weight = max(0.3, weight-0.03)
		}
		return t
	}
	weight := float32(0.9)
	for _, w := range schemaTokens(schema.Description) {
		t.note(w, weight, lex)
		weight = max(0.3, weight-0.05)
	}
	return t
}

func (t *entityType) note(w string, weight float32, lex *lexicon) {
	if len(w) > 3 && !lex.stops[w] {
		t.words[singular(w)] = true
	}
	found, ok := lex.kinds[w]
	if !ok {
		found = lex.kinds[singular(w)]
	}
	if !lex.generic[w] && !lex.generic[singular(w)] {
		weight *= 0.85
	}
	for _, k := range found {
		t.affinity[k] = max(t.affinity[k], weight)
	}
	if k, ok := lex.heads[w]; ok && len(found) == 0 {
		t.affinity[k] = max(t.affinity[k], weight*0.6)
	}
}

// fallBack lets neighbouring types take the kinds that no type is meant for,
// so that a schema without "country" still puts countries under "place".
func (t *typing) fallBack() {
	var meant [kinds]bool
	for _, ty := range t.types {
		for k, v := range ty.affinity {
			meant[k] = meant[k] || v >= 0.55
		}
	}
	for i, ty := range t.types {
		direct := ty.affinity
		for k := range kinds {
			if meant[k] {
				continue
			}
			for n, discount := range k.neighbours() {
				t.types[i].affinity[k] = max(t.types[i].affinity[k], direct[n]*discount)
			}
		}
		for k, v := range t.types[i].affinity {
			t.wanted[k] = t.wanted[k] || v > 0
		}
	}
}

// assign returns the type that the evidence speaks for: the greatest product
// of evidence and affinity, plus 1 when a word of the candidate is a word of
// the schema. Ties go to the type that sorts first. False when no type reaches
// the threshold.
func (t typing) assign(ev evidence, words []string) (int, bool) {
	best, at := float32(threshold), -1
	strong := leading * slices.Max(ev[:])
	for i, ty := range t.types {
		var score float32
		for k, v := range ev {
			if v >= strong {
				score = max(score, v*ty.affinity[k])
			}
		}
		for _, w := range words {
			if len(w) > 3 && ty.words[singular(w)] {
				score++
				break
			}
		}
		if score > best {
			best, at = score, i
		}
	}
	return at, at >= 0
}

// schemaTokens cuts "HTTPServer_name of X" into lower-case words.
func schemaTokens(s string) []string {
	s = s[:min(len(s), 2000)]
	var b strings.Builder
	lower := false
	for _, r := range s {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// singular strips the plural endings of English.
func singular(w string) string {
	switch {
	case len(w) > 4 && strings.HasSuffix(w, "ies"):
		return w[:len(w)-3] + "y"
	case len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss"):
		return w[:len(w)-1]
	}
	return w
}

func sorted(words map[string]bool) []string { return slices.Sorted(maps.Keys(words)) }

func sortKinds(ks []kind) { slices.Sort(ks) }
