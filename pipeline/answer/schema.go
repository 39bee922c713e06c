package answer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// SchemaName is the name with which the schema is sent.
const SchemaName = "extraction"

// Part tells which lists are requested.
type Part string

// The parts of an answer.
const (
	Both              Part = ""              // entities and relationships
	EntitiesOnly      Part = "entities"      // the first of two stages
	RelationshipsOnly Part = "relationships" // the second of two stages
)

// Limits of strict servers: the values of all enums together, and the characters of an enum
// with more than largeEnum values.
const (
	maxEnumValues    = 1000
	largeEnum        = 250
	maxLargeEnumText = 15_000
)

// Schema returns the JSON Schema for the answer about a document, within the subset that
// servers enforce strictly: every property is required, none may be added, and there are no
// lengths, patterns or references. Types are enums of the allowed types. If the document allows
// every type, or so many that strict servers would refuse the enum (1,000 in all; 15,000
// characters in one of more than 250), types are strings, which Validate checks afterwards.
// Properties are in the order in which a model should write them. The same document gives the
// same bytes.
func Schema(doc extraction.Document, part Part) json.RawMessage {
	return extraction.Derive(doc, part, func(doc extraction.Document) json.RawMessage { return makeSchema(doc, part) })
}

// The lists of a schema; %s is the result of enum.
const (
	entitiesSchema = `"entities":{"type":"array","description":"every entity that the document names",` +
		`"items":{"type":"object","properties":{` +
		`"name":{"type":"string","description":"the name as the document writes it"},` +
		`"type":{"type":"string","description":"the type of the entity"%s}},` +
		`"required":["name","type"],"additionalProperties":false}}`
	relationshipsSchema = `"relationships":{"type":"array","description":"every relationship that the document states",` +
		`"items":{"type":"object","properties":{` +
		`"source_name":{"type":"string","description":"the name of one of the entities"},` +
		`"target_name":{"type":"string","description":"the name of one of the entities"},` +
		`"relationship_type":{"type":"string","description":"the type, read from source to target"%s}},` +
		`"required":["source_name","target_name","relationship_type"],"additionalProperties":false}}`
)

func makeSchema(doc extraction.Document, part Part) json.RawMessage {
	types := typesOf(doc)
	entityTypes, relationshipTypes := types.entities.names, types.relationships.names
	if len(entityTypes)+len(relationshipTypes) > maxEnumValues {
		entityTypes, relationshipTypes = nil, nil
	}
	entities := fmt.Sprintf(entitiesSchema, enum(entityTypes))
	relationships := fmt.Sprintf(relationshipsSchema, enum(relationshipTypes))
	lists, names := entities+","+relationships, `"entities","relationships"`
	switch part {
	case EntitiesOnly:
		lists, names = entities, `"entities"`
	case RelationshipsOnly:
		lists, names = relationships, `"relationships"`
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, lists, names)
}

// enum returns the clause that allows only these values, or "" if there are none or too many.
func enum(values []string) string {
	if n := len(values); n == 0 || n > largeEnum && len(strings.Join(values, "")) > maxLargeEnumText {
		return ""
	}
	raw, _ := textutil.MarshalJSON(values) // strings always marshal
	return `,"enum":` + string(raw)
}

// Instruction describes the requirements of Schema in words, for a model or a server without
// JSON Schema.
func Instruction(doc extraction.Document, part Part) string {
	return "Answer with one JSON object and nothing else: no explanation, no Markdown, no comments. It must satisfy this JSON Schema:\n" + string(Schema(doc, part))
}

// maxProblems is the most problems that Validate describes.
const maxProblems = 20

// maxTypesOfName is the most types that are distinguished for one name.
const maxTypesOfName = 64

