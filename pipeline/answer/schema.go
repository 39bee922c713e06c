package answer

import (
	"encoding/json"
	"fmt"
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
