package prompt

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// segment draws a piece of a template that joins to no identifier with its
// neighbours, with what it compiles to.
func segment(t *rapid.T, value string) (written, compiled string) {
	if rapid.Bool().Draw(t, "identifier") {
		space := strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "spaces"))
		return "{{" + space + "v" + space + "}}", value
	}
	text := rapid.SampledFrom([]string{"{", "}", "}}", "{\"a\": {\"b\": 1}}", "{{ \"a\" }}", "\n", "(é)", "two-words", "{{}}", "{{1}}", "@@@"}).Draw(t, "text")
	return text, text
}

// Whatever stands around the identifiers and in the value, exactly the
// identifiers are replaced, by exactly the value.
func TestCompile_replacesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"{{v}}", "{{", "}}", "{{ other }}", "$1", "\\"})).Draw(t, "value")
		var written, want strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "segments") {
			w, c := segment(t, value)
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

// FuzzCompile checks that no template and no value panics, that text stays where
// nothing is filled, and that what is inserted is never scanned: a value full of
// identifiers gives what a value of the same kind without them gives.
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
			var vars Vars
			_ = vars.Add(Item{Input: input}, v)
		}
	})
}
