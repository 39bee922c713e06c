// Package extraction has the types of knowledge extraction: an extractor turns a Document with
// its schemas into an Extraction with entities and relationships. The package knows their JSON
// forms, and nothing about models, scores or Langfuse.
//
// Decoding accepts different forms where writers differ (synonyms of keys, references by
// identifier). It is strict where a wrong guess would change a score: an absent list differs
// from an empty one, and a value of the wrong kind is an error with its path.
//
// The package also finds quotes in the document, and names that do not occur there. NewIndex
// reads a text once. Index.Locate finds a quote exactly, or otherwise tolerantly: ignoring
// differences of white space, case, Unicode compatibility forms, kinds of quotation marks and
// dashes, invisible characters and hyphenation at line ends. Index.Ground locates all mentions
// of an extraction, and looks for the names of entities without any. All offsets count code
// points of the original text, and every Span quotes it exactly; Offsets converts to bytes and
// UTF-16.
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

// MaxLabel is the maximum length of a name, type, identifier or alias in bytes. Longer ones are
// refused when they are decoded.
const MaxLabel = 4 << 10

// Extraction is what was found in a document, or what should be found.
//
// A nil list differs from an empty one: in expected output, nil means "not annotated", so that
// nothing is scored, and empty means "annotated, there is none".
type Extraction struct {
	Entities      []Entity       `json:"entities,omitzero"`
	Relationships []Relationship `json:"relationships,omitzero"`
}

// Entity is a named thing with a type.
type Entity struct {
	// ID connects relationships with entities inside one extraction. It is never compared with
	// identifiers of another extraction.
	ID          string          `json:"id,omitempty"`
	Name        string          `json:"name"`
	Type        string          `json:"type,omitempty"`
	Description string          `json:"description,omitempty"`
	Aliases     []string        `json:"aliases,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
	// Mentions are the places in the document that name the entity.
	Mentions []Span `json:"mentions,omitempty"`
}

// Span is a quoted part of the document. Start and End count code points; End is exclusive.
type Span struct {
	Quote string `json:"quote"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	// LookedUp means that this program searched the document for the span, since the extractor
	// gave no place.
	LookedUp bool `json:"looked_up,omitempty"`
}

// Relationship is a typed, directed statement between two named things.
type Relationship struct {
	// Source and Target are names. An end is empty if only a reference was given and no entity
	// has that identifier or name; such a relationship is dangling.
	Source      string `json:"source_name"`
	Target      string `json:"target_name"`
	Type        string `json:"relationship_type"`
	Description string `json:"description,omitempty"`
	// SourceRef and TargetRef are references that could not be resolved.
	SourceRef string `json:"source_ref,omitempty"`
	TargetRef string `json:"target_ref,omitempty"`
}

// Dangling reports whether an end refers to an entity that does not exist.
func (r Relationship) Dangling() bool { return r.SourceRef != "" || r.TargetRef != "" }

// MarshalJSON writes entities with name and type, and relationships with source_name,
// target_name and relationship_type. A nil list is omitted, an empty one is written as [].
func (e Extraction) MarshalJSON() ([]byte, error) {
	type plain Extraction // without this method
	return json.Marshal(plain(e))
}

// ReadsBack reports whether DecodeExtraction decodes the JSON of e to the same extraction
// without warnings. That requires that there are no identifiers and references, which would be
// resolved, no properties, only valid UTF-8, and no label longer than MaxLabel.
func ReadsBack(e Extraction) bool {
	valid := func(texts ...string) bool {
		return !slices.ContainsFunc(texts, func(s string) bool { return len(s) > MaxLabel || !utf8.ValidString(s) })
	}
	for _, entity := range e.Entities {
		if entity.ID != "" || entity.Properties != nil || !valid(entity.Name, entity.Type) || !valid(entity.Aliases...) ||
			!utf8.ValidString(entity.Description) ||
			slices.ContainsFunc(entity.Mentions, func(m Span) bool { return !utf8.ValidString(m.Quote) }) {
			return false
		}
	}
	for _, r := range e.Relationships {
		if r.SourceRef != "" || r.TargetRef != "" || !valid(r.Source, r.Target, r.Type) || !utf8.ValidString(r.Description) {
			return false
		}
	}
	return true
}

// WithoutLookedUp returns the JSON of an extraction, as written by MarshalJSON, without the
// mentions that were looked up. It returns other JSON, and JSON without such mentions,
// unchanged.
func WithoutLookedUp(raw json.RawMessage) json.RawMessage {
	if !bytes.HasPrefix(raw, []byte(`{"entities":[`)) {
		return raw
	}
	list, suffix := []byte(`,"mentions":`), []byte(`,"looked_up":true}`) // in strings, the quotation marks are escaped
	if !bytes.Contains(raw, suffix) {
		return raw
	}
	b, rest := make([]byte, 0, len(raw)/4), raw
	for {
		before, after, found := bytes.Cut(rest, list)
		if b = append(b, before...); !found {
			return b
		}
		var mentions json.RawMessage
		mentions, rest = textutil.CutJSON(after)
		all, kept := 0, [][]byte(nil)
		for mention := range textutil.JSONElements(mentions) {
			if all++; !bytes.HasSuffix(mention, suffix) {
				kept = append(kept, mention)
			}
		}
		if len(kept) < all {
			mentions = slices.Concat([]byte{'['}, bytes.Join(kept, []byte{','}), []byte{']'})
		}
		if len(kept) > 0 || all == 0 {
			b = append(append(b, list...), mentions...)
		}
	}
}

