package embedded

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const maxSchemaLength = 10_000

// newSchema returns the schema that a dataset has after a request: the old one
// where the field is absent, none where it is null, else the given one, which
// has to be draft-07 without unknown keywords.
func newSchema(old sql.NullString, given json.RawMessage) (sql.NullString, error) {
	if given == nil {
		return old, nil
	}
	if string(given) == "null" {
		return sql.NullString{}, nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, given); err != nil {
		return old, err
	}
	if utf8.RuneCount(text.Bytes()) > maxSchemaLength { // as it is stored, without white space
		return old, invalid("JSON Schema is too long: at most %d characters", maxSchemaLength)
	}
	if _, err := compileSchema(text.String()); err != nil {
		return old, invalid("Must be a valid JSON Schema: %s", clip(err.Error(), 500))
	}
	return sql.NullString{String: text.String(), Valid: true}, nil
}

// compileSchema reads a draft-07 schema. References outside of it are refused:
// a schema from a request must not make the server open files.
func compileSchema(text string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, isObject := doc.(map[string]any)
	if !isObject {
		return nil, errors.New("a schema is an object")
	}
	if named, given := root["$schema"].(string); given && !strings.Contains(named, "draft-07") {
		return nil, fmt.Errorf("$schema %q is not draft-07", named)
	}
	if err := checkKeywords(root); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource("mem:///schema.json", doc); err != nil {
		return nil, err
	}
	return compiler.Compile("mem:///schema.json")
}

// keyword says what stands under a keyword: a plain value, one schema (or a
// list of schemas), or schemas by name.
func keyword(name string) (kind string) {
	switch name {
	case "properties", "patternProperties", "definitions", "$defs", "dependencies":
		return "map"
	case "items", "additionalItems", "contains", "additionalProperties", "propertyNames",
		"if", "then", "else", "allOf", "anyOf", "oneOf", "not":
		return "schema"
	case "$id", "$schema", "$ref", "$comment", "title", "description", "default", "readOnly", "writeOnly",
		"examples", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
		"minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties",
		"required", "const", "enum", "type", "format", "contentMediaType", "contentEncoding", "nullable":
		return "value"
	}
	return ""
}

// checkKeywords refuses keywords that draft-07 does not know. Recursion is
// bounded by the length of a schema.
func checkKeywords(schema any) error {
	switch node := schema.(type) {
	case []any:
		for _, child := range node {
			if err := checkKeywords(child); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range node {
			if err := checkKeyword(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkKeyword(name string, value any) error {
	switch keyword(name) {
	case "":
		return fmt.Errorf("unknown keyword %q", clip(name, 100))
	case "schema":
		return checkKeywords(value)
	case "map":
		children, _ := value.(map[string]any)
		for _, child := range children {
			if err := checkKeywords(child); err != nil {
				return err
			}
		}
	}
	return nil
}
