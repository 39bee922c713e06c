package extraction

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// ErrNoText is returned for a document that has no text to extract from.
var ErrNoText = errors.New("the item has no document text: put it into input.document_text")

// Document is the input of an extractor: a text, and what to look for in it.
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

	derived *derived // nil where nothing is shared
	indexed *indexed
}

// derived holds what was made of the schemas of a document.
type derived struct {
	of     Document // without text, input and metadata
	values sync.Map
}

// holdsFor reports whether the schemas of the document are still those.
func (d *derived) holdsFor(doc Document) bool {
	return d != nil && reflect.ValueOf(doc.Objects).Pointer() == reflect.ValueOf(d.of.Objects).Pointer() &&
		reflect.ValueOf(doc.Relationships).Pointer() == reflect.ValueOf(d.of.Relationships).Pointer() &&
		slices.Equal(doc.AllowedTypes, d.of.AllowedTypes) && slices.Equal(doc.AvailableTags, d.of.AvailableTags)
}

// Derive returns what make makes of the schemas, allowed types and tags of a document,
// which is made once for all documents of one Decoder that have the same: make must
// not look at anything else of the document, and nobody may change what it returns, nor
// the maps of the document. The key says what is made; a type of the caller's own cannot collide. Safe for concurrent
// use.
func Derive[T any](doc Document, key any, make func(Document) T) T {
	if !doc.derived.holdsFor(doc) {
		return make(doc)
	}
	once, there := doc.derived.values.Load(key)
	if !there {
		once, _ = doc.derived.values.LoadOrStore(key, sync.OnceValue(func() any { return make(doc) }))
	}
	return once.(func() any)().(T)
}

// ObjectSchema describes one entity type.
type ObjectSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
}

// RelationshipSchema describes one relationship type and which entity types
// may be at its ends; an empty list of types allows any.
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
func DecodeDocument(raw []byte) (Document, []string, error) { return new(Decoder).Document(raw) }

// Bounds of what a Decoder remembers.
const (
	maxSchemaSets  = 16
	maxSchemaBytes = 1 << 20 // of one set
)

// Decoder reads documents, and decodes schemas that many of them share only once. It
// remembers up to 16 sets of at most 1 MiB each, and then starts over. The zero value is
// ready to use, and safe for concurrent use.
type Decoder struct {
	mu   sync.Mutex
	sets map[string]Document // by their JSON: documents without a text
}

// The keys of an input that are the same in many items.
var schemaKeys = []string{"object_schemas", "relationship_schemas", "allowed_types", "available_tags"}

// Document is DecodeDocument. The schemas of what it returns are shared: nobody may
// change them.
func (d *Decoder) Document(raw []byte) (Document, []string, error) {
	switch trimmed := bytes.TrimSpace(raw); {
	case len(trimmed) == 0:
		return Document{}, nil, ErrNoText
	case trimmed[0] == '"':
		return Document{}, nil, fmt.Errorf("%w (the input is a string, not an object)", ErrNoText)
	}
	r := &reader{}
	in := r.object("input", raw)
	text, kind := in.text("document_text", "text"), in.text("document_type")
	doc := d.schemas(in)
	doc.Text, doc.Type, doc.Input, doc.indexed = text, kind, raw, &indexed{text: text}
	in.done()
	if err := r.err(); err != nil {
		return Document{}, r.warnings, err
	}
	if strings.TrimSpace(doc.Text) == "" {
		return Document{}, r.warnings, ErrNoText
	}
	return doc, r.warnings, nil
}

// schemas reads what many documents share, and remembers it where nothing is wrong
// with it.
func (d *Decoder) schemas(in fields) Document {
	var key []byte
	for _, name := range schemaKeys {
		key = append(append(key, in.value(name)...), 0)
	}
	d.mu.Lock()
	doc, there := d.sets[string(key)]
	d.mu.Unlock()
	if there {
		return doc
	}
	doc = Document{
		AllowedTypes: in.texts("allowed_types"), AvailableTags: in.texts("available_tags"),
		Objects:       decodeSchemas(in, "object_schemas", decodeObject),
		Relationships: decodeSchemas(in, "relationship_schemas", decodeRelationshipSchema),
	}
	doc.derived = &derived{of: doc}
	if len(in.r.problems) > 0 || len(key) > maxSchemaBytes {
		return doc
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sets == nil {
		d.sets = map[string]Document{}
	}
	if len(d.sets) == maxSchemaSets {
		clear(d.sets)
	}
	d.sets[string(key)] = doc
	return doc
}

func decodeSchemas[T any](in fields, key string, decode func(f fields, name string) T) map[string]T {
	schemas := map[string]T{}
	raw := in.raw(key)
	if raw == nil {
		return schemas
	}
	for _, entry := range in.r.object(in.join(key), raw).members {
		name := string(entry.key)
		f := in.r.object(in.join(key)+"."+name, entry.value)
		schemas[name] = decode(f, cmp.Or(f.text("name"), name))
	}
	return schemas
}

func decodeObject(f fields, name string) ObjectSchema {
	return ObjectSchema{Name: name, Description: f.text("description"), Properties: f.raw("properties")}
}

func decodeRelationshipSchema(f fields, name string) RelationshipSchema {
	return RelationshipSchema{
		Name: name, Description: f.text("description"),
		SourceTypes: f.texts("source_types"), TargetTypes: f.texts("target_types"),
	}
}