// DecodeExtraction decodes entities and relationships, as a dataset item or an extractor writes
// them.
//
// The ends of a relationship are source_name, source or source_ref (target likewise). A value
// that equals the id (or temp_id) of an entity of this extraction is replaced by that entity's
// name; a source_ref may also be that name. The type of a relationship is relationship_type or
// type. Warnings name unknown and repeated keys. The error joins every value of the wrong kind, and
// every label longer than MaxLabel, with its path.
func DecodeExtraction(raw []byte) (Extraction, []string, error) {
	r := &reader{}
	top := r.object("", raw)
	var e Extraction
	e.Entities = decodeList(top, "entities", decodeEntity)
	if top.raw("relationships") != nil {
		names := namesByID(r, e.Entities)
		e.Relationships = decodeList(top, "relationships", decodeRelationship)
		resolveEnds(e, names)
	}
	top.done()
	if err := r.err(); err != nil {
		return Extraction{}, r.warnings, err
	}
	return e, r.warnings, nil
}

// decodeList decodes a list of objects. The result is nil if the list is absent or null.
func decodeList[T any](in fields, key string, decode func(f fields) T) []T {
	list := in.list(key)
	if list == nil {
		return nil
	}
	values, path := make([]T, 0, len(list)), in.join(key)
	for i, raw := range list {
		f := in.r.element(path, i, raw)
		values = append(values, decode(f))
		f.done()
	}
	return values
}

func decodeEntity(f fields) Entity {
	return Entity{
		ID:          f.label("id", "temp_id"),
		Name:        f.label("name"),
		Type:        f.label("type"),
		Description: f.text("description"),
		Aliases:     f.texts("aliases"),
		Properties:  f.raw("properties"),
		Mentions:    decodeList(f, "mentions", decodeSpan),
	}
}

func decodeSpan(f fields) Span {
	lookedUp := string(f.raw("looked_up")) == "true"
	return Span{Quote: f.text("quote"), Start: f.integer("start"), End: f.integer("end"), LookedUp: lookedUp}
}

func decodeRelationship(f fields) Relationship {
	return Relationship{
		Type:        f.label("relationship_type", "type"),
		Description: f.text("description"),
		Source:      f.label("source_name", "source"),
		SourceRef:   f.label("source_ref"),
		Target:      f.label("target_name", "target"),
		TargetRef:   f.label("target_ref"),
	}
}

func namesByID(r *reader, entities []Entity) map[string]string {
	names := map[string]string{}
	for _, e := range entities {
		if _, duplicate := names[e.ID]; duplicate {
			r.warn("entities: the id %q is used twice; the first entity keeps it", e.ID)
		} else if e.ID != "" {
			names[e.ID] = e.Name
		}
	}
	return names
}

// resolveEnds replaces references to entities by their names; byID has the names by the ids of the entities.
func resolveEnds(e Extraction, byID map[string]string) {
	var entityNames map[string]bool // names of entities, only if a relationship needs them
	if slices.ContainsFunc(e.Relationships, Relationship.Dangling) {
		entityNames = map[string]bool{}
		for _, e := range e.Entities {
			entityNames[e.Name] = true
		}
	}
	for i := range e.Relationships {
		rel := &e.Relationships[i]
		rel.Source, rel.SourceRef = resolveEnd(rel.Source, rel.SourceRef, byID, entityNames)
		rel.Target, rel.TargetRef = resolveEnd(rel.Target, rel.TargetRef, byID, entityNames)
	}
}

// resolveEnd returns the name of an end, or the reference if it cannot be resolved. A reference
// that equals an entity's name means that entity, since models confuse the two.
func resolveEnd(name, ref string, byID map[string]string, entityNames map[string]bool) (string, string) {
	resolved, ok := byID[cmp.Or(name, ref)]
	switch {
	case ok:
		return resolved, ""
	case name != "":
		return name, ""
	case entityNames[ref]:
		return ref, ""
	}
	return "", ref
}

// Vocabulary says which relationship types state the same fact. With the zero value, only equal
// statements do.
type Vocabulary struct {
	// Inverse has pairs of types: a(x, y) says the same as b(y, x). The relation is symmetric,
	// but not transitive. A type may have several inverses, or be its own.
	Inverse [][2]string
	// Symmetric has types for which a(x, y) says the same as a(y, x). A type that is also its own
	// inverse is symmetric.
	Symmetric []string
}

// Converse is a type that states the same fact as another type if the ends are swapped: its
// inverse, or the type itself if it is symmetric.
type Converse struct {
	Type    string
	Inverse bool
}

// Converses returns the converses of each type, both normalised.
func (v Vocabulary) Converses(normalise func(string) string) map[string][]Converse {
	all := map[string][]Converse{}
	add := func(a, b string, inverse bool) { all[a] = append(all[a], Converse{b, inverse}) }
	for _, name := range v.Symmetric {
		add(normalise(name), normalise(name), false)
	}
	for _, pair := range v.Inverse {
		a, b := normalise(pair[0]), normalise(pair[1])
		add(a, b, true)
		add(b, a, true)
	}
	return all
}
