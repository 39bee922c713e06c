package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// paidModel is an OpenAI-compatible server that counts its requests. Every run has its own
// address, and every item its own document.
type paidModel struct {
	url string

	mu    sync.Mutex
	asked map[string]int // by run and document
}

func newPaidModel(t testing.TB) *paidModel {
	t.Helper()
	m := &paidModel{asked: map[string]int{}}
	hs := httptest.NewServer(m)
	t.Cleanup(hs.Close)
	m.url = hs.URL
	return m
}

// ServeHTTP answers with one entity, the first two words of the document, and refuses one with the word "refused".
func (m *paidModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	run, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var body struct {
		Messages []struct{ Content string }
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil || len(body.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	document := body.Messages[len(body.Messages)-1].Content
	m.mu.Lock()
	m.asked[run+" "+document]++
	m.mu.Unlock()
	words := strings.Fields(document)
	if slices.Contains(words, "refused") {
		http.Error(w, "refused", http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(map[string]any{
		"entities": []any{map[string]string{"name": words[0] + " " + words[1], "type": "Person"}}, "relationships": []any{},
	})
	if err != nil {
		panic(err)
	}
	writeCompletion(w, "gpt-test", string(answer), 100, 20)
}

// times returns how often a run asked for a document.
func (m *paidModel) times(run, document string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[run+" "+document]
}

// paidItems returns generated items with different documents, for a prompt that contains only
// the document.
func paidItems(n int) []testItem {
	items := makeItems(n, 200)
	for i := range items {
		if text, ok := items[i].Input["document_text"].(string); ok {
			items[i].Input["document_text"] = strings.TrimSpace(text) + " " + items[i].ID
		}
	}
	return items
}

// sharedLangfuse is an embedded Langfuse in this process for many runs. It has a dataset "made"
// and a prompt that contains only the document.
func sharedLangfuse(t testing.TB, items []testItem, front func(http.Handler) http.Handler) (client *langfuse.Client, env []string) {
	t.Helper()
	return sharedLangfuseIn(t, embedded.ModeV4, items, front)
}

func sharedLangfuseIn(t testing.TB, mode embedded.Mode, items []testItem, front func(http.Handler) http.Handler) (client *langfuse.Client, env []string) {
	t.Helper()
	_, client = startLangfuse(t, mode, front)
	seedItems(t, client, "made", items)
	must(t, tracking.CreateDefaultPrompt(t.Context(), client))
	_, err := client.CreatePrompt(t.Context(), langfuse.Prompt{
		Name: "plain", Type: langfuse.PromptText, Prompt: json.RawMessage(`"{{document_text}}"`), Labels: []string{"production"},
	})
	must(t, err)
	return client, langfuseEnv(client.BaseURL())
}

// startLangfuse starts an embedded Langfuse in this process until the test ends.
func startLangfuse(t testing.TB, mode embedded.Mode, front func(http.Handler) http.Handler) (*embedded.Server, *langfuse.Client) {
	t.Helper()
	server, err := embedded.Open(embedded.Config{Mode: mode})
	must(t, err)
	hs := httptest.NewServer(front(server.Handler()))
	t.Cleanup(func() {
		hs.Close()
		must(t, server.Close())
	})
	client, err := langfuse.New(langfuse.Config{BaseURL: hs.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey)})
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return server, client
}

// langfuseEnv returns the environment that connects to an embedded Langfuse.
func langfuseEnv(url string) []string {
	return []string{"LANGFUSE_BASE_URL=" + url, "LANGFUSE_PUBLIC_KEY=" + embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY=" + embedded.DefaultSecretKey}
}

// direct is the front of a Langfuse without a proxy.
func direct(langfuse http.Handler) http.Handler { return langfuse }

// buildProgram compiles the program with the tags and without debug information.
func buildProgram(t testing.TB, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "experiment")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-tags", tags, "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return path
}
