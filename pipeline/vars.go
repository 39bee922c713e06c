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

// Var names a value of the item that a prompt may use: --var title=input.section.title.
type Var struct {
	Name string // the identifier
	// Path leads from "input" or "metadata" through keys and, in lists,
	// positions from 0, with dots between: input.sections.0.title.
	Path string
}

// ParseVar reads "name=path". The error, of exit code 64, says what is wrong with it.
func ParseVar(spec string) (Var, error) {
	name, path, found := strings.Cut(spec, "=")
	v := Var{Name: strings.TrimSpace(name), Path: strings.TrimSpace(path)}
	if !found {
		return Var{}, promptError(fmt.Sprintf("%q: expected name=path, for example title=input.section.title", shown(spec)))
	}
	if problem := v.problem(); problem != "" {
		return Var{}, promptError(problem)
	}
	return v, nil
}

// ShowsDocument reports whether the path is that of the document's text.
func (v Var) ShowsDocument() bool {
	return v.Path == "input.document_text" || v.Path == "input.text"
}

func (v Var) problem() string {
	if !wholeName().MatchString(v.Name) {
		return fmt.Sprintf("the variable %q: a name holds letters, digits, _ and single dots, and begins with a letter or _", shown(v.Name))
	}
	if slices.Contains(KnownVars(), v.Name) {
		return fmt.Sprintf("the variable %q: the document sets this name, choose another", v.Name)
	}
	segments := strings.Split(v.Path, ".")
	if segments[0] != "input" && segments[0] != "metadata" || slices.Contains(segments, "") {
		return fmt.Sprintf("the variable %q: the path %q must begin with input or metadata, for example input.section.title", v.Name, shown(v.Path))
	}
	return ""
}

// lookUp follows a path; the problem is empty where it leads to a value.
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
				return "", fmt.Sprintf("the item has no %q in %s, which has %s", shown(segment), shown(walked), textutil.Cut(keys, 500))
			}
			raw = next
		case json.Unmarshal(raw, &list) == nil && list != nil:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(list) {
				return "", fmt.Sprintf("%s is a list of %d, which has no element %q (the first is 0)", shown(walked), len(list), shown(segment))
			}
			raw = list[i]
		default:
			return "", fmt.Sprintf("the item has neither an object nor a list at %s", shown(walked))
		}
		walked += "." + segment
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "", fmt.Sprintf("the item has no value at %s", shown(walked))
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	text, err := canonical(raw)
	if err != nil {
		return "", fmt.Sprintf("%s is not JSON: %v", shown(walked), err)
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

// KnownVars lists the identifiers that every document fills, in the order in which
// they are shown.
func KnownVars() []string {
	return []string{DocumentText, DocumentType, ObjectSchemas, RelationshipSchemas, AllowedTypes, AvailableTags}
}

// Vars are the values that Compile puts in.
type Vars struct {
	Texts    map[string]string    // by identifier
	Messages map[string][]Message // by name of a message placeholder
}

// DocumentVars returns the values of a document: document_text and
// document_type as they are; object_schemas and relationship_schemas as an
// object by type name, allowed_types and available_tags as a list of strings,
// all four as compact JSON with sorted keys and without needless escapes. An
// empty list of allowed types allows every type, and is given as the sorted
// names of the object schemas. The same document gives the same bytes. Time is
// linear in the document. The error names a schema whose properties are not
// JSON; a decoded document has none.
//
// Variables take their values from the item's input and metadata. A string is inserted
// as it is, anything else as compact JSON with sorted keys. The path of the document's
// text stands for document_text, which is a part of the document where that was split.
// A missing or null value is an error that names the path and what exists there.
func DocumentVars(doc extraction.Document, variables ...Var) (Vars, error) {
	shared := extraction.Derive(doc, sharedKey{}, writeShared)
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
			return Vars{}, fmt.Errorf("the variable %q takes %s, and %s", v.Name, shown(v.Path), problem)
		}
		vars.Texts[v.Name] = text
	}
	return vars, nil
}

// sharedTexts are the texts that are the same for documents with the same schemas.
type sharedTexts struct {
	texts map[string]string
	err   error
}

// sharedKey is that of extraction.Derive.
type sharedKey struct{}

func writeShared(doc extraction.Document) (s sharedTexts) {
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

// canonical writes JSON compactly with sorted keys; numbers keep their spelling.
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
