package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	commands := []string{"run", "runs", "score", "show", "serve", "concurrency"}
	for word, want := range map[string]string{
		"rnus": "runs", "scor": "score", "serv": "serve", "showw": "show", "runss": "runs", "Score": "score",
		"concurency": "concurrency", "concurr": "", "xyzzy": "", "verylongword": "", "": "",
		strings.Repeat("run", 30): "",
	} {
		if got := Word(word, commands); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
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
