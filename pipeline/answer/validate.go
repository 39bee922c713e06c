package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// maxProblems bounds how many problems one answer is told.
const maxProblems = 20

// maxKinds bounds how many types of one name are kept apart.
const maxKinds = 64

// Validate names what breaks the document's schemas, in the order of the
// extraction: empty names, types that are not allowed, relationship types that
// no schema has, ends that are the name or alias of no entity, and entity types
// that a relationship's schema does not allow at that end (where several
// entities share a name, one of them is enough). Types and names are compared
// without regard to case and spacing, as Normalise does. Without schemas of a
// kind every type of it will do, an empty one too. At most 20 problems and a
// line with the number of the rest; nil where there is none. Time is linear.
func Validate(e extraction.Extraction, doc extraction.Document) []string {
	v := &validator{
		doc:           doc,
		entities:      entityTypes(doc),
		relationships: relationshipTypes(doc),
		fits:          map[fit]bool{},
		named:         make(map[string][]string, len(e.Entities)),
	}
	for i, entity := range e.Entities {
		v.entity(i, entity)
	}
	for i, relationship := range e.Relationships {
		v.relationship(i, relationship)
	}
	if v.more > 0 {
		v.problems = append(v.problems, fmt.Sprintf("and %d more problems", v.more))
	}
	return v.problems
}

type validator struct {
	doc                     extraction.Document
	entities, relationships vocabulary
	named                   map[string][]string // types of the entities, by folded name
	fits                    map[fit]bool        // what among found
	problems                []string
	more                    int
}

// problem remembers a problem; what costs to say is said only of those that are
// shown.
func (v *validator) problem(say func() string) {
	if len(v.problems) == maxProblems {
		v.more++
		return
	}
	v.problems = append(v.problems, say())
}

func (v *validator) entity(i int, e extraction.Entity) {
	if strings.TrimSpace(e.Name) == "" {
		v.problem(func() string { return fmt.Sprintf("entities[%d]: the name is empty", i) })
	}
	kind, known := v.entities.spell(e.Type)
	if !known && len(v.entities.names) > 0 {
		v.problem(func() string {
			return fmt.Sprintf("entities[%d] %q: the type %q is none of the allowed types: %s", i, shown(e.Name), shown(e.Type), v.entities.list(e.Type))
		})
	}
	if !known {
		kind = e.Type
	}
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		folded := textutil.FoldName(name)
		switch kinds, there := v.named[folded]; {
		case len(kinds) == maxKinds:
			kinds[0] = "" // any type will do
		case !there || !slices.Contains(kinds, kind):
			v.named[folded] = append(kinds, kind)
		}
	}
}

func (v *validator) relationship(i int, r extraction.Relationship) {
	kind, known := v.relationships.spell(r.Type)
	if !known && len(v.relationships.names) > 0 {
		v.problem(func() string {
			return fmt.Sprintf("%s: the relationship_type is none of the relationship schemas: %s", statement(i, r), v.relationships.list(r.Type))
		})
	}
	schema := v.doc.Relationships[kind]
	for _, end := range []struct {
		word, name, ref string
		allowed         []string
	}{
		{"source", r.Source, r.SourceRef, schema.SourceTypes},
		{"target", r.Target, r.TargetRef, schema.TargetTypes},
	} {
		at := fit{relationship: kind, end: end.word}
		if problem := v.end(end.name, end.ref, at, end.allowed); problem != "" {
			v.problem(func() string { return fmt.Sprintf("%s: the %s %s", statement(i, r), end.word, problem) })
		}
	}
}

// end says what is wrong with an end of a relationship; "" if nothing is.
func (v *validator) end(name, ref string, at fit, allowed []string) string {
	switch {
	case ref != "":
		return fmt.Sprintf("refers to %q, which is the id of no entity", shown(ref))
	case strings.TrimSpace(name) == "":
		return "is empty"
	}
	kinds, there := v.named[textutil.FoldName(name)]
	switch {
	case !there:
		return "is the name of no entity: add the entity, or leave the relationship out"
	case len(allowed) == 0, slices.ContainsFunc(kinds, func(kind string) bool { return kind == "" || v.among(kind, at, allowed) }):
		return ""
	}
	return fmt.Sprintf("is of the type %s, the schema allows %s", shown(strings.Join(kinds, ", ")), shown(strings.Join(allowed, ", ")))
}

// fit asks whether an entity type may stand at an end of a relationship type.
type fit struct{ relationship, end, kind string }

