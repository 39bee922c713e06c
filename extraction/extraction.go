// Package extraction holds the types of knowledge extraction: a Document with its schemas
// goes into an extractor, and an Extraction with entities and relationships comes out. It
// knows their JSON forms, and nothing about models, scores or Langfuse.
//
// Reading is tolerant where writers differ (synonyms of keys, references by
// identifier) and strict where a wrong guess would change a score: a list that
// is absent is kept apart from a list that is empty, and a value of the wrong
// kind is an error that names its path.
//
// It also finds what an extractor quotes in the document that it was given, and says
// which names do not occur there. NewIndex reads a text once; Index.Locate finds a quote
// exactly, else tolerantly: white space, case, Unicode compatibility forms, kinds of
// quotation marks and dashes, invisible characters and hyphenation at line ends do not
// matter; Index.Ground does so for all mentions of an extraction, and looks for the names
// of what has none. All offsets count code points of the original text, and every Span
// quotes exactly what is there; Offsets converts to bytes and UTF-16.
//
//	doc, warnings, err := extraction.DecodeDocument(item.Input)
//	want, warnings, err := extraction.DecodeExtraction(item.Expected)
//	span, found := doc.Index().Locate("acme corp", 0)
package extraction

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// MaxLabel is the most bytes that a name, type, identifier or alias has. A longer one
// is refused before it is compared with anything.
const MaxLabel = 4 << 10

// Extraction is what was found in a document, or what should be found.
//
// A nil list and an empty one differ: in expected output nil means "not
// annotated" (nothing is scored), empty means "annotated, there is none".
type Extraction struct {
	Entities      []Entity
	Relationships []Relationship
}

// Entity is a named thing of a type.
type Entity struct {
	// ID joins relationships to entities inside one extraction; it never
	// leaves it and is not compared with the identifiers of another.
	ID          string          `json:"id,omitempty"`
	Name        string          `json:"name"`
	Type        string          `json:"type,omitempty"`
	Description string          `json:"description,omitempty"`
	Aliases     []string        `json:"aliases,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
	// Mentions are the places of the document that name the entity.
	Mentions []Span `json:"mentions,omitempty"`
}

// Span is a quoted stretch of the document; Start and End count code points,
// End is exclusive.
type Span struct {
	Quote string `json:"quote"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	// LookedUp says that this program searched the document for it: who named the
	// entity did not say where.
	LookedUp bool `json:"looked_up,omitempty"`
}

// Relationship is a typed, directed statement between two named things.
type Relationship struct {
	// Source and Target are names. An end that was given only as a reference
	// to no entity is empty: such a relationship is dangling.
	Source      string `json:"source_name"`
	Target      string `json:"target_name"`
	Type        string `json:"relationship_type"`
	Description string `json:"description,omitempty"`
	// SourceRef and TargetRef keep a reference that did not resolve.
	SourceRef string `json:"source_ref,omitempty"`
	TargetRef string `json:"target_ref,omitempty"`
}

// Dangling reports whether an end refers to an entity that is not there.
func (r Relationship) Dangling() bool { return r.SourceRef != "" || r.TargetRef != "" }

// MarshalJSON writes the native form: entities with name and type,
// relationships with source_name, target_name and relationship_type. A nil
// list is left out, an empty one is written as [].
func (e Extraction) MarshalJSON() ([]byte, error) {
	size := 64
	for _, one := range e.Entities {
		size += 128
		for _, m := range one.Mentions {
			size += 60 + len(m.Quote)
		}
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, size+128*len(e.Relationships)), '{')}
	if e.Entities != nil {
		textutil.WriteJSONList(&w, "entities", e.Entities, Entity.write)
	}
	if e.Relationships != nil {
		textutil.WriteJSONList(&w, "relationships", e.Relationships, Relationship.write)
	}
	w.Close()
	return w.B, w.Err
}

func (e Entity) write(w *textutil.JSONWriter) {
	w.TextIf("id", e.ID)
	w.Text("name", e.Name)
	w.TextIf("type", e.Type)
	w.TextIf("description", e.Description)
	textutil.WriteJSONIf(w, "aliases", e.Aliases, len(e.Aliases) > 0)
	textutil.WriteJSONIf(w, "properties", e.Properties, len(e.Properties) > 0)
	if len(e.Mentions) > 0 {
		textutil.WriteJSONList(w, "mentions", e.Mentions, Span.write)
	}
}

func (s Span) write(w *textutil.JSONWriter) {
	w.Text("quote", s.Quote)
	w.Int("start", int64(s.Start))
	w.Int("end", int64(s.End))
	w.Flag("looked_up", s.LookedUp)
}

func (r Relationship) write(w *textutil.JSONWriter) {
	w.Text("source_name", r.Source)
	w.Text("target_name", r.Target)
	w.Text("relationship_type", r.Type)
	w.TextIf("description", r.Description)
	w.TextIf("source_ref", r.SourceRef)
	w.TextIf("target_ref", r.TargetRef)
}

// ReadsBack reports whether DecodeExtraction of what MarshalJSON writes is this
// extraction again, without a warning: no identifiers and references, which would be
// resolved, and only labels that it takes.
func ReadsBack(e Extraction) bool {
	plain := func(texts ...string) bool {
		return !slices.ContainsFunc(texts, func(s string) bool { return len(s) > MaxLabel || !utf8.ValidString(s) })
	}
	for _, one := range e.Entities {
		if one.ID != "" || one.Properties != nil || !plain(one.Name, one.Type) || !plain(one.Aliases...) || !utf8.ValidString(one.Description) {
			return false
		}
		for _, m := range one.Mentions {
			if !utf8.ValidString(m.Quote) {
				return false
			}
		}
	}
	for _, r := range e.Relationships {
		if r.SourceRef != "" || r.TargetRef != "" || !plain(r.Source, r.Target, r.Type) || !utf8.ValidString(r.Description) {
			return false
		}
	}
	return true
}

