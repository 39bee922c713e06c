package system

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// TestDoctor_atOnce: the doctor prints its first findings before it asks the server.
func TestDoctor_atOnce(t *testing.T) {
	var out bytes.Buffer
	early := ""
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { early = out.String() })
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	values := map[string]string{langfuse.EnvPublicKey: "pk-lf-1", langfuse.EnvSecretKey: "sk-lf-x", langfuse.EnvBaseURL: server.URL}
	env := cli.Env{Stdout: &out, Getenv: func(name string) string { return values[name] }}
	if err := Doctor(t.Context(), env, DoctorConfig{}); cli.ExitCode(err) != cli.ExitUnavailable {
		t.Error(err)
	}
	if !strings.HasPrefix(early, "keys ") || strings.Count(out.String(), "keys ") != 1 || !strings.Contains(out.String(), "\nfolder ") {
		t.Errorf("printed %q, then %q", early, &out)
	}
}

// TestDoctor_schema: the doctor sends a JSON Schema as a run does, so that it notices a server that refuses one.
func TestDoctor_schema(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("response_format")) {
			http.Error(w, `{"error":{"message":"unknown field response_format"}}`, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"{}"}}]}`)
	}))
	defer server.Close()
	models := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(models, []byte("models:\n  x: {no_schema: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "no_schema: true", models: "openai/x answers"} {
		values := map[string]string{"OPENAI_BASE_URL": server.URL, EnvModels: file}
		d := &doctor{env: cli.Env{Getenv: func(name string) string { return values[name] }}, json: true}
		d.model(t.Context(), "openai/x")
		if got := d.findings[0]; !strings.Contains(got.Found, want) || (got.State == stateOK) != (file != "") {
			t.Errorf("%q: %+v", file, got)
		}
	}
}
