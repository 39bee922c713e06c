package gemini_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/providertest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// full is a request with everything in it.
func full() pipeline.Request {
	return pipeline.Request{
		Messages: []pipeline.Message{
			{Role: "system", Content: "Extract <entities> & relationships as JSON: {\"a\": 1}"},
			{Role: "system", Content: "Be brief."},
			{Role: "user", Content: "Ann works for Acmé 日本.\n\u2028"},
			{Role: "assistant", Content: "{"},
			{Role: "user", Content: "again"},
		},
		Parameters: pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0), MaxTokens: new(4096), Seed: new(int64(42))},
		// The keys are not in the order of the alphabet, and must stay so.
		Schema: &pipeline.Schema{Name: "extraction", JSON: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"anyOf":[{"type":"null"}]}},"required":["zeta","alpha"],"additionalProperties":false}`)},
	}
}

func TestGenerate_request(t *testing.T) {
	for name, c := range map[string]struct {
		cfg gemini.Config
		req pipeline.Request
		url string
	}{
		"full":             {gemini.Config{Model: "gemini-2.5-flash"}, full(), "/v1beta/models/gemini-2.5-flash:generateContent"},
		"minimal":          {gemini.Config{Model: "models/gemini-1.5-pro"}, pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "hello"}}}, "/v1beta/models/gemini-1.5-pro:generateContent"},
		"instruction_only": {gemini.Config{Model: "tunedModels/mine", Capabilities: pipeline.Capabilities{InstructionOnly: true}}, full(), "/v1beta/tunedModels/mine:generateContent"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = body
				if r.Method != "POST" || r.RequestURI != "/gateway"+c.url || r.Header.Get("Content-Type") != "application/json" || int(r.ContentLength) != len(body) {
					t.Errorf("got %s %s %v", r.Method, r.RequestURI, r.Header)
				}
				if r.Header.Get("X-Goog-Api-Key") != providertest.Key || r.Header.Get("X-Tenant") != "seven" {
					t.Errorf("headers: %v", r.Header)
				}
				_, _ = io.WriteString(w, wire().Answer("ok"))
			}))
			defer s.Close()
			c.cfg.BaseURL, c.cfg.Headers = s.URL+"/gateway/", map[string]secret.Secret{"x-tenant": secret.New("seven")}
			if _, err := open(t, c.cfg).Generate(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".json"), got)
		})
	}
}

func TestGenerate_response(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wire().Answer("ok")) }))
	defer s.Close()
	got, err := open(t, gemini.Config{BaseURL: s.URL}).Generate(t.Context(), full())
	want := pipeline.Response{
		Text: "ok", Finish: pipeline.FinishStop, Model: "gemini-2.5-flash-001", Attempts: 1,
		// 35 tokens shown and 25 thought make 60 paid as output.
		Usage: outcome.Usage{Input: 100, Output: 60, Cached: 40, Reasoning: 25},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestGenerate_noContinuation: the library by itself would ask again and again.
func TestGenerate_noContinuation(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"CONTINUATION","continuationToken":"eA=="}]}`)
	}))
	defer s.Close()
	got, err := open(t, gemini.Config{BaseURL: s.URL}).Generate(t.Context(), full())
	if err != nil || got.Text != "half" || got.Finish != pipeline.FinishOther || requests != 1 {
		t.Errorf("got %+v, %v after %d requests", got, err, requests)
	}
}

func TestGenerate_conversations(t *testing.T) {
	model := open(t, gemini.Config{BaseURL: "http://127.0.0.1:1"})
	for want, messages := range map[string][]pipeline.Message{
		"message 2 is a system message": {{Role: "user", Content: "a"}, {Role: "system", Content: "b"}},
		"only system messages":          {{Role: "system", Content: "a"}},
	} {
		_, err := model.Generate(t.Context(), pipeline.Request{Messages: messages})
		coded, ok := err.(interface{ ExitCode() int })
		if !ok || coded.ExitCode() != 64 || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// golden compares JSON with a file that holds it indented: names, order and
// digits count, space and escapes do not.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if !bytes.HasSuffix(indented.Bytes(), []byte("\n")) {
		indented.WriteByte('\n')
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("%s:\n%s", path, diff)
	}
}
