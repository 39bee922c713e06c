package extraction

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// ErrNoText is returned for a document that has no text to extract from.
var ErrNoText = errors.New("the item has no document text: put it into input.document_text")

// Document is the input of an extractor: a text, and the schemas of what to look for.
type Document struct {
	// Text is the whole document, valid UTF-8.
	Text string
	// Type is the kind of the document ("contract"); it may be empty.
	Type string
	// Objects are the entity types to extract, by name.
	Objects map[string]ObjectSchema
	// Relationships are the relationship types to extract, by name.
	Relationships map[string]RelationshipSchema
	// AllowedTypes limits the entity types; if it is empty, every type of Objects is allowed.
	AllowedTypes []string
	// AvailableTags are labels that a pipeline may attach; extraction ignores them.
	AvailableTags []string

	// Input and Metadata are the JSON of the item, for prompts that need more of it than the
	// fields above; they may be empty.
	Input, Metadata json.RawMessage

	shared *schemaValues // nil if nothing is shared
	index  func() *Index // of the decoded text, built at the first call; nil without a Decoder
}

// schemaValues has the values that were derived from the schemas of a document.
type schemaValues struct {
	schemas Document // without text, input and metadata
	values  sync.Map
}

// matches reports whether the schemas of the document are unchanged.
func (d *schemaValues) matches(doc Document) bool {
	return d != nil && reflect.ValueOf(doc.Objects).Pointer() == reflect.ValueOf(d.schemas.Objects).Pointer() &&
		reflect.ValueOf(doc.Relationships).Pointer() == reflect.ValueOf(d.schemas.Relationships).Pointer() &&
		slices.Equal(doc.AllowedTypes, d.schemas.AllowedTypes) && slices.Equal(doc.AvailableTags, d.schemas.AvailableTags)
}

// Derive returns the result of make, which is computed once for all documents of one Decoder
// that have the same schemas, allowed types and tags. make must not use other parts of the
// document, and callers must change neither the result nor the maps of the document. The key
// identifies the kind of result; use a value of an own type to avoid collisions. Derive is safe
// for concurrent use.
func Derive[T any](doc Document, key any, make func(Document) T) T {
	if !doc.shared.matches(doc) {
		return make(doc)
	}
	value, ok := doc.shared.values.Load(key)
	if !ok {
		value, _ = doc.shared.values.LoadOrStore(key, sync.OnceValue(func() any { return make(doc) }))
	}
	return value.(func() any)().(T)
}

// ObjectSchema describes an entity type.
type ObjectSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
}

// RelationshipSchema describes a relationship type, and which entity types may be at its ends.
// An empty list of types allows any.
type RelationshipSchema struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	SourceTypes []string `json:"source_types,omitempty"`
	TargetTypes []string `json:"target_types,omitempty"`
}

// DecodeDocument decodes the input of a dataset item. It accepts "text" if "document_text" is
// missing or empty. Warnings name unknown and repeated keys, but for those of schemas. The error is
// ErrNoText for a document without text, or joins every value of the wrong kind with its path.
func DecodeDocument(raw []byte) (Document, []string, error) { return new(Decoder).Document(raw) }

// Limits of the memory of a Decoder.
const (
	maxSchemaSets  = 16
	maxSchemaBytes = 1 << 20 // of one set, in bytes of JSON
)

// Decoder decodes documents. It decodes schemas that several documents share only once: it
// keeps up to 16 sets of schemas of at most 1 MiB each, and then starts over. The zero value is
// ready to use, and safe for concurrent use.
type Decoder struct {
	mu   sync.Mutex
	sets map[string]Document // documents without text, by the JSON of their schemas
	key  []byte              // of the last document; kept for its memory
}

// schemaKeys are the keys of an input that have the same value in many items.
var schemaKeys = []string{"object_schemas", "relationship_schemas", "allowed_types", "available_tags"}