// Validate describes what breaks the schemas of the document, in the order of the extraction:
// empty names, types that are not allowed, relationship types without a schema, ends that are
// not the name or alias of an entity, and entity types that the schema of a relationship does
// not allow at that end (if several entities share a name, one of them is enough). Types and
// names are compared without regard to case and spacing, as by Normalise. Without schemas for
// entities or relationships, every type of them is allowed, also an empty one. With
// RelationshipsOnly, problems of entities are left out: the first stage had them. With EntitiesOnly,
// those of relationships are: the second stage states them. The result has at most 20 problems and
// a line with the number of the others, or is nil. Time is linear.
func Validate(e extraction.Extraction, doc extraction.Document, part Part) []string {
	v := &validator{types: typesOf(doc), schemas: doc.Relationships, typesByName: make(map[string][]string, len(e.Entities))}
	for i, entity := range e.Entities {
		v.checkEntity(i, entity)
	}
	if part == RelationshipsOnly {
		v.problems, v.omitted = nil, 0
	}
	if part != EntitiesOnly {
		for i, relationship := range e.Relationships {
			v.checkRelationship(i, relationship)
		}
	}
	if v.omitted > 0 {
		v.problems = append(v.problems, fmt.Sprintf("and %d more problems", v.omitted))
	}
	return v.problems
}

type validator struct {
	types
	schemas     map[string]extraction.RelationshipSchema
	typesByName map[string][]string // types of the entities, by folded name
	problems    []string
	omitted     int
}

// addProblem adds a problem; those after the first 20 are only counted.
func (v *validator) addProblem(format string, args ...any) {
	if len(v.problems) == maxProblems {
		v.omitted++
		return
	}
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *validator) checkEntity(i int, e extraction.Entity) {
	if strings.TrimSpace(e.Name) == "" {
		v.addProblem("entities[%d]: the name is empty", i)
	}
	kind := v.entities.spell(e.Type)
	if kind == "" {
		kind = brief(e.Type)
		if len(v.entities.names) > 0 {
			v.addProblem("entities[%d] %q: the type %q is none of the allowed types: %s",
				i, brief(e.Name), kind, typeList{v.entities, e.Type})
		}
	}
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		folded := textutil.FoldName(name)
		switch kinds, exists := v.typesByName[folded]; {
		case len(kinds) == maxTypesOfName:
			kinds[0] = "" // any type is accepted
		case !exists || !slices.Contains(kinds, kind):
			v.typesByName[folded] = append(kinds, kind)
		}
	}
}

func (v *validator) checkRelationship(i int, r extraction.Relationship) {
	kind := v.relationships.spell(r.Type)
	if kind == "" && len(v.relationships.names) > 0 {
		v.addProblem("%s: the relationship_type is none of the relationship schemas: %s",
			describeRelationship(i, r), typeList{v.relationships, r.Type})
	}
	if fault := v.checkEnd(r.Source, r.SourceRef, v.schemas[kind].SourceTypes, v.sources[kind]); fault != "" {
		v.addProblem("%s: the source %s", describeRelationship(i, r), fault)
	}
	if fault := v.checkEnd(r.Target, r.TargetRef, v.schemas[kind].TargetTypes, v.targets[kind]); fault != "" {
		v.addProblem("%s: the target %s", describeRelationship(i, r), fault)
	}
}

func describeRelationship(i int, r extraction.Relationship) string {
	return fmt.Sprintf("relationships[%d] %q %s %q", i, brief(r.Source), brief(r.Type), brief(r.Target))
}

// checkEnd describes what is wrong with an end of a relationship, or returns "".
func (v *validator) checkEnd(name, ref string, allowed []string, folded map[string]bool) string {
	kinds, exists := v.typesByName[textutil.FoldName(name)]
	fits := func(kind string) bool { return kind == "" || folded[v.entities.fold(kind)] }
	switch {
	case ref != "":
		return fmt.Sprintf("refers to %q, which is the id of no entity", brief(ref))
	case strings.TrimSpace(name) == "":
		return "is empty"
	case !exists:
		return "is the name of no entity: add the entity, or leave the relationship out"
	case len(allowed) == 0, slices.ContainsFunc(kinds, fits):
		return ""
	}
	return fmt.Sprintf("is of the type %s, the schema allows %s",
		brief(strings.Join(kinds, ", ")), brief(strings.Join(allowed, ", ")))
}

