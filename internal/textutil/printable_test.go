package textutil

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aéé", 4, "aé…"}, // é has two bytes: 1 + 2 + 2
		{"aéé", 5, "aéé"},
		{"日本", 2, "…"},
		{"a\xffb", 9, "a\uFFFDb"},
		{"\xff\xff\xff\xff", 2, "\uFFFD…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD…"}, // no byte begins a character
	} {
		if got := Cut(tt.text, tt.limit); got != tt.want {
			t.Errorf("%q cut to %d is %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
	if got := Brief(" a \n\u00a0b\tc ", 3); got != "a b…" {
		t.Errorf("got %q", got)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("日本 \xff", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(0, limit%1000)
		got := Cut(text, limit)
		if !utf8.ValidString(got) || utf8.ValidString(text) && (len(got) > limit+len("…") || !strings.HasPrefix(text, strings.TrimSuffix(got, "…"))) {
			t.Errorf("%q cut to %d is %q", text, limit, got)
		}
	})
}

func TestCounted(t *testing.T) {
	for want, got := range map[string]string{
		"0 cases": Counted(0, "case"), "1 case": Counted(1, "case"), "2 cases": Counted(int64(2), "case"), "-1 cases": Counted(-1, "case"),
		"12,345 cases": Counted(12_345, "case"),
		"1 category":   Counted(1, "category"), "2 categories": Counted(2, "category"),
		"1 miss": Counted(1, "miss"), "0 misses": Counted(0, "miss"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestBlock checks that Block keeps lines, and that no character of its result can control a
// terminal.
func TestBlock(t *testing.T) {
	for in, want := range map[string]string{
		"plain\nlines":               "plain\nlines",
		"a\r\nb\u0085c\u2028d\u2029": "a\nb\nc\nd\n",
		"a\tb":                       "a    b",
		"\x1b[31mred\x07\x7f":        `\x1b[31mred\x07\x7f`,
		"a\u202eb\u200bc\U000e0001":  `a\u202eb\u200bc\U000e0001`,
		"a\u009bb":                   `a\u009bb`,
		"\xffé\ufffd":                "\\xffé\ufffd",
		"\u0646\u200c\u0647 \u0600 👩\u200d👧": "\u0646\u200c\u0647 \u0600 👩\u200d👧",
	} {
		if got := Block(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Line(" a\u2028\tb\x1b \r\n c "); got != `a b\x1b c` {
		t.Errorf("one line: %q", got)
	}
	for r := range rune(unicode.MaxRune) {
		if strings.ContainsFunc(Block(string(r)), func(r rune) bool { return r != '\n' && ControlsTerminal(r) }) {
			t.Errorf("%q comes through", r)
		}
	}
}
