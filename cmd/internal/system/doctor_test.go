package system

import (
	"bytes"
	"net/http"
	"net/http/httptest"
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
