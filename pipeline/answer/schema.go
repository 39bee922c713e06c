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

func makeSchema(doc extraction.Document, part Part) json.RawMessage {
	types := typesOf(doc)
	kinds, statements := types.entities.names, types.relationships.names
	if len(kinds)+len(statements) > maxEnums {
		kinds, statements = nil, nil
	}
	entity := object(
		property{"name", text("the name as the document writes it", nil)},
		property{"type", text("the type of the entity", kinds)},
	)
	relationship := object(
		property{"source_name", text("the name of one of the entities", nil)},
		property{"target_name", text("the name of one of the entities", nil)},
		property{"relationship_type", text("the type, read from source to target", statements)},
	)
	var top []property
	if part != RelationshipsOnly {
		top = append(top, property{"entities", listOf(entity, "every entity that the document names")})
	}
	if part != EntitiesOnly {
		top = append(top, property{"relationships", listOf(relationship, "every relationship that the document states")})
	}
	return json.RawMessage(object(top...))
}

// Instruction asks in words for what Schema demands, for a model or a server
// that takes no JSON Schema.
func Instruction(doc extraction.Document, part Part) string {
	return "Answer with one JSON object and nothing else: no explanation, no Markdown, no comments. It must satisfy this JSON Schema:\n" + string(Schema(doc, part))
}

// property is a property of an object with its schema.
type property struct{ name, schema string }

// object is the schema of an object that has exactly these properties.
func object(properties ...property) string {
	var names, schemas []string
	for _, p := range properties {
		names = append(names, p.name)
		schemas = append(schemas, asJSON(p.name)+":"+p.schema)
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`,
		strings.Join(schemas, ","), asJSON(names))
}

func listOf(items, description string) string {
	return fmt.Sprintf(`{"type":"array","description":%s,"items":%s}`, asJSON(description), items)
}

// text is the schema of a text, one of the values if there are any, and not too
// many.
func text(description string, values []string) string {
	enum := ""
	if n := len(values); n > 0 && (n <= maxLong || len(strings.Join(values, "")) <= maxLongText) {
		enum = `,"enum":` + asJSON(values)
	}
	return fmt.Sprintf(`{"type":"string","description":%s%s}`, asJSON(description), enum)
}

// asJSON writes texts as JSON.
func asJSON(value any) string {
	text, _ := textutil.MarshalJSON(value) // texts can always be written
	return string(text)
}
