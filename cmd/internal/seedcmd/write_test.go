package seedcmd

import (
	"errors"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
)

// brokenWriter stands for a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRun_cannotWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("items.jsonl", []byte(`{"id":"a","input":{"document_text":"Ada."},"expectedOutput":{"entities":[]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--list"}, {"--list", "--json"}, {"--check", "items.jsonl"}, {"--dataset", "d", "--file", "items.jsonl"}, {"--dataset", "d", "--export", "-"},
		{"--dataset", "d", "--archive", "a"},
	} {
		var stderr strings.Builder
		code := Run(t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: brokenWriter{}, Stderr: &stderr,
			Getenv: func(string) string { return "" }, Terminal: func() int { return 0 }})
		if code != cli.ExitIO || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("seed %q: exit %d, %s", args, code, stderr.String())
		}
	}
}
