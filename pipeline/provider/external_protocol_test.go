package provider

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

const root = "../.."

// pageBlocks returns the code blocks in that language of docs/pipeline-protocol.md.
func pageBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/pipeline-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// TestProtocolPage_request checks that the request on the page is exactly what is sent.
func TestProtocolPage_request(t *testing.T) {
	documented := []byte(pageBlocks(t, "json")[0])
	doc, warnings, err := extraction.DecodeDocument(documented)
	if err != nil {
		t.Fatal(err, warnings)
	}
	var extra struct {
		Model      string              `json:"model"`
		Parameters pipeline.Parameters `json:"parameters"`
	}
	if err := json.Unmarshal(documented, &extra); err != nil {
		t.Fatal(err)
	}
	sent, err := encodeRequest("1", doc, ExternalConfig{Model: extra.Model, Parameters: extra.Parameters})
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(documented, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sent, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProtocolPage_results(t *testing.T) {
	blocks := pageBlocks(t, "json")
	if len(blocks) != 3 {
		t.Fatalf("the page has %d JSON blocks", len(blocks))
	}
	a := parseAnswer(blocks[1])
	if a.err != nil || len(a.extraction.Entities) != 2 || len(a.calls) != 1 || *a.calls[0].CostUSD != 0.0012 || a.calls[0].Usage.Output != 64 {
		t.Errorf("%v %+v %+v", a.err, a.extraction, a.calls)
	}
	want := []extraction.Relationship{{Source: "Ann Lee", Target: "Acme", Type: "founded"}}
	if diff := cmp.Diff(want, a.extraction.Relationships); diff != "" || len(a.warnings) != 1 {
		t.Errorf("%s\nwarnings %q", diff, a.warnings)
	}
	if f := outcome.FailureOf(parseAnswer(blocks[2]).err, outcome.Internal); f.Class != outcome.RateLimited || f.Message != "429 from the model" {
		t.Errorf("got %+v", f)
	}
}

// openExample returns an extractor over docs/examples/extract.py, and skips the test without
// Python.
func openExample(t *testing.T) *External {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed here; the example needs it: ", err)
	}
	script, err := filepath.Abs(filepath.Join(root, "docs/examples/extract.py"))
	if err != nil {
		t.Fatal(err)
	}
	return openChild(t, "", func(c *ExternalConfig) { c.Target, c.Concurrency = "'"+python+"' '"+script+"'", 2 })
}

func TestExample_isOnThePageAndShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/examples/extract.py"))
	if err != nil {
		t.Fatal(err)
	}
	if blocks := pageBlocks(t, "python"); len(blocks) != 1 || blocks[0] != string(text) {
		t.Error("the page does not show docs/examples/extract.py as it is")
	}
	if n := strings.Count(string(text), "\n"); n > 20 {
		t.Errorf("the example has %d lines", n)
	}
}

func TestExample_extracts(t *testing.T) {
	e := openExample(t)
	doc := extraction.Document{
		Text:    "Ann Lee met Bob\nin “Zürich” – 日本.",
		Objects: map[string]extraction.ObjectSchema{"Person": {Name: "Person"}},
	}
	found, calls, err := e.Extract(t.Context(), doc)
	want := []extraction.Entity{{Name: "Ann Lee", Type: "Person"}, {Name: "Bob", Type: "Person"}}
	if diff := cmp.Diff(want, found.Entities); err != nil || diff != "" || len(calls) != 1 {
		t.Errorf("%v\n%s\n%+v", err, diff, calls)
	}
}

// TestExample_documents runs the example over the 60 documents of developmentData.
func TestExample_documents(t *testing.T) {
	docs, e, entities := developmentDocuments(t), openExample(t), 0
	for _, doc := range docs {
		found, _, err := e.Extract(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		entities += len(found.Entities)
	}
	if len(docs) != 60 || entities < 600 {
		t.Errorf("%d documents with %d entities", len(docs), entities)
	}
}
