package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/extraction"
)

// The identifiers that every document fills.
const (
	DocumentText        = "document_text"
	DocumentType        = "document_type"
	ObjectSchemas       = "object_schemas"
	RelationshipSchemas = "relationship_schemas"
	AllowedTypes        = "allowed_types"
	AvailableTags       = "available_tags"
)

// Known lists the identifiers that every document fills, in the order in which
// they are shown.
func Known() []string {
	return []string{DocumentText, DocumentType, ObjectSchemas, RelationshipSchemas, AllowedTypes, AvailableTags}
}

// Vars are the values that Compile puts in.
type Vars struct {
	Texts    map[string]string    // by identifier
	Messages map[string][]Message // by name of a message placeholder
}

// FromDocument returns the values of a document: document_text and
// document_type as they are; object_schemas and relationship_schemas as an
// object by type name, allowed_types and available_tags as a list of strings,
// all four as compact JSON with sorted keys and without needless escapes. An
// empty list of allowed types allows every type, and is given as the sorted
// names of the object schemas. The same document gives the same bytes. Time is
// linear in the document. The error names a schema whose properties are not
// JSON; a decoded document has none.
func FromDocument(doc extraction.Document) (Vars, error) {
	allowed := doc.AllowedTypes
	if len(allowed) == 0 {
		allowed = slices.Sorted(maps.Keys(doc.Objects))
	}
	values := []struct {
		name  string
		value any
	}{
		{ObjectSchemas, orEmpty(doc.Objects)},
		{RelationshipSchemas, orEmpty(doc.Relationships)},
		{AllowedTypes, append([]string{}, allowed...)},
		{AvailableTags, append([]string{}, doc.AvailableTags...)},
	}
	vars := Vars{Texts: map[string]string{DocumentText: doc.Text, DocumentType: doc.Type}}
	for _, v := range values {
		raw, err := json.Marshal(v.value)
		if err != nil {
			return Vars{}, fmt.Errorf("writing the %s into the prompt: %w", v.name, err)
		}
		text, err := canonical(raw)
		if err != nil {
			return Vars{}, fmt.Errorf("writing the %s into the prompt: %w", v.name, err)
		}
		vars.Texts[v.name] = text
	}
	return vars, nil
}

// orEmpty writes a schema-less item as {}, not as null.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// canonical writes JSON compactly with sorted keys; numbers keep their spelling.
func canonical(raw []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
