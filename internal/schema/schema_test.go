package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/internal/schema"
)

func TestRefused(t *testing.T) {
	for raw, want := range map[string]string{ // verified with Ajv and the options of Langfuse
		`{"type": "object", "$defs": {"a": {"type": ["string", "null"], "format": "date"}}, "properties": {"foo": {"$ref": "#/$defs/a"}}, "required": ["foo"]}`: "",
		`{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": {"type": "integer", "minimum": 1}}`:                                   "",
		`{"enum": [{"foo": 1}], "default": {"bar": 2}, "const": {"$ref": 3}}`:                                                                                   "",
		`{"$defs": {"unused": {"required": ["x"], "foo": 1}}}`:                                                                                                  "",
		`{"type": "object", "dependencies": {"a": ["b"]}, "propertyNames": {"pattern": "^a"}}`:                                                                  "",
		`{"type": ["string", "null"], "minLength": 1, "allOf": [{"maxLength": 2}], "nullable": true}`:                                                           "",
		`{"type": "object", "properties": {"self": {"$ref": "#"}}}`:                                                                                             "",
		`{"anyOf": [{"type": "string"}, {"x-order": 1}]}`:                                                                                                       `at "/anyOf/1/": "x-order" is not a keyword of draft-07, and Langfuse takes no others`,
		`{"prefixItems": []}`: `at "/": "prefixItems" is not a keyword`,
		`{"type": "object", "required": ["a", "b"], "properties": {"a": {}}}`:                      `at "/": Langfuse requires "b" only if properties describe it`,
		`{"$ref": "#/definitions/a", "definitions": {"a": {"type": "object", "required": ["q"]}}}`: `at "#/definitions/a/": Langfuse requires "q"`,
		`{"$ref": "#/definitions/a/anyOf/0", "definitions": {"a": {"anyOf": [{"x-order": 1}]}}}`:   `at "#/definitions/a/anyOf/0/": "x-order"`,
		`{"properties": {"a": {}}}`: `at "/": Langfuse takes "properties" only beside "type": "object"`,
		`{"allOf": [{"type": "object", "properties": {"a": {}}}, {"properties": {"b": {}}}]}`:      `at "/allOf/1/": Langfuse takes "properties"`,
		`{"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}], "minLength": 1}}}`: `at "/properties/a/": Langfuse takes "minLength" only beside "type": "string"`,
		`{"type": "object", "additionalProperties": {"type": "string", "minimum": 1}}`:             `at "/additionalProperties/": Langfuse takes "minimum" only beside "type": "number"`,
		`{"type": "array", "items": {"type": ["string", "number"]}}`:                               `at "/items/": Langfuse takes one type, or one and null; use anyOf`,
		`{"type": "object", "properties": {"a": {"format": "date"}}}`:                              `at "/properties/a/": Langfuse takes "format" only beside "type": "string"`,
		`{"anyOf": [{"title": "all"}, {"type": ["string", "number"]}]}`:                            "", // the alternatives are not checked
		`{"type": "number", "anyOf": [{"type": "integer"}, {"type": "string"}]}`:                   `at "/anyOf/1/": Langfuse takes no type "string" if an outer schema of the same value has another`,
		`{"nullable": true}`: `Langfuse takes "nullable" only beside "type"`,
		`{"$schema": "https://json-schema.org/draft/2020-12/schema"}`: `$schema is "https://json-schema.org/draft/2020-12/schema", and Langfuse only knows "http://json-schema.org/draft-07/schema"`,
		`{"pattern": "^(?!x)"}`:                                `Langfuse takes "pattern" only beside "type"`, // Go knows no such pattern
		`{"pattern": "^(x"}`:                                   "is not valid regex",
		`{"pattern": "a{2,1}"}`:                                "is not valid regex",
		`{"pattern": "[z-a]"}`:                                 "is not valid regex",
		`{"pattern": "(?<a"}`:                                  "is not valid regex",
		`{"type": "string", "pattern": "(?<=a)b"}`:             "",
		`{"type": "string", "pattern": "(?<!a)b"}`:             "",
		`{"type": "string", "pattern": "\\p{Script=Greek}"}`:   "",
		`{"type": "string", "pattern": "[\\P{Script=Greek}]"}`: "",
		`{"type": "string", "pattern": "a{1,2000}"}`:           "",
		`{"type": "string", "pattern": "\\u0041"}`:             "",
		`{"type": 7}`:               "at '/type'",
		`{"$ref": "file:///etc/x"}`: "file:///etc/x",
		`[]`:                        "it is not an object",
		`null`:                      "it is not an object",
		`{`:                         "it is not JSON",
		`{"title": "` + strings.Repeat("é", 10_000-11) + `"  }`: "it has 10001 characters, Langfuse takes 10000", // 9 for {"title":, 2 quotes and } make 12
	} {
		err := schema.CheckLangfuse([]byte(raw))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: got %v, want %s", raw, err, want)
		}
	}
}

func TestSchema_Check(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"properties": {"day": {"type": "string", "format": "date"}}}`, `{"day": "some day"}`, "[]"}, // Langfuse does not assert formats
		{`{"properties": {"list": {"items": {"type": "string"}}}}`, `{"list": ["a", 1, 2]}`, "[{[list 1] got number, want string} {[list 2] got number, want string}]"},
		{`{"x-order": 1, "required": ["a"]}`, `{}`, "[{[] missing property 'a'}]"}, // a stored schema is always read
		{`{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "null"}]}`, `[1]`, "[{[0] got number, want null}]"},
		{`{"format": "email", "anyOf": [{"format": "date"}, {"type": "null"}]}`, `"x"`, "[]"},
		{`{"pattern": "^(?!x)", "maxLength": 1}`, `"xy"`, "[{[] maxLength: got 2, want 1}]"}, // the pattern is not checked
		{`{}`, `{`, "error"},
	} {
		s, err := schema.Compile([]byte(tt.schema))
		if err != nil {
			t.Fatal(tt.schema, err)
		}
		breaks, err := s.Check([]byte(tt.value))
		if got := fmt.Sprint(breaks); (tt.want == "error") != (err != nil) || err == nil && got != tt.want {
			t.Errorf("%s, %s: got %s %v, want %s", tt.schema, tt.value, got, err, tt.want)
		}
	}
	if _, err := schema.Compile([]byte(`{"$ref": "https://example.com/schema"}`)); err == nil || !strings.Contains(err.Error(), "https://example.com/schema") {
		t.Errorf("a schema elsewhere: %v", err)
	}
}

func FuzzRefused(f *testing.F) {
	for _, raw := range []string{`{}`, `{"items":[{"format":"x"}]}`, `{"properties":{"a":{"not":{}}}}`, `{"dependencies":{"a":["b"]}}`, `{"$ref":"#"}`} {
		f.Add(raw, `{"a":[1]}`)
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		if schema.CheckLangfuse([]byte(raw)) != nil {
			return
		}
		s, err := schema.Compile([]byte(raw))
		if err != nil {
			t.Fatalf("what is not refused does not compile: %v", err)
		}
		_, _ = s.Check([]byte(value))
	})
}
