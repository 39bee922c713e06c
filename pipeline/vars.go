package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// Var is a value of the item for use in a prompt, for example --var title=input.section.title.
type Var struct {
	Name string // the identifier
	// Path begins with "input" or "metadata" and continues with keys and, in lists, positions
	// from 0, separated by dots: input.sections.0.title.
	Path string
}

// ParseVar reads "name=path". The error has exit code 64.
func ParseVar(spec string) (Var, error) {
	name, path, found := strings.Cut(spec, "=")
	v := Var{Name: strings.TrimSpace(name), Path: strings.TrimSpace(path)}
	if !found {
		return Var{}, promptError(fmt.Errorf("%q: expected name=path, for example title=input.section.title", brief(spec)))
	}
	if err := v.check(); err != nil {
		return Var{}, promptError(err)
	}
	return v, nil
}

// ShowsDocument reports whether the path is that of the document text.
func (v Var) ShowsDocument() bool {
	return v.Path == "input.document_text" || v.Path == "input.text"
}

func (v Var) check() error {
	if !nameRegexp().MatchString(v.Name) {
		return fmt.Errorf("the variable %q: a name holds letters, digits, _ and single dots, and begins with a letter or _", brief(v.Name))
	}
	if slices.Contains(KnownVars(), v.Name) {
		return fmt.Errorf("the variable %q: the document sets this name, choose another", v.Name)
	}
	segments := strings.Split(v.Path, ".")
	if segments[0] != "input" && segments[0] != "metadata" || slices.Contains(segments, "") {
		return fmt.Errorf("the variable %q: the path %q must begin with input or metadata, for example input.section.title", v.Name, brief(v.Path))
	}
	return nil
}

// lookUp follows a path. problem is empty if there is a value.
func lookUp(roots map[string]json.RawMessage, path string) (text, problem string) {
	segments := strings.Split(path, ".")
	raw, walked := roots[segments[0]], segments[0]
	for _, segment := range segments[1:] {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(raw, &object) == nil && object != nil:
			next, ok := object[segment]
			if !ok {
				keys := textutil.Listed(segment, slices.Sorted(maps.Keys(object)))
				return "", fmt.Sprintf("the item has no %q in %s, which has %s", brief(segment), brief(walked),
					textutil.Cut(keys, 500))
			}
			raw = next
		case json.Unmarshal(raw, &list) == nil && list != nil:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(list) {
				return "", fmt.Sprintf("%s is a list of %d, which has no element %q (the first is 0)", brief(walked),
					len(list), brief(segment))
			}
			raw = list[i]
		default:
			return "", fmt.Sprintf("the item has neither an object nor a list at %s", brief(walked))
		}
		walked += "." + segment
	}
	if textutil.AbsentJSON(raw) {
		return "", fmt.Sprintf("the item has no value at %s", brief(walked))
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	text, err := canonical(raw)
	if err != nil {
		return "", fmt.Sprintf("%s is not JSON: %v", brief(walked), err)
	}
	return text, ""
}

// The identifiers that every document fills.
const (
	DocumentText        = "document_text"
	DocumentType        = "document_type"
	ObjectSchemas       = "object_schemas"
	RelationshipSchemas = "relationship_schemas"
	AllowedTypes        = "allowed_types"
	AvailableTags       = "available_tags"
)

// KnownVars returns the identifiers that every document fills, in display order.
func KnownVars() []string {
	return []string{DocumentText, DocumentType, ObjectSchemas, RelationshipSchemas, AllowedTypes, AvailableTags}
}

// Vars are the values that Compile inserts.
type Vars struct {
	Texts    map[string]string    // by identifier
	Messages map[string][]Message // by name of a message placeholder
}

// DocumentVars returns the values of a document. document_text and document_type are inserted
// unchanged. The others are compact JSON with sorted keys and without needless escapes:
// object_schemas and relationship_schemas are objects by type name, allowed_types and
// available_tags are lists of strings. An empty list of allowed types allows every type and
// becomes the sorted names of the object schemas. The same document gives the same bytes. Time
// is linear in the document. The error names a schema whose properties are not JSON; a decoded
// document has none.
//
// Variables take their values from the input and metadata of the item. A string is inserted
// unchanged, any other value as compact JSON with sorted keys. The path of the document text
// gives document_text, which is only a chunk if the document was split. A missing or null value
// is an error that names the path and what exists there.
func DocumentVars(doc extraction.Document, variables ...Var) (Vars, error) {
	shared := extraction.Derive(doc, sharedKey{}, newSharedTexts)
	if shared.err != nil {
		return Vars{}, shared.err
	}
	vars := Vars{Texts: maps.Clone(shared.texts)}
	vars.Texts[DocumentText], vars.Texts[DocumentType] = doc.Text, doc.Type
	roots := map[string]json.RawMessage{"input": doc.Input, "metadata": doc.Metadata}
	for _, v := range variables {
		if v.ShowsDocument() {
			vars.Texts[v.Name] = doc.Text
			continue
		}
		text, problem := lookUp(roots, v.Path)
		if problem != "" {
			return Vars{}, fmt.Errorf("the variable %q takes %s, and %s", v.Name, brief(v.Path), problem)
		}
		vars.Texts[v.Name] = text
	}
	return vars, nil
}

// sharedTexts holds the values that are equal for all documents with the same schemas.
type sharedTexts struct {
	texts map[string]string
	err   error
}

// sharedKey is the key for extraction.Derive.
type sharedKey struct{}

func newSharedTexts(doc extraction.Document) (s sharedTexts) {
	allowed := doc.AllowedTypes
	if len(allowed) == 0 {
		allowed = slices.Sorted(maps.Keys(doc.Objects))
	}
	s.texts = map[string]string{}
	for name, value := range map[string]any{
		ObjectSchemas:       doc.Objects,
		RelationshipSchemas: doc.Relationships,
		AllowedTypes:        append([]string{}, allowed...),
		AvailableTags:       append([]string{}, doc.AvailableTags...),
	} {
		raw, err := json.Marshal(value)
		if string(raw) == "null" { // an item without schemas
			raw = []byte("{}")
		}
		if err == nil {
			s.texts[name], err = canonical(raw)
		}
		if err != nil {
			return sharedTexts{err: fmt.Errorf("writing the %s into the prompt: %w", name, err)}
		}
	}
	return s
}

// canonical returns compact JSON with sorted keys; numbers keep their spelling.
func canonical(raw []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	text, err := textutil.MarshalJSON(value)
	return string(text), err
}
