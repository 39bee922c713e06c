package prompt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseChat_problems(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"not a list":               {`{"role":"user"}`, "a list of messages"},
		"not JSON":                 {`[`, "a list of messages"},
		"a text":                   {`"hello"`, "a list of messages"},
		"a message without text":   {`[{"role":"user"}]`, "message 1 has no content"},
		"a placeholder of no name": {`[{"role":"user","content":"x"},{"type":"placeholder"}]`, "message 2 is a placeholder without a name"},
		"content of another kind":  {`[{"role":"user","content":[1]}]`, "a list of messages"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseChat([]byte(tt.raw))
			var problem *Error
			if !errors.As(err, &problem) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTemplate_Check(t *testing.T) {
	title := Var{Name: "title", Path: "input.section.title"}
	text := Var{Name: "text", Path: "input.document_text"}
	chat := func(messages ...Message) Template { return Template{Messages: messages} }
	tests := map[string]struct {
		template     Template
		vars         []Var
		placeholders []string
		want         []string // one substring per problem
	}{
		"the document itself":      {ParseText("{{document_text}}"), nil, nil, nil},
		"all that documents have":  {ParseText("{{document_text}} {{document_type}} {{object_schemas}} {{relationship_schemas}} {{allowed_types}} {{available_tags}}"), nil, nil, nil},
		"a variable of the text":   {ParseText("{{text}}"), []Var{text}, nil, nil},
		"text under its other key": {ParseText("{{t}}"), []Var{{"t", "input.text"}}, nil, nil},
		"a variable":               {ParseText("{{title}} {{document_text}}"), []Var{title}, nil, nil},
		"an unused variable":       {ParseText("{{document_text}}"), []Var{title}, nil, nil},
		"never shows the document": {ParseText("{{title}} {{object_schemas}}"), []Var{title}, nil, []string{"never shows the document"}},
		"shows it only by halves":  {ParseText("{{ document_text }"), nil, nil, []string{"never shows the document"}},
		"an unused text variable":  {ParseText("hello"), []Var{text}, nil, []string{"never shows the document"}},
		"nothing fills it":         {ParseText("{{document_text}} {{titel}}"), []Var{title}, nil, []string{`{{titel}} is filled by nothing (did you mean "title"?): known are document_text, document_type, object_schemas, relationship_schemas, allowed_types, available_tags, title`}},
		"no messages":              {chat(), nil, nil, []string{"no messages", "never shows"}},
		"a strange role":           {chat(Message{Role: "tool", Content: "{{document_text}}"}), nil, nil, []string{`message 1 has the role "tool"`}},
		"not UTF-8":                {ParseText("{{document_text}}\xff"), nil, nil, []string{"not valid UTF-8"}},
		"a filled placeholder":     {chat(Message{Placeholder: "history"}, Message{Role: User, Content: "{{document_text}}"}), nil, []string{"history"}, nil},
		"an unfilled placeholder":  {chat(Message{Placeholder: "history"}, Message{Role: User, Content: "{{document_text}}"}), nil, nil, []string{`"history" is filled by nothing: there are none`}},
		"too long":                 {ParseText("{{document_text}}" + strings.Repeat("x", MaxTemplate)), nil, nil, []string{"at most 4194304 are read"}},
		"too many":                 {chat(slices.Repeat([]Message{{Role: User, Content: "{{document_text}}"}}, MaxMessages+1)...), nil, nil, []string{"1001 messages"}},
		"a variable twice":         {ParseText("{{document_text}}"), []Var{title, title}, nil, []string{`"title" is given twice`}},
		"a variable of no path":    {ParseText("{{document_text}}"), []Var{{"x", "title"}}, nil, []string{"must begin with input or metadata"}},
		"a built-in name":          {ParseText("{{document_text}}"), []Var{{"document_text", "input.x"}}, nil, []string{"fills this name itself"}},
		"all problems at once":     {chat(Message{Role: "x", Content: "{{a}}"}), nil, nil, []string{"role", "{{a}}", "never shows"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.template.Check(tt.vars, tt.placeholders)
			var problem *Error
			if errors.As(err, &problem) != (len(tt.want) > 0) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if problem == nil {
				return
			}
			if len(problem.Problems) != len(tt.want) {
				t.Fatalf("got %q, want %q", problem.Problems, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(problem.Problems[i], want) {
					t.Errorf("got %q, want %q", problem.Problems[i], want)
				}
			}
		})
	}
}

func TestTemplate_SHA256(t *testing.T) {
	base := ParseText("a {{document_text}}")
	// printf '["","user","a {{document_text}}"]\n' | sha256sum
	const want = "7229fd5f02cc41a9edf6b6eea9efc9d89773eeb6e89b58b6ab377b69a90c5087"
	if got := base.SHA256(); got != want {
		t.Errorf("got %s", got)
	}
	same := base
	same.Name, same.Version, same.Label, same.Config = "x", 3, "staging", []byte(`{}`)
	if same.SHA256() != base.SHA256() {
		t.Error("name, version, label or config count")
	}
	others := []Template{
		ParseText("b {{document_text}}"),
		{Messages: []Message{{Role: System, Content: "a {{document_text}}"}}},
		{Messages: []Message{{Placeholder: "a {{document_text}}"}}},
		{Messages: []Message{{Role: User, Content: "a "}, {Role: User, Content: "{{document_text}}"}}},
		{},
	}
	seen := map[string]bool{base.SHA256(): true}
	for _, other := range others {
		if seen[other.SHA256()] {
			t.Errorf("%v has the hash of another template", other.Messages)
		}
		seen[other.SHA256()] = true
	}
}

func TestTemplate_names(t *testing.T) {
	template := Template{Messages: []Message{{Role: User, Content: "{{b}} {{a}} {{b}}"}, {Placeholder: "z"}, {Placeholder: "y"}, {Placeholder: "z"}}}
	if diff := cmp.Diff([]string{"a", "b"}, template.Identifiers()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"y", "z"}, template.Placeholders()); diff != "" {
		t.Error(diff)
	}
}

func TestDefault(t *testing.T) {
	template := Default()
	if err := template.Check(nil, nil); err != nil {
		t.Fatal(err)
	}
	if template.Name != DefaultName || len(template.Messages) != 2 {
		t.Errorf("got %+v", template)
	}
	for _, word := range []string{`"source_name"`, `"target_name"`, `"relationship_type"`, `"entities"`, `"relationships"`} {
		if !strings.Contains(template.Messages[0].Content, word) {
			t.Errorf("the instructions never say %s", word)
		}
	}
	want := []string{AllowedTypes, DocumentText, ObjectSchemas, RelationshipSchemas}
	if diff := cmp.Diff(want, template.Identifiers()); diff != "" {
		t.Error(diff)
	}
}
