package system

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

func TestPromptText(t *testing.T) {
	tests := map[string]struct {
		kind, prompt, config string
		want                 []string
	}{
		"text":               {"text", `"a\nb"`, `{}`, []string{"text", "  a", "  b", "", "config", "  {}", ""}},
		"no config":          {"text", `""`, `null`, []string{"text", "  ", "", "config", "  {}", ""}},
		"order of keys":      {"text", `"a"`, `{"b":1e400,"a":"<"}`, []string{"text", "  a", "", "config", "  {", `    "a": "<",`, `    "b": 1e+400`, "  }", ""}},
		"no messages at all": {"chat", `[]`, ``, []string{"config", "  {}", ""}},
		"noted type":         {"chat", `[{"type":"chatmessage","role":"user","content":"x"}]`, ``, []string{"user", "  x", "", "config", "  {}", ""}},
		"more fields":        {"chat", `[{"role":"user","content":"x","name":"n"}]`, ``, []string{"prompt", "  [", "    {", `      "content": "x",`, `      "name": "n",`, `      "role": "user"`, "    }", "  ]", "", "config", "  {}", ""}},
		"content of parts":   {"chat", `[{"role":"user","content":[1]}]`, ``, []string{"prompt", "  [", "    {", `      "content": [`, "        1", "      ],", `      "role": "user"`, "    }", "  ]", "", "config", "  {}", ""}},
		"forged heading":     {"chat", `[{"role":" user\nconfig\u2028text","content":"x"}]`, ``, []string{"user config text", "  x", "", "config", "  {}", ""}},
		"not messages":       {"chat", `{"a":1}`, ``, []string{"prompt", "  {", `    "a": 1`, "  }", "", "config", "  {}", ""}},
		"null message":       {"chat", `[null]`, ``, []string{"prompt", "  [", "    null", "  ]", "", "config", "  {}", ""}},
		"broken":             {"text", `"a`, `{`, []string{"prompt", `  "a`, "", "config", "  {", ""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := promptText(langfuse.Prompt{Type: tt.kind, Prompt: json.RawMessage(tt.prompt), Config: json.RawMessage(tt.config)})
			if want := strings.Join(tt.want, "\n") + "\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestDiff_hidden(t *testing.T) {
	text := func(version int, s string) langfuse.Prompt {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return langfuse.Prompt{Name: "p", Version: version, Type: "text", Prompt: raw}
	}
	const titles = "--- p, version 1 (none)\n+++ p, version 2 (none)\n@@ -1,5 +1,5 @@\n text\n"
	const config = "\n config\n   {}\n"
	for name, tt := range map[string]struct{ a, b, want string }{
		"line end":          {"x", "x\r", titles + "-  x\n+  x\\x0d\n" + config},
		"space at the end":  {"x", "x ", titles + "-  x\n+  x \n" + config},
		"escape":            {"x", "\x1b[2J", titles + "-  x\n+  \\x1b[2J\n" + config},
		"separator of text": {"x", "y\u2028config", titles + "-  x\n+  y config\n" + config},
	} {
		t.Run(name, func(t *testing.T) {
			if got := promptDiff(text(1, tt.a), text(2, tt.b)); got != tt.want {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
	noted := func(version int, extra string) langfuse.Prompt {
		return langfuse.Prompt{Name: "p", Version: version, Type: "chat", Prompt: json.RawMessage(`[{"role":"user",` + extra + `}]`)}
	}
	a, b := noted(1, `"content":"name: \"n\"\nx"`), noted(2, `"name":"n","content":"x"`)
	if got := promptDiff(a, b); !strings.Contains(got, "\n+") || !strings.Contains(got, `"role": "user"`) {
		t.Errorf("content like a field: %q", got)
	}
	if got := promptDiff(text(1, "x"), text(2, "x")); got != "p: no difference (versions 1 and 2)\n" {
		t.Errorf("equal versions: %q", got)
	}
}

func TestTable(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		list []langfuse.PromptSummary
		last string
	}{
		"none":    {nil, "no prompts"},
		"hostile": {[]langfuse.PromptSummary{{Name: "a\x1b\nb", Type: "text", Versions: []int{3, 1, 2, 5, 6}, Labels: []string{"x", "y"}, LastUpdatedAt: at}}, `  a\x1b b  text  1-3, 5-6  x, y    2026-11-21 03:04`},
		"bare":    {[]langfuse.PromptSummary{{Name: "a", Type: "chat", LastUpdatedAt: at}}, `  a     chat  none              2026-11-21 03:04`},
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(strings.TrimSuffix(PromptTable(tt.list, time.UTC), "\n"), "\n")
			if last := lines[len(lines)-1]; last != tt.last {
				t.Errorf("got %q, want %q", last, tt.last)
			}
		})
	}
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{
		"none": nil, "1": {1}, "1-2": {2, 1}, "1-3": {1, 2, 3, 3}, "1-4, 6-7, 9": {9, 7, 6, 4, 3, 2, 1},
	} {
		if got := ranges(numbers); got != want {
			t.Errorf("%v: got %q, want %q", numbers, got, want)
		}
	}
}

// FuzzPage: for any prompt, the page and the diff contain nothing that steers a terminal,
// and only headings are at the margin, one for each heading of promptText.
func FuzzPage(f *testing.F) {
	f.Add("chat", `[{"role":"a\nb","content":"x\r\ny\u2028z"}]`, `{"a":[1]}`)
	f.Add("text", `"\u001b[2J"`, "null")
	f.Add("chat", `[{"type":"placeholder","name":"\u202e"},null]`, "{")
	f.Fuzz(func(t *testing.T, kind, prompt, config string) {
		p := langfuse.Prompt{Name: "p", Version: 1, Type: kind, Prompt: json.RawMessage(prompt), Config: json.RawMessage(config)}
		page := PromptPage(p)
		other := promptDiff(langfuse.Prompt{Name: "p", Version: 2, Type: "text", Prompt: json.RawMessage(`"x"`)}, p)
		for _, text := range []string{page, other} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && textutil.ControlsTerminal(r) }) {
				t.Errorf("it could steer a terminal: %q", text)
			}
		}
		headings := func(lines []string) (n int) {
			for _, line := range lines {
				if line != "" && !strings.HasPrefix(line, " ") {
					n++
				}
			}
			return n
		}
		_, body, _ := strings.Cut(page, "\n\n")
		if got, want := headings(strings.Split(body, "\n")), headings(strings.Split(promptText(p), "\n")); got != want {
			t.Errorf("%d lines at the margin, want %d: %q", got, want, body)
		}
		if same := promptDiff(p, p); same != "p: no difference (both are version 1)\n" {
			t.Errorf("a version differs from itself: %q", same)
		}
	})
}
