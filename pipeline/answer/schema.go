package answer

import (
	"bytes"
	"encoding/json"

	"extraction-experiment/extraction"
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

// Options say what the schema asks for; the zero value asks for names, types and
// relationships.
type Options struct {
	// Quotes asks for the places of the document that name each entity:
	// "mentions": [{"quote": "…"}].
	Quotes bool
	Part   Part
}

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
func Schema(doc extraction.Document, opts Options) json.RawMessage {
	kinds, statements := entityTypes(doc).names, relationshipTypes(doc).names
	if len(kinds)+len(statements) > maxEnums {
		kinds, statements = nil, nil
	}
	entity := object{
		{"name", text("the name as the document writes it")},
		{"type", oneOf(kinds, "the type of the entity")},
	}
	if opts.Quotes {
		quote := object{{"quote", text("words of the document, letter for letter")}}
		entity = append(entity, property{"mentions", listOf(closed(quote), "where the document names the entity")})
	}
	relationship := object{
		{"source_name", text("the name of one of the entities")},
		{"target_name", text("the name of one of the entities")},
		{"relationship_type", oneOf(statements, "the type, read from source to target")},
	}
	var top object
	if opts.Part != RelationshipsOnly {
		top = append(top, property{"entities", listOf(closed(entity), "every entity that the document names")})
	}
	if opts.Part != EntitiesOnly {
		top = append(top, property{"relationships", listOf(closed(relationship), "every relationship that the document states")})
	}
	return write(closed(top))
}

// Instruction asks in words for what Schema demands, for a model or a server
// that takes no JSON Schema.
func Instruction(doc extraction.Document, opts Options) string {
	return "Answer with one JSON object and nothing else: no explanation, no Markdown, no comments. It must satisfy this JSON Schema:\n" + string(Schema(doc, opts))
}

// object is a JSON object whose keys keep their order.
type object []property

type property struct {
	name  string
	value any
}

// MarshalJSON writes the object in the order of its properties.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(write(p.name))
		b.WriteByte(':')
		b.Write(write(p.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// write writes texts, booleans, lists and objects, which always can be written.
func write(value any) json.RawMessage {
	if o, ok := value.(object); ok {
		raw, _ := o.MarshalJSON()
		return raw
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func text(description string) object {
	return object{{"type", "string"}, {"description", description}}
}

func oneOf(values []string, description string) object {
	o := text(description)
	length := 0
	for _, v := range values {
		length += len(v)
	}
	if len(values) == 0 || len(values) > maxLong && length > maxLongText {
		return o
	}
	return append(o, property{"enum", values})
}

func listOf(items object, description string) object {
	return object{{"type", "array"}, {"description", description}, {"items", items}}
}

func closed(properties object) object {
	var required []string
	for _, p := range properties {
		required = append(required, p.name)
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}
