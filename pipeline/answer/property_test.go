package answer

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
)

// hostileText draws texts that look like JSON and other syntax.
func hostileText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"Ann", "O'Neil", `"`, `\`, `\u00`, "{", "}", "[", "]", ",", ":", `{"entities":[{"name":"Z"}]}`, `"},{"name":"Z"}`, "// x", "/*", "# y", "```", "\n", "</think>", "é日", "null",
	}))
}

func drawExtraction(t *rapid.T) extraction.Extraction {
	var e extraction.Extraction
	e.Entities = []extraction.Entity{}
	for range rapid.IntRange(0, 5).Draw(t, "entities") {
		entity := extraction.Entity{Name: hostileText().Draw(t, "name"), Type: hostileText().Draw(t, "type"), Description: hostileText().Draw(t, "description")}
		if rapid.Bool().Draw(t, "properties") {
			entity.Properties = json.RawMessage(`{"entities":[{"name":"Z"}],"n":1.50,"deep":[[{"relationships":[{"source":"Z"}]}]]}`)
			entity.Mentions = []extraction.Span{{Quote: hostileText().Draw(t, "quote"), Start: 1, End: 2}}
			entity.Aliases = []string{hostileText().Draw(t, "alias")}
		}
		e.Entities = append(e.Entities, entity)
	}
	e.Relationships = []extraction.Relationship{}
	for range rapid.IntRange(0, 4).Draw(t, "relationships") {
		e.Relationships = append(e.Relationships, extraction.Relationship{Source: hostileText().Draw(t, "source"), Target: hostileText().Draw(t, "target"), Type: hostileText().Draw(t, "relationship type")})
	}
	return e
}

// drawAnswer returns the answer of a model that writes the extraction without mistakes, in one of
// the forms that Parse accepts.
func drawAnswer(t *rapid.T, e extraction.Extraction) (text string, want extraction.Extraction) {
	raw, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want, _, err = extraction.DecodeExtraction(raw)
	if err != nil {
		t.Fatal(err)
	}
	text = string(raw)
	switch rapid.SampledFrom([]string{"plain", "fence", "wrapped", "list", "pretty"}).Draw(t, "form") {
	case "fence":
		text = "```json\n" + text + "\n```"
	case "wrapped":
		text = `{"result":` + text + `}`
	case "list":
		text = "[" + text + "]"
	case "pretty":
		var pretty strings.Builder
		encoder := json.NewEncoder(&pretty)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
		text = pretty.String()
	}
	return text, want
}

// TestParse_identity checks that Parse returns the extraction of a valid answer unchanged.
func TestParse_identity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := drawAnswer(t, drawExtraction(t))
		got, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got.Extraction); diff != "" || got.Truncated {
			t.Fatalf("%s: %s", text, diff)
		}
	})
}

// TestParse_cutAnywhere checks that an answer that is cut anywhere gives its first entities and
// relationships or an error, and that it is truncated if any are missing.
func TestParse_cutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := drawAnswer(t, drawExtraction(t))
		cut := rapid.IntRange(0, len(text)).Draw(t, "at")
		got, err := Parse(text[:cut])
		if err != nil {
			return
		}
		entities, relationships := got.Extraction.Entities, got.Extraction.Relationships
		if len(entities) > len(want.Entities) || len(relationships) > len(want.Relationships) {
			t.Fatalf("%s gave %v", text[:cut], got.Extraction)
		}
		first := extraction.Extraction{Entities: want.Entities[:len(entities)], Relationships: want.Relationships[:len(relationships)]}
		if diff := cmp.Diff(first, got.Extraction, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: %s", text[:cut], diff)
		}
		complete := len(entities) == len(want.Entities) && len(relationships) == len(want.Relationships)
		if !got.Truncated && !complete {
			t.Fatalf("%s lost something and does not say so", text[:cut])
		}
	})
}

// TestParse_cutEverywhere cuts one answer at every place and checks that the first entities and
// relationships are returned, more of them the later the cut.
func TestParse_cutEverywhere(t *testing.T) {
	whole, err := Parse(validAnswer)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for cut := range validAnswer {
		got, err := Parse(validAnswer[:cut])
		if err != nil {
			continue
		}
		n := len(got.Extraction.Entities) + len(got.Extraction.Relationships)
		if !got.Truncated || n < last || !strings.HasPrefix(summary(whole.Extraction), summary(got.Extraction)) {
			t.Fatalf("%s gave %q", validAnswer[:cut], summary(got.Extraction))
		}
		last = n
	}
	if last != 3 {
		t.Errorf("only %d of 3 came back", last)
	}
}

// FuzzParse checks that Parse does not panic, that its result can be marshalled and parsed to
// the same, and that an error has a message.
func FuzzParse(f *testing.F) {
	f.Add(validAnswer)
	f.Add("```json\n{'entities':[{'name':'O'Neil',},] // x\n")
	f.Add(`[{"source":"A","target":None}] {entities:[{Name:007}]}`)
	f.Add(`{"result":{"entities":[{"name":"\u00`)
	f.Add("<think>{</think>[[{\"entities\":{}}")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 20_000 || err.Error() == "" {
				t.Fatalf("a message of %d bytes", len(err.Error()))
			}
			return
		}
		raw, err := got.Extraction.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := extraction.DecodeExtraction(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got.Extraction.Entities == nil && got.Extraction.Relationships == nil {
			return // without lists, the text is not an answer
		}
		reparsed, err := Parse(string(raw))
		if err != nil || reparsed.Truncated {
			t.Fatalf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, reparsed.Extraction); diff != "" {
			t.Fatalf("%s: %s", raw, diff)
		}
	})
}

// FuzzValidate checks that nothing panics on any extraction and document, that normalising again
// changes nothing, that the number of problems is bounded, and that the schema is JSON.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(validAnswer), []byte(`{"text":"x","object_schemas":{"Person":{},"person":{}},"relationship_schemas":{"knows":{"source_types":["P"]}},"allowed_types":["p"]}`))
	f.Fuzz(func(t *testing.T, answer, input []byte) {
		e, _, err := extraction.DecodeExtraction(answer)
		if err != nil {
			return
		}
		doc, _, err := extraction.DecodeDocument(input)
		if err != nil {
			return
		}
		normalised := Normalise(e, doc)
		if diff := cmp.Diff(normalised, Normalise(normalised, doc)); diff != "" {
			t.Fatal(diff)
		}
		if problems := Validate(e, doc, Both); len(problems) > maxProblems+1 {
			t.Fatalf("%d problems", len(problems))
		}
		if !json.Valid(Schema(doc, Both)) {
			t.Fatalf("%s", Schema(doc, Both))
		}
	})
}
