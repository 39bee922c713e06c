package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"extraction-experiment/langfuse"
)

func TestSpec_SpecifyModelAndPromptViaCLI(t *testing.T) {
	b := newBench(t)
	b.seed("docs", oneItem)
	b.prompt(langfuse.Prompt{Name: "extraction", Type: langfuse.PromptChat, Labels: []string{"staging"},
		Prompt: json.RawMessage(`[{"role":"system","content":"Staged."},{"role":"user","content":"{{document_text}}"}]`)})
	var path, key string
	var body map[string]any
	gemini := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, key = r.URL.Path, r.Header.Get("x-goog-api-key")
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"candidates":    []any{map[string]any{"finishReason": "STOP", "content": map[string]any{"role": "model", "parts": []any{map[string]any{"text": adaAnswer}}}}},
			"usageMetadata": map[string]any{"promptTokenCount": 50, "candidatesTokenCount": 9, "totalTokenCount": 59},
			"modelVersion":  "gemini-1.5-pro-002",
		})
	}))
	defer gemini.Close()
	env := map[string]string{"GEMINI_API_KEY": "g-test-secret", "GOOGLE_GEMINI_BASE_URL": gemini.URL}
	stdout, _ := b.succeed(env, "--dataset", "docs", "--name", "gemini-staging", "--model", "gemini-1.5-pro",
		"--prompt-label", "staging", "--temperature", "0.2", "--json")
	if !strings.HasSuffix(path, "/models/gemini-1.5-pro:generateContent") || key != "g-test-secret" {
		t.Errorf("asked %s with key %q", path, key)
	}
	config, ok := body["generationConfig"].(map[string]any)
	if !ok || config["temperature"] != 0.2 || config["responseJsonSchema"] == nil {
		t.Errorf("generationConfig on the wire: %v", config)
	}
	raw, err := json.Marshal(body)
	if err != nil || !strings.Contains(string(raw), "Staged.") || !strings.Contains(string(raw), "Ada Lovelace was born in London.") {
		t.Errorf("the prompt of the label is not on the wire: %s", raw)
	}
	run := summaryOf(t, stdout).Run
	if run.Model != "gemini-1.5-pro" || run.Provider != "gemini" || run.PromptName != "extraction" || run.PromptVersion != 2 || run.PromptLabel != "staging" || *run.Temperature != 0.2 {
		t.Errorf("the run says %+v", run)
	}
}
