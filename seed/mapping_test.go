package seed

import (
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
)

func TestPath_Find(t *testing.T) {
	const trace = `{"input":{"a.b":1,"text":"{\"inner\":{\"x\":\"y\"}}","messages":[{"role":"system","content":"s"},{"role":"user","content":"u1"},{"role":"user","content":"u2"}]},
		"output":{"pages":[{"entities":[1,2]},{"entities":[3]},{"other":0}],"none":null,"plain":"not json {"}}`
	value, err := dataset.Decode([]byte(trace))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{ // "" if the path selects nothing
		`input["a.b"]`:                       `1`,
		`$.input['a.b']`:                     `1`,
		`input.text.inner.x`:                 `"y"`,
		`input.messages[1].content`:          `"u1"`,
		`input.messages[-1].content`:         `"u2"`,
		`input.messages[?role=user].content`: `"u1"`,
		`input.messages[?role=="user"]`:      `{"content":"u1","role":"user"}`,
		`input.messages[*].role`:             `["system","user","user"]`,
		`output.pages[*].entities`:           `[1,2,3]`, // inner lists are joined
		`output.pages[*]`:                    `[{"entities":[1,2]},{"entities":[3]},{"other":0}]`,
		`output.none`:                        "",
		`output.nothing[*]`:                  "",
		`input.messages[3]`:                  "",
		`input.messages[-4]`:                 "",
		`input.messages[?role=tool].content`: "",
		`output.plain.x`:                     "",
		`input.messages.role`:                "",
	}
	for text, want := range tests {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		found, ok := p.Find(value)
		got := ""
		if ok {
			got = string(dataset.CanonicalValue(found))
		}
		if got != want {
			t.Errorf("%s leads to %q, want %q", text, got, want)
		}
	}
}

func TestParsePath_problems(t *testing.T) {
	for text, rest := range map[string]string{
		"": "", "$": "", "a..b": "..b", "a.": ".", "a[": "[", "a[x]": "[x]", `a["b]`: `["b]`, "a[?b]": "[?b]", "a[?=b]": "[?=b]",
	} {
		if _, err := ParsePath(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot be read from %q on", rest)) {
			t.Errorf("%q: %v, want %q", text, err, rest)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	value, err := dataset.Decode([]byte(`{"a":[{"b":"[1,2]"},{"b":{"c":null}}],"":{"x":1}}`))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"a[0].b[1]", `$["a"][*].b`, "a[?b=1][-1]", "a[*][*]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil {
			t.Fatalf("%q is read once and not twice: %v", text, err)
		}
		one, ok := p.Find(value)
		two, okAgain := again.Find(value)
		if ok != okAgain || ok && string(dataset.CanonicalValue(one)) != string(dataset.CanonicalValue(two)) {
			t.Fatalf("%q leads to two places", text)
		}
	})
}

func TestParseMapping(t *testing.T) {
	m, err := ParseMapping([]byte(`
observation: {name: llm, type: generation}
input:
  document_text: [input.document.text, "input[?role=user].content"]
  object_schemas: trace.metadata.schemas
constant: {allowed_types: [Person]}
expected: output.result
metadata: {category: trace.metadata.category}
evidence: {tags: [checked], scores: ["quality>=0.9", approved]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if m.Observation != (ObservationFilter{"llm", "GENERATION"}) || len(m.Input["document_text"]) != 2 || len(m.Expected) != 1 ||
		len(m.Evidence.Scores) != 2 || m.Evidence.Scores[1].Name != "approved" || m.Evidence.Scores[1].Operator != ">=" ||
		m.Evidence.Scores[1].Value != "1" {
		t.Errorf("%+v", m)
	}
	if parts := m.parts(); !parts.Metadata || strings.Join(parts.ExpandMetadata, " ") != "category schemas" {
		t.Errorf("%+v: both keys must be read whole", parts)
	}
	for text, want := range map[string]string{
		"inputs: {}":                        "inputs",
		"expected: trace.":                  "cannot be read from",
		"expected: outcome.x":               "begins with none of",
		"metadata: {evidence: input.x}":     "taken",
		"metadata: {Evidence.id: name}":     "taken",
		"metadata: {source_trace_id: name}": "taken",
		"evidence: {scores: ['a>=b']}":      "compares numbers",
		"evidence: {scores: ['>=1']}":       "expected such as",
		"input: {document_text: [[a]]}":     "where a text is expected",
		"a: b\n---\nc: d":                   "unknown key",
		"observation: {}\n---\nx: 1":        "second",
	} {
		_, err := ParseMapping([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%q: %v, want %q and exit code 64", text, err, want)
		}
	}
}

// TestDecodeYAML_words checks that errors about files use the words of the files, not those of Go.
func TestDecodeYAML_words(t *testing.T) {
	mapping := func(text string) error { _, err := ParseMapping([]byte(text)); return err }
	patterns := func(text string) error { _, err := ParseRedaction([]byte(text)); return err }
	for text, tt := range map[string]struct {
		parse func(string) error
		want  string
	}{
		"patterns: 5":                {patterns, "where a list is expected"},
		"\nfields: {a: b}":           {patterns, "where a list is expected"},
		"a: b":                       {patterns, `line 1: unknown key "a"`},
		"patterns: [x]":              {patterns, "where keys with values are expected"},
		"- a":                        {patterns, "where keys with values are expected"},
		"patterns: [{name: [1]}]":    {patterns, "where a text is expected"},
		"observation: {nam: x}":      {mapping, `line 1: unknown key "nam"; did you mean "name"?`},
		"expected: {a: b}":           {mapping, "where a list is expected"},
		"input: {a: [[b]]}":          {mapping, "where a text is expected"},
		"evidence: {tags: x}":        {mapping, "where a list is expected"},
		"evidence: {scores: {a: 1}}": {mapping, "where a list is expected"},
		"a: 1\nb: 2\nevidence: 3\n":  {mapping, "where keys with values are expected"},
	} {
		err := tt.parse(text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", text, err, tt.want)
			continue
		}
		for _, word := range []string{"struct", "[]", "map[", "seed."} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v says %q", text, err, word)
			}
		}
	}
}
