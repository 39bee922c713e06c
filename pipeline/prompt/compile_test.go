package prompt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
)

// one compiles a text prompt.
func one(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	messages, err := Compile(ParseText(text), Vars{Texts: values})
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) != 1 || messages[0].Role != User {
		t.Fatalf("got %v", messages)
	}
	return messages[0].Content
}

func TestCompile_braces(t *testing.T) {
	values := map[string]string{"a": "A", "x.y": "XY", "_b1": "B", "é": "E", "s.0": "S", "p.0.q": "Q", "loop": "{{a}}", "tag": "@@@langfusePrompt:name=a|version=1@@@ {{ a }}"}
	tests := map[string]struct{ text, want string }{
		"plain":                      {"no braces", "no braces"},
		"empty":                      {"", ""},
		"tight":                      {"{{a}}", "A"},
		"spaces":                     {"<{{  a\t}}>", "<A>"},
		"a line break inside":        {"{{\n a \n}}", "A"},
		"twice, side by side":        {"{{a}}{{a}}", "AA"},
		"dots, digits, underscores":  {"{{x.y}} {{_b1}} {{s.0}} {{p.0.q}}", "XY B S Q"},
		"letters of any script":      {"{{é}}", "E"},
		"JSON in double braces":      {`{{ "a": 1 }}`, `{{ "a": 1 }}`},
		"JSON that closes twice":     {`{"a": {"b": 1}} {{a}}`, `{"a": {"b": 1}} A`},
		"single braces":              {"{a} } { {a}}", "{a} } { {a}}"},
		"no end":                     {"{{a", "{{a"},
		"no end, then an identifier": {"{{ {{a}}", "{{ A"},
		"half an end":                {"{{a} {{a}}", "{{a} A"},
		"empty braces":               {"{{}} {{ }}", "{{}} {{ }}"},
		"three braces":               {"{{{a}}}", "{A}"},
		"a JSON value in braces":     {`{"v":{{a}}}`, `{"v":A}`},
		"two words":                  {"{{a b}}", "{{a b}}"},
		"begins with a digit":        {"{{1a}}", "{{1a}}"},
		"begins with a dot":          {"{{.a}}", "{{.a}}"},
		"ends with a dot":            {"{{a.}}", "{{a.}}"},
		"two dots":                   {"{{a..b}}", "{{a..b}}"},
		"mustache sections":          {"{{#a}}{{/a}}{{!a}}{{&a}}", "{{#a}}{{/a}}{{!a}}{{&a}}"},
		"the value is not scanned":   {"{{loop}}", "{{a}}"},
		"nor where parts meet":       {"{{{loop}}}", "{{{a}}}"},
		"tags in values are text":    {"{{tag}}", "@@@langfusePrompt:name=a|version=1@@@ {{ a }}"},
		"tags in the template stay":  {"@@@langfusePrompt:name=a|version=1@@@", "@@@langfusePrompt:name=a|version=1@@@"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := one(t, tt.text, values); got != tt.want {
				t.Errorf("%q became %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestCompile_chat(t *testing.T) {
	template, err := ParseChat([]byte(`[{"role":"system","content":"S {{a}}"},{"type":"placeholder","name":"examples"},
		{"type":"chatmessage","role":"user","content":"{{document_text}}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(template.Messages)
	vars := Vars{
		Texts:    map[string]string{"a": "A", "document_text": "{{a}}"},
		Messages: map[string][]Message{"examples": {{Role: User, Content: "{{a}}"}, {Role: Assistant, Content: "{{nothing}}"}}},
	}
	got, err := Compile(template, vars)
	want := []Message{{Role: System, Content: "S A"}, {Role: User, Content: "{{a}}"}, {Role: Assistant, Content: "{{nothing}}"}, {Role: User, Content: "{{a}}"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(before, template.Messages); diff != "" {
		t.Error("the template changed:", diff)
	}
	vars.Messages["examples"] = nil
	if got, err = Compile(template, vars); err != nil || len(got) != 2 {
		t.Errorf("a placeholder filled with no messages: %v %v", got, err)
	}
	delete(vars.Messages, "examples")
	if _, err = Compile(template, vars); err == nil || !strings.Contains(err.Error(), `"examples" is filled by nothing`) {
		t.Errorf("an unfilled placeholder: %v", err)
	}
}

func TestCompile_unfilled(t *testing.T) {
	vars, err := FromDocument(extraction.Document{Text: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile(ParseText("{{document_txt}} {{zzz}} {{document_text}}"), vars)
	var problem *Error
	if !errors.As(err, &problem) || problem.ExitCode() != 64 {
		t.Fatalf("got %v", err)
	}
	want := []string{
		`the identifier {{document_txt}} is filled by nothing (did you mean "document_text"?): known are allowed_types, available_tags, document_text, document_type, object_schemas, relationship_schemas`,
		`the identifier {{zzz}} is filled by nothing: known are allowed_types, available_tags, document_text, document_type, object_schemas, relationship_schemas`,
	}
	if diff := cmp.Diff(want, problem.Problems); diff != "" {
		t.Error(diff)
	}
}

func TestCompile_tooLong(t *testing.T) {
	// 100 copies of 1 MiB are more than 64 MiB, 60 are less.
	vars := Vars{Texts: map[string]string{"document_text": strings.Repeat("x", 1<<20)}}
	if _, err := Compile(ParseText(strings.Repeat("{{document_text}}", 100)), vars); err == nil || !strings.Contains(err.Error(), "repeat the document") {
		t.Errorf("got %v", err)
	}
	if got := one(t, strings.Repeat("{{document_text}}", 60), vars.Texts); len(got) != 60<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	pair := Template{Messages: slices.Repeat([]Message{{Role: User, Content: strings.Repeat("{{document_text}}", 40)}}, 2)}
	if _, err := Compile(pair, vars); err == nil {
		t.Error("the bound holds for one message, not for all together")
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, text := range map[string]string{
		"identifiers": strings.Repeat("{{a}} ", 170_000),
		"open braces": strings.Repeat("{", 1<<20),
		"openings":    strings.Repeat("{{ a ", 1<<20/5),
		"long name":   "{{" + strings.Repeat("a", 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			template := ParseText(text)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Compile(template, Vars{Texts: map[string]string{"a": "A"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
