package main

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// secrets lists the values that must appear nowhere.
func secrets() []string {
	return []string{"sk-lf-TOPSECRET-langfuse", "sk-TOPSECRET-openai", "TOPSECRET-header", "TOPSECRET-token", "UNIQ1", "UNIQ2-argument"}
}

// TestSecrets runs models and pipelines that repeat their keys in errors and answers, at log
// level debug. The keys must not appear in anything that is printed, written or sent.
func TestSecrets(t *testing.T) {
	t.Parallel()
	echo := leakingServer(t)
	f, store := secretFolder(t, echo)
	var printed strings.Builder
	f.writeItems(t, paidItems(6))
	run := func(args ...string) {
		t.Helper()
		c := f.start(t, args...)
		<-c.ended
		printed.WriteString(c.stdout.String() + c.stderr.String())
	}
	model := []string{"--dataset", "made", "--model", "openai/gpt-test", "--prompt", "plain", "--log-level", "debug", "--json", "--max-failures", "100%"}
	run(append(model, "--name", "r1", "--output", "r1.jsonl", "--record", "tape.jsonl")...)
	run("--dataset", "made.jsonl", "--name", "r2", "--pipeline", echo+"/pipeline", "--log-level", "debug", "--log-format", "json", "--max-failures", "100%")
	must(t, os.WriteFile(f.path("telling.yaml"), []byte(leakingConfig), 0o600))
	must(t, os.WriteFile(f.path("telling.sh"), []byte(leakingProgram), 0o600))
	own := []string{"--dataset", "made.jsonl", "--config", "telling.yaml", "--pipeline", "sh telling.sh --api-key " + secrets()[5]}
	run(append(own, "--name", "r5")...)
	run(append(own, "--name", "r6", "--dry-run")...)
	run("show", "r5", "made-000", "--json")
	run("export", "r5")
	run("report", "r5", "--format", "html", "--output", "r5.html")
	for _, want := range []string{"\nOPENAI_EXTRA_HEADERS=***", "telling.sh --api-key ***", " OPENAI_EXTRA_HEADERS=***", "judged with {X-Team-Key:***,X-Key:***}", "(withheld: "} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("nowhere in what was printed, which holds this machine's environment, is %q", want)
		}
	}
	run("show", "r1", "made-000")
	run("doctor", "--model", "openai/gpt-test", "--json")
	if suite.Full() {
		run("show", "r2")
		run("export", "r1")
		run("verify", "r1", "--json")
		run("--dry-run", "--dataset", "made", "--name", "r3")
	}
	wrong := f.with("LANGFUSE_SECRET_KEY=sk-lf-TOPSECRET-langfuse-but-wrong")
	c := wrong.start(t, append(model, "--name", "r4")...)
	<-c.ended
	printed.WriteString(c.stdout.String() + c.stderr.String())
	if c.ProcessState.ExitCode() != 69 {
		t.Errorf("a wrong key: exit code %d", c.ProcessState.ExitCode())
	}
	if !strings.Contains(printed.String(), "r1") || printed.Len() < 5000 {
		t.Errorf("too little was printed to look for secrets in: %s", printed.String())
	}
	noSecret(t, "what was printed", printed.String())
	files := noSecretIn(t, f.dir) + noSecretIn(t, store)
	if files < 5 {
		t.Errorf("only %d files were looked into", files)
	}
}

// leakingServer repeats the headers of a request in errors and in answers.
func leakingServer(t *testing.T) string {
	t.Helper()
	var calls atomic.Int32
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := strings.Join(r.Header.Values("Authorization"), " ") + " " + r.Header.Get("X-Team-Key")
		switch calls.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": "Incorrect API key provided: " + headers}})
		case 1:
			http.Error(w, "called with "+headers, http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
				"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": `{"entities":[{"name":"` + headers + `","type":"Person"}]}`},
			}}})
		}
	}))
	t.Cleanup(hs.Close)
	return hs.URL
}

// leakingProgram writes its environment and arguments to standard error and into the name of an
// entity.
const leakingProgram = `
printenv >&2
while read -r line; do
	told=$( (printenv; echo "$@") | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n' ' ')
	echo "{\"entities\":[{\"name\":\"$told\",\"type\":\"Person\"}]}"
done
`

// leakingConfig configures evaluators that print their environment.
const leakingConfig = `
scorers:
  - {name: telling, script: [sh, -c, 'cat >/dev/null; printenv >&2; echo "{\"score\":1,\"hits\":[],\"misses\":[],\"reasoning\":\"judged with $(echo $OPENAI_EXTRA_HEADERS | tr -d \")\"}"'], env: [OPENAI_EXTRA_HEADERS]}
  - {name: failing, script: [sh, -c, 'cat >/dev/null; printenv >&2; exit 3'], env: [OPENAI_EXTRA_HEADERS]}
`

// secretFolder returns a folder with a Langfuse that has secret keys, and the path of its
// database.
func secretFolder(t *testing.T, echo string) (folder, string) {
	t.Helper()
	store := t.TempDir()
	keys := secrets()
	server, err := embedded.Open(embedded.Config{Path: filepath.Join(store, "langfuse.db"), SecretKey: keys[0]})
	must(t, err)
	hs := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		hs.Close()
		must(t, server.Close())
	})
	client, err := langfuse.New(langfuse.Config{BaseURL: hs.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(keys[0])})
	must(t, err)
	seedItems(t, client, "made", paidItems(6))
	must(t, tracking.CreateDefaultPrompt(t.Context(), client))
	_, err = client.CreatePrompt(t.Context(), langfuse.Prompt{
		Name: "plain", Type: langfuse.PromptText, Prompt: json.RawMessage(`"{{document_text}}"`), Labels: []string{"production"},
	})
	must(t, err)
	return newFolder(t, "LANGFUSE_BASE_URL="+hs.URL, "LANGFUSE_PUBLIC_KEY="+embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY="+keys[0],
		"OPENAI_API_KEY="+keys[1], "OPENAI_BASE_URL="+echo+"/v1", `OPENAI_EXTRA_HEADERS={"X-Team-Key":"`+keys[2]+`","X-Key":"`+keys[4]+`"}`,
		"EXPERIMENT_PIPELINE_TOKEN="+keys[3]), store
}

// noSecretIn checks every file below a folder for secrets and returns the number of files.
func noSecretIn(t *testing.T, dir string) (files int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		noSecret(t, path, string(raw))
		files++
		return err
	}))
	return files
}

func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range secrets() {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s has a secret: …%q…", where, text[max(0, i-200):min(len(text), i+60)])
		}
	}
}

// TestResumeCommand_masked: the command to resume is printed and may be logged, so it contains
// no secret.
func TestResumeCommand_masked(t *testing.T) {
	got := resumeCommand([]string{"--name", "r", "--pipeline", "p --api-key X -v", "--url=http://h/a?key=X", "--resume", "--overwrite"})
	if want := "experiment --name r --pipeline 'p --api-key *** -v' '--url=http://h/a?***' --resume"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