// among reports whether a schema allows a type at an end.
func (v *validator) among(kind string, at fit, allowed []string) bool {
	at.kind = kind
	fits, asked := v.fits[at]
	if asked {
		return fits
	}
	folded := foldType(kind)
	fits = slices.ContainsFunc(allowed, func(name string) bool {
		spelled, known := v.entities.spell(name)
		return known && spelled == kind || foldType(name) == folded
	})
	v.fits[at] = fits
	return fits
}

func statement(i int, r extraction.Relationship) string {
	return fmt.Sprintf("relationships[%d] %q %s %q", i, shown(r.Source), shown(r.Type), shown(r.Target))
}

// Normalise returns the extraction with its types spelled as the document's
// schemas spell them, where they differ in case, spaces, hyphens and underscores
// only ("works for", "WorksFor": "works_for"), or are the name inside a schema
// that has another key. A type that no schema has, or that two could be, stays,
// and so does everything else. The extraction given is not changed. Normalising
// again changes nothing. Time is linear.
func Normalise(e extraction.Extraction, doc extraction.Document) extraction.Extraction {
	entities, relationships := entityTypes(doc), relationshipTypes(doc)
	e.Entities, e.Relationships = slices.Clone(e.Entities), slices.Clone(e.Relationships)
	for i := range e.Entities {
		entities.respell(&e.Entities[i].Type)
	}
	for i := range e.Relationships {
		relationships.respell(&e.Relationships[i].Type)
	}
	return e
}

// vocabulary is the types that a document allows, of entities or of
// relationships, and is not changed once it is made. An empty one allows every type.
type vocabulary struct {
	names  []string
	folded map[string]string // "" where several names fold to it
	alias  map[string]bool   // which of the folded are names inside schemas
	exact  map[string]bool
}

// entityTypes are the allowed types; without them, those of the schemas.
func entityTypes(doc extraction.Document) vocabulary {
	return extraction.Derive(doc, entityKey{}, makeEntityTypes)
}

func relationshipTypes(doc extraction.Document) vocabulary {
	return extraction.Derive(doc, relationshipKey{}, makeRelationshipTypes)
}

// Keys of extraction.Derive.
type (
	entityKey       struct{}
	relationshipKey struct{}
)

func makeEntityTypes(doc extraction.Document) vocabulary {
	names := doc.AllowedTypes
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(doc.Objects))
	}
	v := newVocabulary(names)
	for key, schema := range doc.Objects {
		v.addAlias(schema.Name, key)
	}
	return v
}

func makeRelationshipTypes(doc extraction.Document) vocabulary {
	v := newVocabulary(slices.Sorted(maps.Keys(doc.Relationships)))
	for key, schema := range doc.Relationships {
		v.addAlias(schema.Name, key)
	}
	return v
}

func newVocabulary(names []string) vocabulary {
	v := vocabulary{folded: map[string]string{}, alias: map[string]bool{}, exact: map[string]bool{}}
	for _, name := range names {
		if v.exact[name] {
			continue
		}
		v.names, v.exact[name] = append(v.names, name), true
		key := foldType(name)
		if _, taken := v.folded[key]; taken {
			name = ""
		}
		v.folded[key] = name
	}
	return v
}

// addAlias lets the name in a schema stand for its key, unless that is how a
// type is spelled, or the name in another schema.
func (v vocabulary) addAlias(name, key string) {
	folded := foldType(name)
	if folded == "" || !v.exact[key] {
		return
	}
	switch other, taken := v.folded[folded]; {
	case !taken:
		v.folded[folded], v.alias[folded] = key, true
	case v.alias[folded] && other != key:
		v.folded[folded] = ""
	}
}

// spell returns the type as the schemas spell it; false for a type that they do
// not have, or that several of them could be.
func (v vocabulary) spell(name string) (string, bool) {
	if v.exact[name] {
		return name, name != ""
	}
	folded := foldType(name)
	if folded == "" {
		return "", false
	}
	spelled := v.folded[folded]
	return spelled, spelled != ""
}

func (v vocabulary) respell(kind *string) {
	if spelled, known := v.spell(*kind); known {
		*kind = spelled
	}
}

// list names the types for a message, and the one that was perhaps meant.
func (v vocabulary) list(wrong string) string {
	const most = 30
	text := strings.Join(v.names[:min(most, len(v.names))], ", ")
	if len(v.names) > most {
		text += fmt.Sprintf(" and %d more", len(v.names)-most)
	}
	if near := textutil.Nearest(wrong, v.names); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// foldType makes types equal that differ in case, spaces, hyphens and
// underscores only, so that "worksFor" is "works_for".
func foldType(name string) string { return strings.ReplaceAll(textutil.FoldType(name), "_", "") }
