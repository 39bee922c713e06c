package prompt

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

func TestFromDocument(t *testing.T) {
	doc, _, err := extraction.DecodeDocument([]byte(`{"document_text":"Åsa <b>{{object_schemas}}</b>","document_type":"note",
		"object_schemas":{"Ö":{"description":"a & b","properties":{"z":1.50,"a":["\u00e9"]}},"Ann":{}},
		"relationship_schemas":{"knows":{"target_types":["Ö"],"source_types":["Ann"]}},"available_tags":["b","a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	vars, err := FromDocument(doc)
	want := map[string]string{
		"document_text":        "Åsa <b>{{object_schemas}}</b>",
		"document_type":        "note",
		"object_schemas":       `{"Ann":{"name":"Ann"},"Ö":{"description":"a & b","name":"Ö","properties":{"a":["é"],"z":1.50}}}`,
		"relationship_schemas": `{"knows":{"name":"knows","source_types":["Ann"],"target_types":["Ö"]}}`,
		"allowed_types":        `["Ann","Ö"]`, // none given: those of the schemas
		"available_tags":       `["b","a"]`,
	}
	if diff := cmp.Diff(want, vars.Texts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if len(want) != len(Known()) {
		t.Error("Known does not list what a document fills")
	}
}

func TestFromDocument_bare(t *testing.T) {
	vars, err := FromDocument(extraction.Document{Text: "x", AllowedTypes: []string{"B", "A"}})
	want := map[string]string{"document_text": "x", "document_type": "", "object_schemas": "{}", "relationship_schemas": "{}", "allowed_types": `["B","A"]`, "available_tags": "[]"}
	if diff := cmp.Diff(want, vars.Texts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	broken := extraction.Document{Text: "x", Objects: map[string]extraction.ObjectSchema{"A": {Properties: []byte(`{`)}}}
	if _, err := FromDocument(broken); err == nil || !strings.Contains(err.Error(), "object_schemas") {
		t.Errorf("broken properties: %v", err)
	}
}

func TestVars_Add(t *testing.T) {
	item := Item{
		Input:    []byte(`{"document_text":"whole","section":{"title":"T","n":2.50,"on":true,"null":null},"list":[{"a":"first"},["b"]]}`),
		Metadata: []byte(`{"lang":"sv","nested":{"b":1,"a":"<é>"}}`),
	}
	tests := map[string]struct{ path, want, problem string }{
		"a string":           {"input.section.title", "T", ""},
		"metadata":           {"metadata.lang", "sv", ""},
		"a number":           {"input.section.n", "2.50", ""},
		"a boolean":          {"input.section.on", "true", ""},
		"an object":          {"metadata.nested", `{"a":"<é>","b":1}`, ""},
		"a place of a list":  {"input.list.0.a", "first", ""},
		"a list in a list":   {"input.list.1", `["b"]`, ""},
		"the text":           {"input.document_text", "part", ""}, // the chunk, not the item's
		"no such key":        {"input.section.titel", "", `the variable "v" takes input.section.titel, and the item has no "titel" in input.section, which has n, null, on, title; did you mean "title"?`},
		"no such place":      {"input.list.2", "", `input.list is a list of 2, which has no place "2"`},
		"a name in a list":   {"input.list.a", "", `has no place "a"`},
		"through a string":   {"metadata.lang.x", "", "neither an object nor a list at metadata.lang"},
		"null":               {"input.section.null", "", "no value at input.section.null"},
		"no such long thing": {"metadata." + strings.Repeat("x", 5000), "", "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			vars := Vars{Texts: map[string]string{"document_text": "part"}}
			err := vars.Add(item, Var{Name: "v", Path: tt.path})
			if tt.problem == "" {
				if err != nil || vars.Texts["v"] != tt.want {
					t.Fatalf("got %q, %v", vars.Texts["v"], err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.problem) || len(err.Error()) > 1000 {
				t.Fatalf("got %v, want %q", err, tt.problem)
			}
			if failure := outcome.FailureOf(err, outcome.Internal); failure.Class != outcome.Item {
				t.Errorf("class %q", failure.Class)
			}
		})
	}
	var empty Vars
	if err := empty.Add(Item{}, Var{Name: "v", Path: "metadata.x"}); err == nil {
		t.Error("an item without metadata has no metadata.x")
	}
	if err := empty.Add(item, Var{Name: "v", Path: "metadata.lang"}); err != nil || empty.Texts["v"] != "sv" {
		t.Errorf("zero Vars: %v", err)
	}
}

func TestParseVar(t *testing.T) {
	for spec, want := range map[string]Var{
		"title=input.section.title": {"title", "input.section.title"},
		" a.b = metadata.x ":        {"a.b", "metadata.x"},
		"all=input":                 {"all", "input"},
	} {
		if got, err := ParseVar(spec); err != nil || got != want {
			t.Errorf("%q: %v %v", spec, got, err)
		}
	}
	for spec, want := range map[string]string{
		"":                      "expected name=path",
		"title":                 "expected name=path",
		"=input.x":              "a name holds",
		"1a=input.x":            "a name holds",
		"a b=input.x":           "a name holds",
		"a=":                    "must begin with",
		"a=output.x":            "must begin with",
		"a=input..x":            "must begin with",
		"a=expected.entities":   "must begin with",
		"document_text=input.x": "choose another",
	} {
		_, err := ParseVar(spec)
		var problem *Error
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", spec, err, want)
		}
	}
}
