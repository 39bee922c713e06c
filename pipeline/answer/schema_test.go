package answer

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"extraction-experiment/extraction"
)

// compileSchema compiles a JSON Schema.
func compileSchema(t *testing.T, raw []byte) *jsonschema.Schema {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("answer", value); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("answer")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchema_text(t *testing.T) {
	doc := extraction.Document{AllowedTypes: []string{"B<&>", "A é"}}
	const want = `{"type":"object","properties":{"entities":{"type":"array","description":"every entity that the document names","items":{"type":"object","properties":{` +
		`"name":{"type":"string","description":"the name as the document writes it"},"type":{"type":"string","description":"the type of the entity","enum":["B<&>","A é"]}},` +
		`"required":["name","type"],"additionalProperties":false}}},"required":["entities"],"additionalProperties":false}`
	if got := Schema(doc, EntitiesOnly); string(got) != want {
		t.Errorf("got %s", got)
	}
	if got := Instruction(doc, EntitiesOnly); !strings.HasSuffix(got, want) || !strings.Contains(got, "one JSON object and nothing else") {
		t.Errorf("got %s", got)
	}
}

func TestSchema_accepts(t *testing.T) {
	const good = `{"entities":[{"name":"Ann","type":"Person"}],"relationships":[{"source_name":"Ann","target_name":"Ann","relationship_type":"knows"}]}`
	const quotes = `{"entities":[{"name":"Ann","type":"Person","mentions":[{"quote":"Ann Lee"}]}],"relationships":[]}`
	tests := map[string]struct {
		answer string
		part   Part
		want   bool
	}{
		"as asked for":             {good, Both, true},
		"quotes that nobody asked": {quotes, Both, false},
		"another type":             {strings.Replace(good, "Person", "person", 1), Both, false},
		"another statement":        {strings.Replace(good, "knows", "likes", 1), Both, false},
		"a list missing":           {`{"entities":[]}`, Both, false},
		"only entities":            {`{"entities":[]}`, EntitiesOnly, true},
		"only relationships":       {`{"relationships":[]}`, RelationshipsOnly, true},
		"a list too many":          {good, EntitiesOnly, false},
		"an added key":             {`{"entities":[],"relationships":[],"x":1}`, Both, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.answer))
			if err != nil {
				t.Fatal(err)
			}
			if err := compileSchema(t, Schema(document(), tt.part)).Validate(value); (err == nil) != tt.want {
				t.Errorf("got %v", err)
			}
			if _, err := Parse(tt.answer); err != nil {
				t.Error("Parse refuses it:", err)
			}
		})
	}
}

// TestSchema_strict checks what strict servers require: every object lists all its properties as
// required and allows no others, and there are no other keywords than they know.
func TestSchema_strict(t *testing.T) {
	known := []string{"type", "properties", "required", "additionalProperties", "items", "enum", "description"}
	var check func(path string, schema map[string]any)
	check = func(path string, schema map[string]any) {
		for key := range schema {
			if !slices.Contains(known, key) {
				t.Errorf("%s has %q", path, key)
			}
		}
		if items, ok := schema["items"].(map[string]any); ok {
			check(path+"[]", items)
		}
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			return
		}
		if schema["additionalProperties"] != false || len(schema["required"].([]any)) != len(properties) {
			t.Errorf("%s is open", path)
		}
		for name, property := range properties {
			check(path+"."+name, property.(map[string]any))
		}
	}
	for _, part := range []Part{Both, EntitiesOnly, RelationshipsOnly} {
		var schema map[string]any
		if err := json.Unmarshal(Schema(document(), part), &schema); err != nil {
			t.Fatal(err)
		}
		check("answer", schema)
	}
}

func TestSchema_enums(t *testing.T) {
	types := func(n, length int) extraction.Document {
		var doc extraction.Document
		for i := range n {
			doc.AllowedTypes = append(doc.AllowedTypes, fmt.Sprintf("%0*d", length, i))
		}
		return doc
	}
	for _, tt := range []struct {
		doc  extraction.Document
		want bool
	}{
		{extraction.Document{}, false}, // everything is allowed
		{types(1, 5), true},
		{types(1000, 5), true},
		{types(1001, 5), false}, // more than 1,000 values
		{types(250, 100), true}, // 25,000 characters, not more than 250 values
		{types(300, 50), true},  // 15,000 characters
		{types(300, 51), false}, // 15,300
	} {
		if got := strings.Contains(string(Schema(tt.doc, Both)), `"enum"`); got != tt.want {
			t.Errorf("%d types: enum %v", len(tt.doc.AllowedTypes), got)
		}
	}
}

// TestSchema_documents checks, for each of 60 documents outside of the project, that its schema
// compiles and that Parse reads the expected output without warnings.
func TestSchema_documents(t *testing.T) {
	raw, err := os.ReadFile("../../../shared/data/documents60.jsonl")
	if err != nil {
		t.Skip("the documents are not here: ", err)
	}
	for line := range strings.Lines(string(raw)) {
		var item struct {
			ID       string          `json:"id"`
			Input    json.RawMessage `json:"input"`
			Expected json.RawMessage `json:"expectedOutput"`
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatal(err)
		}
		doc, _, err := extraction.DecodeDocument(item.Input)
		if err != nil {
			t.Fatal(item.ID, err)
		}
		compileSchema(t, Schema(doc, Both))
		got, err := Parse(string(item.Expected))
		if err != nil {
			t.Fatal(item.ID, err)
		}
		if len(got.Extraction.Entities) == 0 || len(got.Warnings) > 0 {
			t.Errorf("%s: %d entities, repairs %q", item.ID, len(got.Extraction.Entities), got.Warnings)
		}
		for _, problem := range Validate(Normalise(got.Extraction, doc), doc, Both) {
			t.Logf("%s: %s", item.ID, problem)
		}
	}
}
