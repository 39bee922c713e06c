package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// prompt stores the next version of a prompt.
func (b bench) prompt(create langfuse.Prompt) {
	b.t.Helper()
	b.langfuse(func(client *langfuse.Client) {
		if _, err := client.CreatePrompt(b.t.Context(), create); err != nil {
			b.t.Fatal(err)
		}
	})
}

// expect runs a command line that succeeds and compares its whole output.
func (b bench) expect(want string, args ...string) {
	b.t.Helper()
	code, stdout, stderr := b.experiment(args...)
	if code != cli.ExitOK || stdout != want {
		b.t.Errorf("experiment %q: exit %d, %s\ngot:\n%s\nwant:\n%s", args, code, stderr, stdout, want)
	}
}

func TestPrompts_labelsAndDiff(t *testing.T) {
	b := newBench(t)
	const name = "team/people" // Langfuse shows the first part as a folder
	b.prompt(langfuse.Prompt{Name: name, Type: langfuse.PromptChat, Labels: []string{"production", "old"}, CommitMessage: "first",
		Prompt: json.RawMessage(`[{"role":"system","content":"Be brief.\nBe exact."},{"type":"placeholder","name":"examples"},{"role":"user","content":"{{document_text}}"}]`),
		Config: json.RawMessage(`{"temperature":0,"model":"m"}`)})
	b.prompt(langfuse.Prompt{Name: name, Type: langfuse.PromptChat, Labels: []string{"staging"},
		Prompt: json.RawMessage(`[{"role":"system","content":"Be brief.\nBe kind."},{"type":"placeholder","name":"examples"},{"role":"user","content":"{{document_text}}"}]`),
		Config: json.RawMessage(`{"model":"m","temperature":0.5}`)})
	b.expect("production: moved from version 1 to version 2\nrc: new, on version 2\nstaging: stays on version 2\n"+
		"team/people, version 2: labels latest, production, rc, staging\n", "prompts", "label", name, "2", "production", "rc", "staging", "rc")
	b.expect(`team/people, version 1, chat
labels  old
commit  first

system
  Be brief.
  Be exact.

placeholder examples

user
  {{document_text}}

config
  {
    "model": "m",
    "temperature": 0
  }

`, "prompts", "show", name, "--prompt-label", "old")
	for _, second := range []string{"2", "staging", "production"} {
		b.expect(`--- team/people, version 1 (old)
+++ team/people, version 2 (latest, production, rc, staging)
@@ -1,6 +1,6 @@
 system
   Be brief.
-  Be exact.
+  Be kind.

 placeholder examples

@@ -10,6 +10,6 @@
 config
   {
     "model": "m",
-    "temperature": 0
+    "temperature": 0.5
   }

`, "prompts", "diff", name, "1", second)
	}
}

// brokenWriter fails like a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestCannotWrite_once: a command that writes several times names the full disk once.
func TestCannotWrite_once(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"doctor"}, {"bench", "run", "--quiet", "--out", "r"}, {"bench", "score", "r"}} {
		var stderr strings.Builder
		code := Run(t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: brokenWriter{}, Stderr: &stderr,
			Getenv: func(string) string { return "" }, Terminal: func() int { return 0 }})
		if code != cli.ExitIO || strings.Count(stderr.String(), "no space left") != 1 {
			t.Errorf("experiment %q: exit %d, %s", args, code, stderr.String())
		}
	}
}

func TestPrompts_cannotWrite(t *testing.T) {
	newBench(t)
	for _, args := range [][]string{{"prompts"}, {"prompts", "--json"}, {"prompts", "show", "extraction"},
		{"prompts", "diff", "extraction", "1", "1"}, {"prompts", "label", "extraction", "1", "a"}} {
		var stderr strings.Builder
		code := Run(t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: brokenWriter{}, Stderr: &stderr,
			Getenv: func(string) string { return "" }, Terminal: func() int { return 0 }})
		if code != cli.ExitIO || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("experiment %q: exit %d, %s", args, code, stderr.String())
		}
	}
}
