// Package schema validates JSON as a Langfuse server does by the schemas of a dataset: JSON
// Schema of draft 7; formats are allowed and not asserted; nothing is read from elsewhere.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxLength is how many characters a schema may have, white space between its tokens
// aside.
const maxLength = 10_000

// Schema is ready to validate. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a schema that a server holds: of draft 7, or of the one that it names.
func Compile(raw []byte) (*Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	each(document, keywords(), func(schema map[string]any) { delete(schema, "format") }) // it would be asserted
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // none: a schema may not read files
	const url = "dataset:schema"
	if err := compiler.AddResource(url, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(url)
	return &Schema{compiled}, err
}

// Refused returns why Langfuse would not take a schema; nil where it would, as far as that
// is known here. Its validator is Ajv in strict mode: besides a valid schema it wants known
// keywords only, types where keywords need them and no union of types, and properties
// that describe what is required. Definitions that nothing refers to are not looked at.
func Refused(raw []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if n := utf8.RuneCount(compact.Bytes()); n > maxLength {
		return fmt.Errorf("it has %d characters, Langfuse takes %d", n, maxLength)
	}
	c := checker{described: map[string]bool{}, seen: map[string]bool{"#": true}, known: keywords()}
	if json.Unmarshal(raw, &c.root) != nil || c.root == nil {
		return errors.New("it is not an object")
	}
	if named, given := c.root["$schema"]; given && named != draft7 && named != draft7+"#" {
		return fmt.Errorf("$schema is %q, and Langfuse only knows %q", named, draft7)
	}
	if _, err := Compile(raw); err != nil {
		return err
	}
	each(c.root, c.known, func(schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name := range properties {
			c.described[name] = true
		}
	})
	c.schema(c.root, "", nil)
	if len(c.problems) > 0 {
		return errors.New(strings.Join(c.problems, "; "))
	}
	return nil
}

const draft7 = "http://json-schema.org/draft-07/schema"

// keyword is one of draft 7.
type keyword struct {
	of     string // the types of the values that it is about; "" is any
	does   int
	byName bool // its value is an object of schemas
}

// What a keyword does: it says something about the schema, asks something of a value, or
// applies schemas: to the same value, to its children, to the names of its properties; or it
// keeps schemas for references.
const (
	annotation = iota
	assertion
	inPlace
	children
	propertyNames
	definitions
)

// keywords are those of draft 7, and those that Ajv knows besides.
func keywords() map[string]keyword {
	known := map[string]keyword{}
	for _, row := range []struct {
		names string
		keyword
	}{
		{"$id $schema $comment $vocabulary title description default deprecated readOnly writeOnly examples " +
			"contentMediaType contentEncoding contentSchema", keyword{"", annotation, false}},
		{"$ref type nullable enum const", keyword{"", assertion, false}},
		{"multipleOf maximum exclusiveMaximum minimum exclusiveMinimum", keyword{"number integer", assertion, false}},
		{"maxLength minLength pattern", keyword{"string", assertion, false}},
		{"format formatMinimum formatMaximum formatExclusiveMinimum formatExclusiveMaximum", keyword{"string number integer", assertion, false}},
		{"maxItems minItems uniqueItems", keyword{"array", assertion, false}},
		{"maxProperties minProperties required", keyword{"object", assertion, false}},
		{"if then else not allOf anyOf oneOf", keyword{"", inPlace, false}},
		{"dependencies", keyword{"object", inPlace, true}},
		{"items additionalItems contains", keyword{"array", children, false}},
		{"additionalProperties", keyword{"object", children, false}},
		{"properties patternProperties", keyword{"object", children, true}},
		{"propertyNames", keyword{"object", propertyNames, false}},
		{"definitions $defs", keyword{"", definitions, true}},
	} {
		for _, name := range strings.Fields(row.names) {
			known[name] = row.keyword
		}
	}
	return known
}

// schemas returns those that a value of the keyword holds, by what leads to them.
func (k keyword) schemas(value any) map[string]any {
	found := map[string]any{}
	if k.does <= assertion {
		return found
	}
	list, _ := value.([]any)
	for i, one := range list {
		found["/"+strconv.Itoa(i)] = one
	}
	object, _ := value.(map[string]any)
	if object != nil && !k.byName {
		found[""] = object
		return found
	}
	for key, one := range object {
		found["/"+key] = one
	}
	return found
}

// each calls f with a schema and all that it holds.
func each(value any, known map[string]keyword, f func(schema map[string]any)) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	f(schema)
	for name, value := range schema {
		for _, one := range known[name].schemas(value) {
			each(one, known, f)
		}
	}
}