// WithoutLookedUp returns the JSON of an extraction, as MarshalJSON writes it, without the
// mentions that were looked up; any other JSON, and one without such, is returned as it is.
func WithoutLookedUp(raw json.RawMessage) json.RawMessage {
	if !bytes.HasPrefix(raw, []byte(`{"entities":[`)) {
		return raw
	}
	begin, end, list := []byte(`{"quote":`), []byte(`,"looked_up":true}`), []byte(`,"mentions":[`)
	b, rest := []byte(nil), raw
	for {
		before, after, found := bytes.Cut(rest, end) // in a text its quotation marks were escaped
		start := bytes.LastIndexByte(before, '{')
		for start >= 0 && !bytes.HasPrefix(before[start:], begin) { // a brace of the quote
			start = bytes.LastIndexByte(before[:start], '{')
		}
		if !found || start < 0 {
			break
		}
		if b == nil {
			b = make([]byte, 0, len(raw)/4)
		}
		b, rest = append(b, before[:start]...), after
		if !bytes.HasSuffix(b, []byte{','}) {
			rest = bytes.TrimPrefix(rest, []byte{','})
		}
		b = bytes.TrimSuffix(b, []byte{','})
		if bytes.HasPrefix(rest, []byte{']'}) && bytes.HasSuffix(b, list) {
			b, rest = bytes.TrimSuffix(b, list), rest[1:]
		}
	}
	if b == nil {
		return raw
	}
	return append(b, rest...)
}

// DecodeExtraction reads entities and relationships, as a dataset item or an
// extractor writes them.
//
// Accepted for the ends of a relationship: source_name, source or source_ref
// (target likewise); a value that equals the id (or temp_id) of an entity of
// this extraction becomes that entity's name. Accepted for its type:
// relationship_type or type. Unknown keys are named in the warnings. The error
// joins every value of the wrong kind, and every label of more than MaxLabel bytes,
// with its path.
func DecodeExtraction(raw []byte) (Extraction, []string, error) {
	r := &reader{}
	top := r.object("", raw)
	var e Extraction
	e.Entities = decodeEntities(r, top)
	e.Relationships = decodeRelationships(r, top, e.Entities)
	top.done()
	if err := r.err(); err != nil {
		return Extraction{}, r.warnings, err
	}
	return e, r.warnings, nil
}

func decodeEntities(r *reader, top fields) []Entity {
	list := top.list("entities")
	if list == nil {
		return nil
	}
	entities := make([]Entity, 0, len(list))
	for i, raw := range list {
		f := r.element("entities", i, raw)
		entities = append(entities, Entity{
			ID:          f.label("id", "temp_id"),
			Name:        f.label("name"),
			Type:        f.label("type"),
			Description: f.text("description"),
			Aliases:     f.texts("aliases"),
			Properties:  f.raw("properties"),
			Mentions:    decodeMentions(r, f),
		})
		f.done()
	}
	return entities
}

func decodeMentions(r *reader, entity fields) []Span {
	list := entity.list("mentions")
	spans := slices.Grow([]Span(nil), len(list))
	for i, raw := range list {
		f := r.element(entity.join("mentions"), i, raw)
		spans = append(spans, Span{Quote: f.text("quote"), Start: f.integer("start"), End: f.integer("end"), LookedUp: string(f.raw("looked_up")) == "true"})
		f.done()
	}
	return spans
}

func namesByID(r *reader, entities []Entity) map[string]string {
	names := map[string]string{}
	for _, e := range entities {
		if _, taken := names[e.ID]; taken {
			r.warn("entities: the id %q is used twice; the first entity keeps it", e.ID)
		} else if e.ID != "" {
			names[e.ID] = e.Name
		}
	}
	return names
}

func decodeRelationships(r *reader, top fields, entities []Entity) []Relationship {
	list := top.list("relationships")
	if list == nil {
		return nil
	}
	names := namesByID(r, entities)
	relationships := make([]Relationship, 0, len(list))
	for i, raw := range list {
		f := r.element("relationships", i, raw)
		relationships = append(relationships, Relationship{
			Type:        f.label("relationship_type", "type"),
			Description: f.text("description"),
			Source:      f.label("source_name", "source"),
			SourceRef:   f.label("source_ref"),
			Target:      f.label("target_name", "target"),
			TargetRef:   f.label("target_ref"),
		})
		f.done()
	}
	var listed map[string]bool // what no relationship refers to is not looked up
	if slices.ContainsFunc(relationships, Relationship.Dangling) {
		listed = map[string]bool{}
		for _, e := range entities {
			listed[e.Name] = true
		}
	}
	for i := range relationships {
		rel := &relationships[i]
		rel.Source, rel.SourceRef = resolveEnd(rel.Source, rel.SourceRef, names, listed)
		rel.Target, rel.TargetRef = resolveEnd(rel.Target, rel.TargetRef, names, listed)
	}
	return relationships
}

// resolveEnd returns the name that an end stands for, or the reference that
// stands for nothing. A reference that spells an entity's name is that name:
// models mix the two up.
func resolveEnd(name, ref string, byID map[string]string, listed map[string]bool) (string, string) {
	resolved, known := byID[cmp.Or(name, ref)]
	switch {
	case known:
		return resolved, ""
	case name != "":
		return name, ""
	case listed[ref]:
		return ref, ""
	}
	return "", ref
}
