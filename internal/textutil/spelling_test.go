package textutil

import (
	"strings"
	"testing"
)

func TestFoldName(t *testing.T) {
	for in, want := range map[string]string{
		"John  Smith ":   "john smith",
		"STRASSE":        "strasse",
		"Straße":         "strasse",
		"ΣΑΣ":            "σασ",
		"ﬁne\u00a0print": "fine print",
		"e\u0301":        "é",
		"İstanbul":       "i\u0307stanbul",
		" \t\n":          "",
		"\u13cf":         "\u13cf", // Cherokee folds to capitals
		"\uab9f":         "\u13cf",
		"\u13f8\u13f0":   "\u13f0\u13f0",
		"a\xffb":         "a\ufffdb",
	} {
		if got := FoldName(in); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFoldType(t *testing.T) {
	for in, want := range map[string]string{
		"Place name": "place_name", "place-name": "place_name", "__PLACE__NAME__": "place_name", "placeName": "placename",
		"born\u2011in": "born_in", "": "", "- _": "",
	} {
		if got := FoldType(in); got != want {
			t.Errorf("Type(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzFold checks that folding a folded name or type changes nothing.
func FuzzFold(f *testing.F) {
	f.Add("Straße \u00a0 ΣΑΣ")
	f.Fuzz(func(t *testing.T, s string) {
		if once := FoldName(s); FoldName(once) != once {
			t.Errorf("Name(%q) = %q, and again %q", s, once, FoldName(once))
		}
		if once := FoldType(s); FoldType(once) != once {
			t.Errorf("Type(%q) = %q, and again %q", s, once, FoldType(once))
		}
	})
}

func TestNearest(t *testing.T) {
	commands := []string{"run", "runs", "score", "show", "serve", "concurrency"}
	for word, want := range map[string]string{
		"rnus": "runs", "scor": "score", "serv": "serve", "showw": "show", "runss": "runs", "Score": "score",
		"concurency": "concurrency", "concurr": "", "xyzzy": "", "verylongword": "", "": "",
		strings.Repeat("run", 30): "",
	} {
		if got := Nearest(word, commands); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestHint(t *testing.T) {
	if got, want := Hint("shw", []string{"show"}), `; did you mean "show"?`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Hint("show", []string{"show"}) + Hint("x", []string{"show"}); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestListed(t *testing.T) {
	var many []string
	for i := range 32 {
		many = append(many, "word"+strings.Repeat("x", i))
	}
	for _, tt := range []struct {
		word       string
		candidates []string
		want       string
	}{
		{"a", nil, "none"},
		{"zzzz", []string{"b", "a"}, "b, a"},
		{"titel", []string{"b", "title"}, `b, title (did you mean "title"?)`},
		{"word", many, strings.Join(many[:30], ", ") + ` and 2 more (did you mean "word"?)`},
	} {
		if got := Listed(tt.word, tt.candidates); got != tt.want {
			t.Errorf("of %q: %q, want %q", tt.word, got, tt.want)
		}
	}
}
