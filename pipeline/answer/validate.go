package answer

import (
	"cmp"
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
	v := &validator{types: typesOf(doc), named: make(map[string][]string, len(e.Entities))}
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
	types
	named    map[string][]string // types of the entities, by folded name
	problems []string
	more     int
}

// problem remembers a problem, of which those beyond the first are only counted.
func (v *validator) problem(format string, args ...any) {
	if len(v.problems) == maxProblems {
		v.more++
		return
	}
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *validator) entity(i int, e extraction.Entity) {
	if strings.TrimSpace(e.Name) == "" {
		v.problem("entities[%d]: the name is empty", i)
	}
	kind := v.entities.spell(e.Type)
	if kind == "" {
		kind = shown(e.Type)
		if len(v.entities.names) > 0 {
			v.problem("entities[%d] %q: the type %q is none of the allowed types: %s",
				i, shown(e.Name), kind, listed{v.entities, e.Type})
		}
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
	kind := v.relationships.spell(r.Type)
	if kind == "" && len(v.relationships.names) > 0 {
		v.problem("%s: the relationship_type is none of the relationship schemas: %s",
			statement(i, r), listed{v.relationships, r.Type})
	}
	if wrong := v.end(r.Source, r.SourceRef, v.sources[kind]); wrong != "" {
		v.problem("%s: the source %s", statement(i, r), wrong)
	}
	if wrong := v.end(r.Target, r.TargetRef, v.targets[kind]); wrong != "" {
		v.problem("%s: the target %s", statement(i, r), wrong)
	}
}

func statement(i int, r extraction.Relationship) string {
	return fmt.Sprintf("relationships[%d] %q %s %q", i, shown(r.Source), shown(r.Type), shown(r.Target))
}

// end says what is wrong with an end of a relationship; "" if nothing is.
func (v *validator) end(name, ref string, may allowed) string {
	kinds, there := v.named[textutil.FoldName(name)]
	fits := func(kind string) bool { return kind == "" || may.folded[v.entities.fold(kind)] }
	switch {
	case ref != "":
		return fmt.Sprintf("refers to %q, which is the id of no entity", shown(ref))
	case strings.TrimSpace(name) == "":
		return "is empty"
	case !there:
		return "is the name of no entity: add the entity, or leave the relationship out"
	case len(may.types) == 0, slices.ContainsFunc(kinds, fits):
		return ""
	}
	return fmt.Sprintf("is of the type %s, the schema allows %s",
		shown(strings.Join(kinds, ", ")), shown(strings.Join(may.types, ", ")))
}

// Normalise returns the extraction with its types spelled as the document's
// schemas spell them, where they differ in case, spaces, hyphens and underscores
// only ("works for", "WorksFor": "works_for"), or are the name inside a schema
// that has another key. A type that no schema has, or that two could be, stays,
// and so does everything else. The extraction given is not changed. Normalising
// again changes nothing. Time is linear.
func Normalise(e extraction.Extraction, doc extraction.Document) extraction.Extraction {
	types := typesOf(doc)
	e.Entities, e.Relationships = slices.Clone(e.Entities), slices.Clone(e.Relationships)
	for i, entity := range e.Entities {
		e.Entities[i].Type = cmp.Or(types.entities.spell(entity.Type), entity.Type)
	}
	for i, relationship := range e.Relationships {
		e.Relationships[i].Type = cmp.Or(types.relationships.spell(relationship.Type), relationship.Type)
	}
	return e
}

// types are what the schemas of a document allow, and are not changed once they are made.
type types struct {
	entities, relationships vocabulary
	sources, targets        map[string]allowed // by relationship type
}

// allowed are the entity types that may be at an end; none of them allow every one.
type allowed struct {
	types  []string
	folded map[string]bool
}

// typesKey is the key of extraction.Derive.
type typesKey struct{}

func typesOf(doc extraction.Document) types { return extraction.Derive(doc, typesKey{}, makeTypes) }

// makeTypes takes the allowed types of entities; without them, those of the schemas.
func makeTypes(doc extraction.Document) types {
	names := doc.AllowedTypes
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(doc.Objects))
	}
	t := types{sources: map[string]allowed{}, targets: map[string]allowed{}}
	t.entities = newVocabulary(names, func(key string) string { return doc.Objects[key].Name })
	names = slices.Sorted(maps.Keys(doc.Relationships))
	t.relationships = newVocabulary(names, func(key string) string { return doc.Relationships[key].Name })
	for key, schema := range doc.Relationships {
		t.sources[key], t.targets[key] = t.entities.allow(schema.SourceTypes), t.entities.allow(schema.TargetTypes)
	}
	return t
}

// vocabulary is the types that a document allows, of entities or of
// relationships. An empty one allows every type.
type vocabulary struct {
	names  []string
	exact  map[string]bool
	folded map[string]string // the type of a folded name; "" where there are several
	inside map[string]string // the same of the names inside schemas
}

// newVocabulary lets the name inside the schema of a type stand for it, unless that
// is how a type is spelled, or the name in another schema.
func newVocabulary(names []string, inside func(name string) string) vocabulary {
	v := vocabulary{exact: map[string]bool{}, folded: map[string]string{}, inside: map[string]string{}}
	for _, name := range names {
		if !v.exact[name] {
			v.names, v.exact[name] = append(v.names, name), true
			claim(v.folded, name, name)
			claim(v.inside, inside(name), name)
		}
	}
	return v
}

// claim lets a name stand for a type if it folds to something, and as that of no other.
func claim(folded map[string]string, name, kind string) {
	key := foldType(name)
	if other, taken := folded[key]; key == "" || taken && other != kind {
		kind = ""
	}
	folded[key] = kind
}

// spell returns the type as the schemas spell it; "" for a type that they do not
// have, or that several of them could be.
func (v vocabulary) spell(name string) string {
	if v.exact[name] {
		return name
	}
	folded := foldType(name)
	if spelled, taken := v.folded[folded]; taken {
		return spelled
	}
	return v.inside[folded]
}

// fold makes types equal that spell the same or fold to the same.
func (v vocabulary) fold(kind string) string { return foldType(cmp.Or(v.spell(kind), kind)) }

func (v vocabulary) allow(types []string) allowed {
	folded := map[string]bool{}
	for _, kind := range types {
		folded[v.fold(kind)] = true
	}
	return allowed{types, folded}
}

// listed names the types for a message, and the one that was perhaps meant. It
// costs nothing until the message is written.
type listed struct {
	vocabulary
	wrong string
}

// String returns the first types.
func (l listed) String() string { return textutil.Listed(l.wrong, l.names) }

// foldType makes types equal that differ in case, spaces, hyphens and
// underscores only, so that "worksFor" is "works_for".
func foldType(name string) string { return strings.ReplaceAll(textutil.FoldType(name), "_", "") }