// Document is DecodeDocument with shared schemas, which callers must not change.
func (d *Decoder) Document(raw []byte) (Document, []string, error) {
	switch trimmed := bytes.TrimSpace(raw); {
	case len(trimmed) == 0:
		return Document{}, nil, ErrNoText
	case trimmed[0] == '"':
		return Document{}, nil, fmt.Errorf("%w (the input is a string, not an object)", ErrNoText)
	}
	r := &reader{}
	in := r.object("input", raw)
	text, kind, _ := in.text("document_text"), in.text("document_type"), in.value("text") // which is known, whatever it is
	if strings.TrimSpace(text) == "" {
		text = in.text("text")
	}
	doc := d.schemas(in)
	doc.Text, doc.Type, doc.Input = text, kind, raw
	doc.index = sync.OnceValue(func() *Index { return NewIndex(text) })
	in.done()
	if err := r.err(); err != nil {
		return Document{}, r.warnings, err
	}
	if strings.TrimSpace(doc.Text) == "" {
		return Document{}, r.warnings, ErrNoText
	}
	return doc, r.warnings, nil
}

// schemas decodes the values of schemaKeys, and keeps them for further documents if they are
// valid.
func (d *Decoder) schemas(in fields) Document {
	d.mu.Lock()
	d.key = d.key[:0]
	for _, name := range schemaKeys {
		d.key = append(append(d.key, in.value(name)...), 0)
	}
	doc, ok := d.sets[string(d.key)]
	if ok {
		d.mu.Unlock()
		return doc
	}
	key := string(d.key)
	d.mu.Unlock()
	doc = Document{
		AllowedTypes: in.texts("allowed_types"), AvailableTags: in.texts("available_tags"),
		Objects:       decodeSchemas(in, "object_schemas", decodeObject),
		Relationships: decodeSchemas(in, "relationship_schemas", decodeRelationshipSchema),
	}
	doc.shared = &schemaValues{schemas: doc}
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
	d.sets[key] = doc
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

// Unit is the unit of an offset.
type Unit int

// The units of offsets.
const (
	CodePoints Unit = iota
	UTF16           // code units, as in JavaScript and Java
	Bytes           // of UTF-8
)

// stride is the number of code points between two stored positions.
const stride = 64

// Offsets converts offsets of one text between units. An invalid byte counts as one code point
// and one unit of UTF-16. It is safe for concurrent use.
type Offsets struct {
	text      string
	positions []position // positions of code points 0, stride, 2·stride …
	end       position
}

// position is a border between code points, in every unit.
type position [3]int

// NewOffsets reads the text once. It needs memory of about two fifths of the text, and none for
// ASCII.
func NewOffsets(text string) *Offsets {
	o := &Offsets{text: text}
	var pos position
	if textutil.IsASCII(text) {
		o.end = position{len(text), len(text), len(text)}
		return o
	}
	for pos[Bytes] < len(text) {
		if pos[CodePoints]%stride == 0 {
			o.positions = append(o.positions, pos)
		}
		pos = o.after(pos)
	}
	o.end = pos
	return o
}

// Len returns the length of the text.
func (o *Offsets) Len(unit Unit) int { return o.end[unit] }

// Convert converts the offset n from one unit to another. It returns false for an offset
// outside of 0 … Len(from), or inside a code point: between surrogates, or between the bytes of
// a character. Time: O(log of the text's length).
func (o *Offsets) Convert(n int, from, to Unit) (int, bool) {
	if n < 0 || n > o.end[from] {
		return 0, false
	}
	if n == o.end[from] {
		return o.end[to], true
	}
	if o.positions == nil { // ASCII
		return n, true
	}
	next := sort.Search(len(o.positions), func(i int) bool { return o.positions[i][from] > n })
	pos := o.positions[next-1]
	for pos[from] < n {
		pos = o.after(pos)
	}
	return pos[to], pos[from] == n
}

// Slice returns the text between two offsets in code points, or false if they are not a valid
// range.
func (o *Offsets) Slice(start, end int) (string, bool) {
	from, ok := o.Convert(start, CodePoints, Bytes)
	to, ok2 := o.Convert(end, CodePoints, Bytes)
	if !ok || !ok2 || from > to {
		return "", false
	}
	return o.text[from:to], true
}

// after returns the position after the next code point.
func (o *Offsets) after(pos position) position {
	if o.text[pos[Bytes]] < utf8.RuneSelf { // twice as fast
		return position{pos[CodePoints] + 1, pos[UTF16] + 1, pos[Bytes] + 1}
	}
	r, size := utf8.DecodeRuneInString(o.text[pos[Bytes]:])
	pos[CodePoints]++
	pos[Bytes] += size
	pos[UTF16]++
	if r > 0xFFFF {
		pos[UTF16]++
	}
	return pos
}
