package seed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"extraction-experiment/dataset"
)

// maxSchema is how long a schema of a dataset may be in Langfuse, in characters,
// white space between its tokens aside.
const maxSchema = 10_000

// Schemas are the JSON Schemas (draft 7, which Langfuse uses) of a dataset; nil
// is none.
type Schemas struct {
	Input    json.RawMessage
	Expected json.RawMessage
}

// ParseSchemas reads {"input": SCHEMA, "expectedOutput": SCHEMA}, of which
// either may be missing. All problems are returned together, with the exit code
// of malformed input.
func ParseSchemas(raw []byte) (Schemas, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), &keys); err != nil {
		return Schemas{}, malformed("reading the schemas: %w", err)
	}
	var s Schemas
	for key, value := range keys {
		switch key {
		case "input", "inputSchema":
			s.Input = value
		case "expectedOutput", "expectedOutputSchema", "expected_output", "expected":
			s.Expected = value
		default:
			return Schemas{}, malformed("reading the schemas: unknown key %q: expected {\"input\": SCHEMA, \"expectedOutput\": SCHEMA}", key)
		}
	}
	_, err := s.compile()
	return s, err
}

// compiledSchemas are ready to validate; nil accepts everything.
type compiledSchemas struct{ input, expected *jsonschema.Schema }

func (s Schemas) compile() (compiledSchemas, error) {
	input, errInput := compileSchema("input", s.Input)
	expected, errExpected := compileSchema("expectedOutput", s.Expected)
	if err := errors.Join(errInput, errExpected); err != nil {
		return compiledSchemas{}, &exitError{err, 64}
	}
	return compiledSchemas{input, expected}, nil
}

func compileSchema(name string, raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema of %s is not JSON: %w", name, err)
	}
	var compact bytes.Buffer // Langfuse counts what it stores, without white space
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("the schema of %s is not JSON: %w", name, err)
	}
	if n := utf8.RuneCount(compact.Bytes()); n > maxSchema {
		return nil, fmt.Errorf("the schema of %s has %d characters, Langfuse takes %d", name, n, maxSchema)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.UseLoader(noLoader{}) // a schema may not read files
	url := "dataset:" + name
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", name, err)
	}
	compiled, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", name, err)
	}
	return compiled, nil
}

// noLoader refuses every reference to another document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the schema: write it into $defs or definitions", url)
}

// check validates what Langfuse would store of the item.
func (s compiledSchemas) check(n *notes, item dataset.Item) {
	checkSchema(n, s.input, "input", item.Input)
	if item.Expected != nil {
		checkSchema(n, s.expected, "expectedOutput", item.Expected)
	}
}

func checkSchema(n *notes, schema *jsonschema.Schema, root string, raw json.RawMessage) {
	if schema == nil || raw == nil {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		n.problem(Schema, root, "is not JSON: %v", err)
		return
	}
	err = schema.Validate(value)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		leaves(n, root, invalid)
	} else if err != nil {
		n.problem(Schema, root, "%v", err)
	}
}

// leaves names the innermost causes: those that say what is wrong.
func leaves(n *notes, root string, e *jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		n.problem(Schema, instancePath(root, e.InstanceLocation), "breaks the dataset's schema: %s", text)
		return
	}
	for _, cause := range e.Causes {
		leaves(n, root, cause)
	}
}

func instancePath(root string, location []string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, token := range location {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		b.WriteString("." + token)
	}
	return b.String()
}
