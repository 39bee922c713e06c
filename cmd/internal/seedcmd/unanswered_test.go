package seedcmd

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// A write that Langfuse does not carry out leaves a summary, and the item's name.
func TestRun_unanswered(t *testing.T) {
	store, err := embedded.Open(embedded.Config{Mode: embedded.ModeV4})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(r.URL.Path, "/dataset-items") && bytes.Contains(body, []byte(`"id":"b"`)) {
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		store.Handler().ServeHTTP(w, r)
	}))
	defer func() {
		web.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(t.TempDir(), "items.jsonl")
	var lines strings.Builder
	for _, id := range []string{"a", "b", "c"} {
		lines.WriteString(`{"id":"` + id + `","input":{"document_text":"` + id + `"},"expectedOutput":{"entities":[]}}` + "\n")
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runSeed(t, web.URL, "--dataset", "d", "--file", path)
	if code != cli.ExitUnavailable || !strings.Contains(stdout, "2 created, 0 updated, 0 unchanged, 1 refused") ||
		!strings.Contains(stderr, "item b: was not answered") || !strings.Contains(stderr, "the same command again goes on") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