// Normalise returns the extraction with the types in the spelling of the document's schemas, if
// they differ only in case, spaces, hyphens and underscores ("works for", "WorksFor":
// "works_for"), or are the name inside a schema with another key. A type of no schema, or of
// several, stays unchanged, and so does everything else. e is not changed. Normalising again
// changes nothing. Time is linear.
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

// types holds the allowed types of a document. It does not change once it is made.
type types struct {
	entities, relationships vocabulary
	// sources and targets hold, by relationship type, the folded entity types that may be at an
	// end; if there are none, every type may.
	sources, targets map[string]map[string]bool
}

// typesKey is the key for extraction.Derive.
type typesKey struct{}

func typesOf(doc extraction.Document) types { return extraction.Derive(doc, typesKey{}, makeTypes) }

// makeTypes uses the allowed types of entities, or else those of the schemas.
func makeTypes(doc extraction.Document) types {
	names := doc.AllowedTypes
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(doc.Objects))
	}
	t := types{sources: map[string]map[string]bool{}, targets: map[string]map[string]bool{}}
	t.entities = newVocabulary(names, func(key string) string { return doc.Objects[key].Name })
	names = slices.Sorted(maps.Keys(doc.Relationships))
	t.relationships = newVocabulary(names, func(key string) string { return doc.Relationships[key].Name })
	for key, schema := range doc.Relationships {
		t.sources[key], t.targets[key] = t.entities.foldAll(schema.SourceTypes), t.entities.foldAll(schema.TargetTypes)
	}
	return t
}

// vocabulary holds the types of entities or relationships that a document allows. An empty one
// allows every type.
type vocabulary struct {
	names       []string
	exact       map[string]bool
	folded      map[string]string // type of a folded name; "" if there are several
	schemaNames map[string]string // the same for the names inside schemas
}

// newVocabulary also accepts the name inside the schema of a type, unless another type or the
// name in another schema is spelled like it.
func newVocabulary(names []string, schemaName func(name string) string) vocabulary {
	v := vocabulary{exact: map[string]bool{}, folded: map[string]string{}, schemaNames: map[string]string{}}
	for _, name := range names {
		if !v.exact[name] {
			v.names, v.exact[name] = append(v.names, name), true
			addName(v.folded, name, name)
			addName(v.schemaNames, schemaName(name), name)
		}
	}
	return v
}

// addName maps the folded name to a type, or to "" if it is empty or already maps to another
// type.
func addName(byName map[string]string, name, kind string) {
	key := foldType(name)
	if other, exists := byName[key]; key == "" || exists && other != kind {
		kind = ""
	}
	byName[key] = kind
}

// spell returns the type in the spelling of the schemas, or "" for a type of no schema or of
// several.
func (v vocabulary) spell(name string) string {
	if v.exact[name] {
		return name
	}
	folded := foldType(name)
	if spelled, exists := v.folded[folded]; exists {
		return spelled
	}
	return v.schemaNames[folded]
}

// fold returns equal texts for types that the schemas spell equally or that fold equally.
func (v vocabulary) fold(kind string) string { return foldType(cmp.Or(v.spell(kind), kind)) }

func (v vocabulary) foldAll(types []string) map[string]bool {
	folded := map[string]bool{}
	for _, kind := range types {
		folded[v.fold(kind)] = true
	}
	return folded
}

// typeList formats the types and the nearest one for a message. It does the work only if the
// message is written.
type typeList struct {
	vocabulary
	wrong string
}

// String returns the first types.
func (l typeList) String() string { return textutil.Listed(l.wrong, l.names) }

// foldType returns equal texts for types that differ only in case, spaces, hyphens and
// underscores: "worksFor" and "works_for".
func foldType(name string) string { return strings.ReplaceAll(textutil.FoldType(name), "_", "") }
