package extraction

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// ErrNoText is returned for a document that has no text to extract from.
var ErrNoText = errors.New("the item has no document text: put it into input.document_text")

// Document is what an extractor is given: a text and what to look for in it.
type Document struct {
	// Text is the whole document, valid UTF-8.
	Text string
	// Type says what kind of document it is ("contract"); may be empty.
	Type string
	// Objects are the kinds of entity to extract, by type name.
	Objects map[string]ObjectSchema
	// Relationships are the kinds of relationship to extract, by type name.
	Relationships map[string]RelationshipSchema
	// AllowedTypes narrows the entity types; empty allows every type of Objects.
	AllowedTypes []string
	// AvailableTags are labels that a pipeline may attach; extraction ignores them.
	AvailableTags []string

	// Input and Metadata are the item's own JSON, for prompts that need more of
	// it than the fields above; they may be empty.
	Input, Metadata json.RawMessage
}

// ObjectSchema describes one entity type.
type ObjectSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
}

// RelationshipSchema describes one relationship type and which entity types
// may stand at its ends; an empty list of types allows any.
type RelationshipSchema struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	SourceTypes []string `json:"source_types,omitempty"`
	TargetTypes []string `json:"target_types,omitempty"`
}

// DecodeDocument reads the input of a dataset item. "text" is accepted for
// "document_text". Unknown keys and odd but usable values are named in the
// warnings. The error is ErrNoText for a document without text, or joins every
// value of the wrong kind with its path.
func DecodeDocument(raw []byte) (Document, []string, error) {
	r := &reader{}
	in := r.object("input", raw)
	doc := Document{
		Text:          in.text("document_text", "text"),
		Type:          in.text("document_type"),
		AllowedTypes:  in.texts("allowed_types"),
		AvailableTags: in.texts("available_tags"),
		Input:         raw,
	}
	doc.Objects = decodeObjects(in)
	doc.Relationships = decodeRelationshipSchemas(in)
	in.warnUnknown()
	if err := r.err(); err != nil {
		return Document{}, r.warnings, err
	}
	if strings.TrimSpace(doc.Text) == "" {
		return Document{}, r.warnings, ErrNoText
	}
	return doc, r.warnings, nil
}

func decodeObjects(in fields) map[string]ObjectSchema {
	schemas := map[string]ObjectSchema{}
	entries := in.entries("object_schemas")
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		f := in.r.object(in.path+".object_schemas."+name, entries[name])
		s := ObjectSchema{Name: f.text("name"), Description: f.text("description"), Properties: f.raw("properties")}
		if s.Name == "" {
			s.Name = name
		}
		schemas[name] = s
	}
	return schemas
}

func decodeRelationshipSchemas(in fields) map[string]RelationshipSchema {
	schemas := map[string]RelationshipSchema{}
	entries := in.entries("relationship_schemas")
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		f := in.r.object(in.path+".relationship_schemas."+name, entries[name])
		s := RelationshipSchema{
			Name:        f.text("name"),
			Description: f.text("description"),
			SourceTypes: f.texts("source_types"),
			TargetTypes: f.texts("target_types"),
		}
		if s.Name == "" {
			s.Name = name
		}
		schemas[name] = s
	}
	return schemas
}
