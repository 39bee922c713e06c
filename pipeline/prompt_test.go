package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
)

func TestParseChat_problems(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"not a list":               {`{"role":"user"}`, "a list of messages with role and content: unexpected object"},
		"not JSON":                 {`[`, "a list of messages"},
		"a text":                   {`"hello"`, "a list of messages"},
		"a message without text":   {`[{"role":"user"}]`, "message 1 has no content"},
		"a placeholder of no name": {`[{"role":"user","content":"x"},{"type":"placeholder"}]`, "message 2 is a placeholder without a name"},
		"content of another kind":  {`[{"role":"user","content":[1]}]`, "a list of messages with role and content: unexpected array content"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseChat([]byte(tt.raw))
			if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTemplate_Check(t *testing.T) {
	title := Var{Name: "title", Path: "input.section.title"}
	text := Var{Name: "text", Path: "input.document_text"}
	chat := func(messages ...TemplateMessage) Template { return Template{Messages: messages} }
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
		"nothing fills it":         {ParseText("{{document_text}} {{titel}}"), []Var{title}, nil, []string{`{{titel}} is filled by nothing: known are document_text, document_type, object_schemas, relationship_schemas, allowed_types, available_tags, title (did you mean "title"?)`}},
		"no messages":              {chat(), nil, nil, []string{"no messages", "never shows"}},
		"a strange role":           {chat(TemplateMessage{Role: "tool", Content: "{{document_text}}"}), nil, nil, []string{`message 1 has the role "tool"`}},
		"not UTF-8":                {ParseText("{{document_text}}\xff"), nil, nil, []string{"not valid UTF-8"}},
		"a filled placeholder":     {chat(TemplateMessage{Placeholder: "history"}, TemplateMessage{Role: RoleUser, Content: "{{document_text}}"}), nil, []string{"history"}, nil},
		"an unfilled placeholder":  {chat(TemplateMessage{Placeholder: "history"}, TemplateMessage{Role: RoleUser, Content: "{{document_text}}"}), nil, nil, []string{`"history" is filled by nothing: known are none`}},
		"a variable twice":         {ParseText("{{document_text}}"), []Var{title, title}, nil, []string{`"title" is given twice`}},
		"a variable of no path":    {ParseText("{{document_text}}"), []Var{{"x", "title"}}, nil, []string{"must begin with input or metadata"}},
		"a built-in name":          {ParseText("{{document_text}}"), []Var{{"document_text", "input.x"}}, nil, []string{"sets this name"}},
		"all problems at once":     {chat(TemplateMessage{Role: "x", Content: "{{a}}"}), nil, nil, []string{"role", "{{a}}", "never shows"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.template.Check(tt.vars, tt.placeholders)
			if (err != nil) != (len(tt.want) > 0) || err != nil && cli.ExitCode(err) != 64 {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err == nil {
				return
			}
			problems := strings.Split(err.Error(), "; ")
			if len(problems) != len(tt.want) {
				t.Fatalf("got %q, want %q", problems, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("got %q, want %q", problems[i], want)
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
		{Messages: []TemplateMessage{{Role: RoleSystem, Content: "a {{document_text}}"}}},
		{Messages: []TemplateMessage{{Placeholder: "a {{document_text}}"}}},
		{Messages: []TemplateMessage{{Role: RoleUser, Content: "a "}, {Role: RoleUser, Content: "{{document_text}}"}}},
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
	template := Template{Messages: []TemplateMessage{{Role: RoleUser, Content: "{{b}} {{a}} {{b}}"}, {Placeholder: "z"}, {Placeholder: "y"}, {Placeholder: "z"}}}
	if diff := cmp.Diff([]string{"a", "b"}, template.Identifiers()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"y", "z"}, template.Placeholders()); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultPrompt(t *testing.T) {
	template := DefaultPrompt()
	if err := template.Check(nil, nil); err != nil {
		t.Fatal(err)
	}
	if template.Name != DefaultPromptName || len(template.Messages) != 2 {
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

// compileText compiles a text prompt and returns the content of its message.
func compileText(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	messages, err := Compile(ParseText(text), Vars{Texts: values})
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) != 1 || messages[0].Role != RoleUser {
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
			if got := compileText(t, tt.text, values); got != tt.want {
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
		Messages: map[string][]Message{"examples": {{Role: RoleUser, Content: "{{a}}"}, {Role: RoleAssistant, Content: "{{nothing}}"}}},
	}
	got, err := Compile(template, vars)
	want := []Message{{Role: RoleSystem, Content: "S A"}, {Role: RoleUser, Content: "{{a}}"}, {Role: RoleAssistant, Content: "{{nothing}}"}, {Role: RoleUser, Content: "{{a}}"}}
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
	vars, err := DocumentVars(extraction.Document{Text: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile(ParseText("{{document_txt}} {{zzz}} {{document_text}}"), vars)
	if cli.ExitCode(err) != 64 {
		t.Fatalf("got %v", err)
	}
	want := []string{
		`the identifier {{document_txt}} is filled by nothing: known are allowed_types, available_tags, document_text, document_type, object_schemas, relationship_schemas (did you mean "document_text"?)`,
		`the identifier {{zzz}} is filled by nothing: known are allowed_types, available_tags, document_text, document_type, object_schemas, relationship_schemas`,
	}
	if diff := cmp.Diff("the prompt cannot be used: "+strings.Join(want, "; "), err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestCompile_tooLong(t *testing.T) {
	// 100 copies of 1 MiB are more than 64 MiB, 60 are less.
	vars := Vars{Texts: map[string]string{"document_text": strings.Repeat("x", 1<<20)}}
	if _, err := Compile(ParseText(strings.Repeat("{{document_text}}", 100)), vars); err == nil || !strings.Contains(err.Error(), "repeat the document") {
		t.Errorf("got %v", err)
	}
	if got := compileText(t, strings.Repeat("{{document_text}}", 60), vars.Texts); len(got) != 60<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	pair := Template{Messages: slices.Repeat([]TemplateMessage{{Role: RoleUser, Content: strings.Repeat("{{document_text}}", 40)}}, 2)}
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

// drawSegment draws a piece of a template, with what it compiles to. Neighbouring pieces never form
// an identifier.
func drawSegment(t *rapid.T, value string) (written, compiled string) {
	if rapid.Bool().Draw(t, "identifier") {
		space := strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "spaces"))
		return "{{" + space + "v" + space + "}}", value
	}
	text := rapid.SampledFrom([]string{"{", "}", "}}", "{\"a\": {\"b\": 1}}", "{{ \"a\" }}", "\n", "(é)", "two-words", "{{}}", "{{1}}", "@@@"}).Draw(t, "text")
	return text, text
}

// TestCompile_replacesExactly checks that identifiers are replaced by exactly the value, and
// nothing else is, whatever surrounds them and whatever the value contains.
func TestCompile_replacesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"{{v}}", "{{", "}}", "{{ other }}", "$1", "\\"})).Draw(t, "value")
		var written, want strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "segments") {
			w, c := drawSegment(t, value)
			written.WriteString(w)
			want.WriteString(c)
		}
		got, err := Compile(ParseText(written.String()), Vars{Texts: map[string]string{"v": value}})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Content != want.String() {
			t.Fatalf("%q with %q became %q, want %q", written.String(), value, got[0].Content, want.String())
		}
	})
}

// FuzzCompile checks that no template and no value panics, that text without identifiers stays
// unchanged, and that inserted values are not scanned: a value full of identifiers gives the same
// as a plain mark that is replaced afterwards.
func FuzzCompile(f *testing.F) {
	f.Add("Find {{document_text}} in {{ v }}", "{{v}}")
	f.Add("{{{v}}} {{ \"a\": 1 }} {{", "}}{{v}}")
	f.Add("{{v.0.x}}", "{{")
	f.Fuzz(func(t *testing.T, text, value string) {
		template := ParseText(text)
		if len(text)*len(value) > 1<<20 {
			return
		}
		const mark = "\x00mark\x00"
		plain, hostile := map[string]string{}, map[string]string{}
		for _, name := range template.Identifiers() {
			plain[name], hostile[name] = mark, value
		}
		marked, err := Compile(template, Vars{Texts: plain})
		if err != nil {
			t.Fatal(err)
		}
		filled, err := Compile(template, Vars{Texts: hostile})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, mark) {
			return
		}
		if want := strings.ReplaceAll(marked[0].Content, mark, value); filled[0].Content != want {
			t.Fatalf("%q with %q became %q, want %q", text, value, filled[0].Content, want)
		}
		if len(plain) == 0 && filled[0].Content != text {
			t.Fatalf("%q became %q and has no identifiers", text, filled[0].Content)
		}
		_ = template.Check(nil, nil)
	})
}

// FuzzParseChat checks that no chat prompt and no variable panics.
func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"{{document_text}}"},{"type":"placeholder","name":"x"}]`), "a=input.b.0", []byte(`{"b":[1]}`))
	f.Fuzz(func(t *testing.T, raw []byte, spec string, input []byte) {
		if template, err := ParseChat(raw); err == nil {
			_ = template.Check(nil, nil)
		}
		if v, err := ParseVar(spec); err == nil {
			_, _ = DocumentVars(extraction.Document{Input: input}, v)
		}
	})
}

func TestDocumentVars(t *testing.T) {
	doc, _, err := extraction.DecodeDocument([]byte(`{"document_text":"Åsa <b>{{object_schemas}}</b>","document_type":"note",
		"object_schemas":{"Ö":{"description":"a & b","properties":{"z":1.50,"a":["\u00e9"]}},"Ann":{}},
		"relationship_schemas":{"knows":{"target_types":["Ö"],"source_types":["Ann"]}},"available_tags":["b","a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	vars, err := DocumentVars(doc)
	want := map[string]string{
		"document_text":        "Åsa <b>{{object_schemas}}</b>",
		"document_type":        "note",
		"object_schemas":       `{"Ann":{"name":"Ann"},"Ö":{"description":"a & b","name":"Ö","properties":{"a":["é"],"z":1.50}}}`,
		"relationship_schemas": `{"knows":{"name":"knows","source_types":["Ann"],"target_types":["Ö"]}}`,
		"allowed_types":        `["Ann","Ö"]`, // the document allows every type
		"available_tags":       `["b","a"]`,
	}
	if diff := cmp.Diff(want, vars.Texts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if len(want) != len(KnownVars()) {
		t.Error("Known does not list what a document fills")
	}
}

func TestDocumentVars_bare(t *testing.T) {
	vars, err := DocumentVars(extraction.Document{Text: "x", AllowedTypes: []string{"B", "A"}})
	want := map[string]string{"document_text": "x", "document_type": "", "object_schemas": "{}", "relationship_schemas": "{}", "allowed_types": `["B","A"]`, "available_tags": "[]"}
	if diff := cmp.Diff(want, vars.Texts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	broken := extraction.Document{Text: "x", Objects: map[string]extraction.ObjectSchema{"A": {Properties: []byte(`{`)}}}
	if _, err := DocumentVars(broken); err == nil || !strings.Contains(err.Error(), "object_schemas") {
		t.Errorf("broken properties: %v", err)
	}
}

func TestDocumentVars_variables(t *testing.T) {
	item := extraction.Document{
		Text:     "part",
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
		"the text":           {"input.document_text", "part", ""}, // the chunk, not the whole text
		"no such key":        {"input.section.titel", "", `the variable "v" takes input.section.titel, and the item has no "titel" in input.section, which has n, null, on, title (did you mean "title"?)`},
		"no such place":      {"input.list.2", "", `input.list is a list of 2, which has no element "2"`},
		"a name in a list":   {"input.list.a", "", `has no element "a"`},
		"through a string":   {"metadata.lang.x", "", "neither an object nor a list at metadata.lang"},
		"null":               {"input.section.null", "", "no value at input.section.null"},
		"no such long thing": {"metadata." + strings.Repeat("x", 5000), "", "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			vars, err := DocumentVars(item, Var{Name: "v", Path: tt.path})
			if tt.problem == "" {
				if err != nil || vars.Texts["v"] != tt.want {
					t.Fatalf("got %q, %v", vars.Texts["v"], err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.problem) || len(err.Error()) > 1000 {
				t.Fatalf("got %v, want %q", err, tt.problem)
			}
		})
	}
	if _, err := DocumentVars(extraction.Document{}, Var{Name: "v", Path: "metadata.x"}); err == nil {
		t.Error("an item without metadata has no metadata.x")
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
		if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", spec, err, want)
		}
	}
}
