package answer

import (
	"encoding/json"
	"fmt"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// SchemaName is the name under which the schema is sent.
const SchemaName = "extraction"

// Part says which lists are asked for.
type Part string

// The parts of an answer.
const (
	Both              Part = ""              // entities and relationships
	EntitiesOnly      Part = "entities"      // the first of two stages
	RelationshipsOnly Part = "relationships" // the second
)

// What an enum may hold where servers are strict: values in all, and characters
// of those of one enum with more than maxLong values.
const (
	maxEnums    = 1000
	maxLong     = 250
	maxLongText = 15_000
)

// Schema returns the JSON Schema that an answer for this document satisfies,
// within the subset that servers enforce strictly: every property is required,
// none is added, no lengths, patterns or references. Types are enums of what the
// document allows; where it allows everything, or so many types that strict
// servers would refuse the enum (1,000 in all; 15,000 characters in one of more
// than 250), they are texts, which Validate checks afterwards. Properties stand
// in the order in which a model should write them. The same document gives the
// same bytes.
func Schema(doc extraction.Document, part Part) json.RawMessage {
	return extraction.Derive(doc, part, func(doc extraction.Document) json.RawMessage { return makeSchema(doc, part) })
}

// The lists of a schema; for %s stands what enum says.
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
	kinds, statements := types.entities.names, types.relationships.names
	if len(kinds)+len(statements) > maxEnums {
		kinds, statements = nil, nil
	}
	entities := fmt.Sprintf(entitiesSchema, enum(kinds))
	relationships := fmt.Sprintf(relationshipsSchema, enum(statements))
	lists, names := entities+","+relationships, `"entities","relationships"`
	switch part {
	case EntitiesOnly:
		lists, names = entities, `"entities"`
	case RelationshipsOnly:
		lists, names = relationships, `"relationships"`
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, lists, names)
}

// enum allows one of the values, if there are any, and not too many.
func enum(values []string) string {
	if n := len(values); n == 0 || n > maxLong && len(strings.Join(values, "")) > maxLongText {
		return ""
	}
	raw, _ := textutil.MarshalJSON(values) // texts can always be written
	return `,"enum":` + string(raw)
}

// Instruction asks in words for what Schema demands, for a model or a server
// that takes no JSON Schema.
func Instruction(doc extraction.Document, part Part) string {
	return "Answer with one JSON object and nothing else: no explanation, no Markdown, no comments. It must satisfy this JSON Schema:\n" + string(Schema(doc, part))
}