// checker looks for what the strict mode refuses.
type checker struct {
	root      map[string]any
	known     map[string]keyword
	described map[string]bool // the properties of any schema
	seen      map[string]bool // the references that were followed
	problems  []string
}

func (c *checker) problem(path, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("at %q: ", path+"/")+fmt.Sprintf(format, args...))
}

// schema checks one and what it holds. The types are those that an outer schema says of
// the same value.
func (c *checker) schema(value any, path string, types []any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	if own := listed(schema["type"]); len(own) > 0 {
		for _, one := range own {
			if len(types) > 0 && !slices.Contains(types, one) && (one != "integer" || !slices.Contains(types, any("number"))) {
				c.problem(path, "Langfuse takes no type %q where an outer schema of the same value has another", one)
			}
		}
		if types = own; len(own) > 2 || len(own) == 2 && !slices.Contains(own, any("null")) {
			c.problem(path, "Langfuse takes one type, or one and null; use anyOf")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		k, ok := c.known[name]
		if !ok {
			c.problem(path, "%q is not a keyword of draft-07, and Langfuse takes no others", name)
		}
		if of := strings.Fields(k.of); len(of) > 0 && !slices.ContainsFunc(of, func(one string) bool { return slices.Contains(types, any(one)) }) {
			c.problem(path, "Langfuse takes %q only beside \"type\": %q", name, of[0])
		}
		inner := k.schemas(schema[name])
		if c.skipped(name, inner) {
			continue
		}
		of := map[int][]any{inPlace: types, propertyNames: {"string"}}[k.does]
		for _, at := range slices.Sorted(maps.Keys(inner)) {
			c.schema(inner[at], path+"/"+name+at, of)
		}
	}
	for _, name := range listed(schema["required"]) {
		if name, ok := name.(string); ok && !c.described[name] {
			c.problem(path, "Langfuse requires %q only where properties describe it", name)
		}
	}
	if _, ok := schema["nullable"]; ok && schema["type"] == nil {
		c.problem(path, "Langfuse takes \"nullable\" only beside \"type\"")
	}
	if ref, ok := schema["$ref"].(string); ok && strings.HasPrefix(ref, "#") && !c.seen[ref] {
		c.seen[ref] = true
		c.schema(c.target(ref), ref, nil)
	}
}

// skipped reports whether Ajv does not look at the inner schemas of a keyword: definitions
// until something refers to them, and alternatives to one that every value fits.
func (c *checker) skipped(name string, inner map[string]any) bool {
	switch name {
	case "definitions", "$defs":
		return true
	case "anyOf", "oneOf":
		return slices.ContainsFunc(slices.Collect(maps.Values(inner)), c.empty)
	}
	return false
}

// empty reports whether a schema asks for nothing.
func (c *checker) empty(value any) bool {
	schema, ok := value.(map[string]any)
	for name := range schema {
		if k, known := c.known[name]; !known || k.does != annotation && k.does != definitions {
			return false
		}
	}
	return ok || value == true
}

// listed is a list, or a list of one.
func listed(value any) []any {
	if list, ok := value.([]any); ok || value == nil {
		return list
	}
	return []any{value}
}

// target is what a reference into the schema leads to; nil where that is not found here.
func (c *checker) target(ref string) any {
	var at any = c.root
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if token != "" {
			object, _ := at.(map[string]any)
			at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
	}
	return at
}

// Break is one thing that a value has against its schema.
type Break struct {
	Path []string // keys and numbers of elements that lead to it
	Text string
}

// Check returns what a JSON value has against the schema, the innermost causes; none
// where it fits.
func (s *Schema) Check(raw []byte) ([]Break, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = s.compiled.Validate(value)
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, err
	}
	var breaks []Break
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			breaks = append(breaks, Break{e.InstanceLocation, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))})
		}
	}
	visit(invalid)
	slices.SortStableFunc(breaks, func(a, b Break) int { return slices.Compare(a.Path, b.Path) }) // members come in any order
	return breaks, nil
}
