package configs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// inverseTypes and symmetricTypes are the tables of the specification, repeated here so that the
// test does not depend on package scoring.
var inverseTypes = [][2]string{
	{"parent_of", "child_of"}, {"employs", "employed_by"}, {"contains", "contained_in"},
	{"owns", "owned_by"}, {"manages", "managed_by"}, {"created", "created_by"},
	{"supervises", "supervised_by"}, {"leads", "led_by"}, {"member_of", "has_member"},
	{"located_in", "contains_location"}, {"lived_in", "was_residence_of"},
	{"born_in", "birthplace_of"}, {"died_in", "deathplace_of"}, {"originated_from", "origin_of"},
}

var symmetricTypes = []string{
	"married_to", "sibling_of", "related_to", "colleague_of", "friend_of",
	"neighbor_of", "connected_to", "associated_with", "partnered_with",
}

var idForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

// guidelineProblems lists the rules of the annotation guideline that the item breaks.
func guidelineProblems(it item) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	checkForm(it, report)
	checkSchemas(it, report)
	checkEntities(it, report)
	checkRelationships(it, report)
	return found
}

func checkForm(it item, report func(string, ...any)) {
	if !idForm.MatchString(it.ID) {
		report("id %q is not lower-case words with hyphens", it.ID)
	}
	if strings.TrimSpace(it.Input.Text) == "" || strings.TrimSpace(it.Input.Text) != it.Input.Text {
		report("the text is empty or has white space around it")
	}
	if !utf8.ValidString(it.Input.Text) || strings.ContainsFunc(it.Input.Text, unwanted) {
		report("the text has control characters or bytes that are not UTF-8")
	}
	if it.Metadata.Category == "" || it.Metadata.Language == "" {
		report("category or language is missing")
	}
	if !slices.Contains([]string{"easy", "medium", "hard"}, it.Metadata.Difficulty) {
		report("difficulty %q is not one of easy, medium, hard", it.Metadata.Difficulty)
	}
}

// unwanted reports whether servers strip a rune or it is a sign of broken text.
func unwanted(r rune) bool {
	return r == utf8.RuneError || r == '\uFEFF' || (unicode.IsControl(r) && r != '\n')
}

func checkSchemas(it item, report func(string, ...any)) {
	if len(it.Input.Objects) == 0 {
		report("there are no object schemas")
	}
	for key, s := range it.Input.Objects {
		if s.Name != key || s.Description == "" {
			report("object schema %q: the name differs or the description is empty", key)
		}
	}
	types := slices.Sorted(maps.Keys(it.Input.Objects))
	if !slices.Equal(types, slices.Sorted(slices.Values(it.Input.AllowedTypes))) {
		report("allowed_types %q are not the object schemas %q", it.Input.AllowedTypes, types)
	}
	for key, s := range it.Input.Relationships {
		if s.Name != key || s.Description == "" || len(s.Sources) == 0 || len(s.Targets) == 0 {
			report("relationship schema %q: the name differs or something is empty", key)
		}
		for _, t := range slices.Concat(s.Sources, s.Targets) {
			if !slices.Contains(types, t) {
				report("relationship schema %q: unknown type %q", key, t)
			}
		}
	}
}

func checkEntities(it item, report func(string, ...any)) {
	owner := map[string]string{}
	for _, e := range it.Expected.Entities {
		if _, known := it.Input.Objects[e.Type]; !known {
			report("entity %q: type %q is not in the schema", e.Name, e.Type)
		}
		for _, name := range append([]string{e.Name}, e.Aliases...) {
			if !occurs(it.Input.Text, name, it.Metadata.Language) {
				report("name %q does not stand in the text", name)
			}
			key := strings.ToLower(name)
			if other, taken := owner[key]; taken {
				report("name %q belongs to %q and to %q", name, other, e.Name)
			}
			owner[key] = e.Name
		}
	}
}

// occurs reports whether the text has the name as whole words. Chinese has no spaces and Arabic
// joins particles to names, so in these languages the name may be anywhere.
func occurs(text, name, language string) bool {
	if name == "" || strings.TrimSpace(name) != name {
		return false
	}
	if language == "zh" || language == "ar" {
		return strings.Contains(text, name)
	}
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:from+at])
		after, _ := utf8.DecodeRuneInString(text[from+at+len(name):])
		if !wordRune(before) && !wordRune(after) {
			return true
		}
		from += at + len(name)
	}
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func checkRelationships(it item, report func(string, ...any)) {
	types := map[string]string{}
	for _, e := range it.Expected.Entities {
		types[e.Name] = e.Type
	}
	stated := map[relationship]bool{}
	for _, r := range it.Expected.Relationships {
		s, known := it.Input.Relationships[r.Type]
		if !known {
			report("relationship type %q is not in the schema", r.Type)
		}
		if types[r.Source] == "" || types[r.Target] == "" || r.Source == r.Target {
			report("%v: the ends must be the names of two entities", r)
		}
		if known && (!slices.Contains(s.Sources, types[r.Source]) || !slices.Contains(s.Targets, types[r.Target])) {
			report("%v: %s to %s is not what the schema allows", r, types[r.Source], types[r.Target])
		}
		if fact := canonicalFact(r); stated[fact] {
			report("%v is stated twice", r)
		} else {
			stated[fact] = true
		}
	}
}

// canonicalFact returns equal values for statements of the same fact: it replaces the second of
// two inverse types by the first, and sorts symmetric ends.
func canonicalFact(r relationship) relationship {
	for _, pair := range inverseTypes {
		if r.Type == pair[1] {
			return relationship{Source: r.Target, Target: r.Source, Type: pair[0]}
		}
	}
	if slices.Contains(symmetricTypes, r.Type) && r.Target < r.Source {
		r.Source, r.Target = r.Target, r.Source
	}
	return r
}
