// Package schema validates JSON like a Langfuse server with the schemas of a dataset: with JSON
// Schema draft 7, without asserting formats, and without loading other schemas.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxLength is the maximum number of characters of a schema, without white space between
// tokens.
const maxLength = 10_000

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Compile compiles a schema of a server. The draft is 7, unless the schema names another. A pattern that
// JavaScript may know and Go does not, such as ^(?!x), matches every text.
func Compile(raw []byte) (*Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	each(document, func(schema map[string]any) { delete(schema, "format") }) // the compiler would assert it
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // without any scheme, so that a schema cannot read files
	compiler.UseRegexpEngine(compilePattern)
	const url = "dataset:schema"
	if err := compiler.AddResource(url, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(url)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

// compilePattern compiles a pattern, or one that matches every text if it may be JavaScript's.
func compilePattern(pattern string) (jsonschema.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	invalid, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return compiled, err
	}
	javaScript := slices.ContainsFunc([]string{"(?=", "(?!", "(?<=", "(?<!", `\`},
		func(begin string) bool { return strings.HasPrefix(invalid.Expr, begin) })
	if invalid.Code == syntax.ErrInvalidRepeatSize { // more than 1000 times, or {2,1}
		var least, most int
		n, _ := fmt.Sscanf(invalid.Expr, "{%d,%d}", &least, &most)
		javaScript = n < 2 || least <= most
	}
	if javaScript {
		return regexp.Compile("")
	}
	return nil, err
}

// CheckLangfuse returns the reason why Langfuse would reject a schema, or nil if it would accept the
// schema, as far as this package knows. Langfuse uses Ajv in strict mode. A schema must be
// valid, use only known keywords, have types where keywords need them, have no union of types,
// and describe required properties. Definitions without a reference are not checked.
func CheckLangfuse(raw []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if n := utf8.RuneCount(compact.Bytes()); n > maxLength {
		return fmt.Errorf("it has %d characters, Langfuse takes %d", n, maxLength)
	}
	c := checker{described: map[string]bool{}, seen: map[string]bool{"#": true}}
	if json.Unmarshal(raw, &c.root) != nil || c.root == nil {
		return errors.New("it is not an object")
	}
	if named, given := c.root["$schema"]; given && named != draft7 && named != draft7+"#" {
		return fmt.Errorf("$schema is %q, and Langfuse only knows %q", named, draft7)
	}
	if _, err := Compile(raw); err != nil {
		return err
	}
	each(c.root, func(schema map[string]any) {
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

// keyword describes keywords of draft 7.
type keyword struct {
	names  string // with spaces between them
	types  string // the types of the values that they apply to; "" means any
	kind   int
	byName bool // their values are objects with schemas
}

// The kinds of keywords.
const (
	annotation    = iota // describes the schema
	assertion            // is a condition for the value
	inPlace              // applies schemas to the value
	children             // applies schemas to the children of the value
	propertyNames        // applies a schema to the names of the properties of the value
	definitions          // contains schemas for references
)

// keywords has the keywords of draft 7, and the additional keywords of Ajv.
var keywords = []keyword{
	{"$id $schema $comment $vocabulary title description default deprecated readOnly writeOnly examples " +
		"contentMediaType contentEncoding contentSchema", "", annotation, false},
	{"$ref type nullable enum const", "", assertion, false},
	{"multipleOf maximum exclusiveMaximum minimum exclusiveMinimum", "number integer", assertion, false},
	{"maxLength minLength pattern", "string", assertion, false},
	{"format formatMinimum formatMaximum formatExclusiveMinimum formatExclusiveMaximum", "string number integer", assertion, false},
	{"maxItems minItems uniqueItems", "array", assertion, false},
	{"maxProperties minProperties required", "object", assertion, false},
	{"if then else not allOf anyOf oneOf", "", inPlace, false},
	{"dependencies", "object", inPlace, true},
	{"items additionalItems contains", "array", children, false},
	{"additionalProperties", "object", children, false},
	{"properties patternProperties", "object", children, true},
	{"propertyNames", "object", propertyNames, false},
	{"definitions $defs", "", definitions, true},
}

// keywordOf returns the keyword of a name; known is false if there is none.
func keywordOf(name string) (k keyword, known bool) {
	at := slices.IndexFunc(keywords, func(k keyword) bool { return slices.Contains(strings.Fields(k.names), name) })
	if at < 0 {
		return keyword{}, false
	}
	return keywords[at], true
}

// schemas returns the schemas in a value of the keyword, by their path relative to the value.
func (k keyword) schemas(value any) map[string]any {
	found := map[string]any{}
	if k.kind <= assertion {
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

// each calls f for a schema and all schemas in it.
func each(value any, f func(schema map[string]any)) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	f(schema)
	for name, value := range schema {
		k, _ := keywordOf(name)
		for _, one := range k.schemas(value) {
			each(one, f)
		}
	}
}

// checker finds what the strict mode of Ajv rejects.
type checker struct {
	root      map[string]any
	described map[string]bool // the properties that any schema describes
	seen      map[string]bool // the references that have been checked
	problems  []string
}

func (c *checker) problem(path, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("at %q: ", path+"/")+fmt.Sprintf(format, args...))
}

// schema checks a schema and the schemas in it. types are the types that an outer schema allows
// for the same value.
func (c *checker) schema(value any, path string, types []any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	if own := asList(schema["type"]); len(own) > 0 {
		for _, one := range own {
			if len(types) > 0 && !slices.Contains(types, one) && (one != "integer" || !slices.Contains(types, any("number"))) {
				c.problem(path, "Langfuse takes no type %q if an outer schema of the same value has another", one)
			}
		}
		if types = own; len(own) > 2 || len(own) == 2 && !slices.Contains(own, any("null")) {
			c.problem(path, "Langfuse takes one type, or one and null; use anyOf")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		k, ok := keywordOf(name)
		if !ok {
			c.problem(path, "%q is not a keyword of draft-07, and Langfuse takes no others", name)
		}
		if needed := strings.Fields(k.types); len(needed) > 0 && !slices.ContainsFunc(needed, func(one string) bool { return slices.Contains(types, any(one)) }) {
			c.problem(path, "Langfuse takes %q only beside \"type\": %q", name, needed[0])
		}
		// Ajv does not check definitions, which are checked at their references, and alternatives
		// of which one accepts every value.
		inner := k.schemas(schema[name])
		isAlternatives := name == "anyOf" || name == "oneOf"
		if k.kind == definitions || isAlternatives && slices.ContainsFunc(slices.Collect(maps.Values(inner)), empty) {
			continue
		}
		innerTypes := map[int][]any{inPlace: types, propertyNames: {"string"}}[k.kind]
		for _, at := range slices.Sorted(maps.Keys(inner)) {
			c.schema(inner[at], path+"/"+name+at, innerTypes)
		}
	}
	for _, name := range asList(schema["required"]) {
		if name, ok := name.(string); ok && !c.described[name] {
			c.problem(path, "Langfuse requires %q only if properties describe it", name)
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

// empty reports whether a schema accepts every value.
func empty(value any) bool {
	schema, ok := value.(map[string]any)
	for name := range schema {
		if k, known := keywordOf(name); !known || k.kind != annotation && k.kind != definitions {
			return false
		}
	}
	return ok || value == true
}

// asList returns value as a list. A value that is not a list becomes a list of one element.
func asList(value any) []any {
	if list, ok := value.([]any); ok || value == nil {
		return list
	}
	return []any{value}
}

// target returns the schema that a reference within the document points to, or nil if it is not
// found.
func (c *checker) target(ref string) any {
	var at any = c.root
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if token != "" {
			object, _ := at.(map[string]any)
			list, _ := at.([]any)
			at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(list) {
				at = list[i]
			}
		}
	}
	return at
}

// Violation is a violation of a schema.
type Violation struct {
	Path []string // the keys and element numbers of the invalid value
	Text string
}

// Check returns the violations of the schema by a JSON value, sorted by path. It returns only
// the innermost causes, and none if the value is valid.
func (s *Schema) Check(raw []byte) ([]Violation, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = s.compiled.Validate(value)
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, err
	}
	var breaks []Violation
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			breaks = append(breaks, Violation{e.InstanceLocation, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))})
		}
	}
	visit(invalid)
	slices.SortStableFunc(breaks, func(a, b Violation) int { return slices.Compare(a.Path, b.Path) }) // the validator iterates over maps
	return breaks, nil
}
