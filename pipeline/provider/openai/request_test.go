package openai_test

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
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/providertest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// full is a request with everything in it.
func full() pipeline.Request {
	return pipeline.Request{
		Messages: []pipeline.Message{
			{Role: "system", Content: "Extract <entities> & relationships as JSON: {\"a\": 1}"},
			{Role: "user", Content: "Ann works for Acmé 日本.\n\u2028"},
			{Role: "assistant", Content: ""},
			{Role: "user", Content: "again"},
		},
		Parameters: pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0), MaxTokens: new(4096), Seed: new(int64(9007199254740993))},
		// The keys are not in the order of the alphabet, and must stay so.
		Schema: &pipeline.Schema{Name: "extraction", JSON: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"anyOf":[{"type":"null"}]}},"required":["zeta","alpha"],"additionalProperties":false}`)},
	}
}

func TestGenerate_request(t *testing.T) {
	for name, c := range map[string]struct {
		cfg openai.Config
		req pipeline.Request
	}{
		"full":              {openai.Config{Model: "gpt-4o"}, full()},
		"minimal":           {openai.Config{Model: "gpt-4o"}, pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "hello"}}}},
		"completion_tokens": {openai.Config{Model: "gpt-5", Capabilities: pipeline.Capabilities{MaxCompletionTokens: true}}, full()},
		"max_tokens":        {openai.Config{Model: "o1", Capabilities: pipeline.Capabilities{}}, full()},
		"retired_name":      {openai.Config{Model: "text-davinci-003"}, full()},
		"instruction_only":  {openai.Config{Model: "local", Capabilities: pipeline.Capabilities{NoSchema: true, InstructionOnly: true}}, full()},
		"warm":              {openai.Config{Model: "gpt-6-sol"}, pipeline.Request{Messages: full().Messages[:2], Parameters: pipeline.Parameters{Temperature: new(0.7), TopP: new(0.95)}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			var seen *http.Request
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = r
				got = read(t, r)
				_, _ = io.WriteString(w, wire().Answer("ok"))
			}))
			defer s.Close()
			c.cfg.BaseURL = s.URL + "/v1/"
			if _, err := open(t, c.cfg).Generate(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".json"), got)
			if seen.Method != "POST" || seen.URL.String() != "/v1/chat/completions" || seen.Header.Get("Content-Type") != "application/json" ||
				seen.Header.Get("Authorization") != "Bearer "+providertest.Key || int(seen.ContentLength) != len(got) {
				t.Errorf("got %s %s %v", seen.Method, seen.URL, seen.Header)
			}
		})
	}
}

func TestGenerate_addresses(t *testing.T) {
	header := map[string]secret.Secret{"X-Gateway": secret.New("tenant-7"), "api-version": secret.New("9")}
	for name, c := range map[string]struct {
		cfg      openai.Config
		path     string
		url, key string // what is asked, and the header with the key
	}{
		"deployment":           {openai.Config{Model: "my gpt/4:x", Azure: true, APIVersion: "2024-10-21"}, "", "/openai/deployments/my%20gpt%2F4:x/chat/completions?api-version=2024-10-21", "Api-Key"},
		"deployment, openai":   {openai.Config{Model: "d", Azure: true, APIVersion: "2024-10-21"}, "/openai/", "/openai/deployments/d/chat/completions?api-version=2024-10-21", "Api-Key"},
		"azure v1":             {openai.Config{Model: "d", Azure: true}, "/openai/v1/", "/openai/v1/chat/completions", "Api-Key"},
		"azure v1, preview":    {openai.Config{Model: "d", Azure: true, APIVersion: "preview"}, "/openai/v1", "/openai/v1/chat/completions?api-version=preview", "Api-Key"},
		"below a path":         {openai.Config{}, "/api/v1", "/api/v1/chat/completions", "Authorization"},
		"o-name on deployment": {openai.Config{Model: "o1-mini", Azure: true, APIVersion: "1"}, "", "/openai/deployments/o1-mini/chat/completions?api-version=1", "Api-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != c.url {
					t.Errorf("got %s, want %s", r.RequestURI, c.url)
				}
				for _, name := range []string{"Api-Key", "Authorization"} {
					if has := strings.Contains(r.Header.Get(name), providertest.Key); has != (name == c.key) {
						t.Errorf("%s: %q", name, r.Header.Get(name))
					}
				}
				if r.Header.Get("X-Gateway") != "tenant-7" || r.Header.Get("Api-Version") != "9" {
					t.Errorf("headers are missing: %v", r.Header)
				}
				_, _ = io.WriteString(w, wire().Answer("ok"))
			}))
			defer s.Close()
			c.cfg.BaseURL, c.cfg.Headers = s.URL+c.path, header
			if _, err := open(t, c.cfg).Generate(t.Context(), full()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestGenerate_refusedByCapabilities(t *testing.T) {
	model := open(t, openai.Config{BaseURL: "http://127.0.0.1:1", Capabilities: pipeline.Capabilities{NoTemperature: true, NoSchema: true}})
	_, err := model.Generate(t.Context(), full())
	coded, ok := err.(interface{ ExitCode() int })
	if !ok || coded.ExitCode() != 64 || !strings.Contains(err.Error(), "no temperature") || !strings.Contains(err.Error(), "JSON Schema") {
		t.Errorf("got %v", err)
	}
}

func TestGenerate_response(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wire().Answer("ok")) }))
	defer s.Close()
	got, err := open(t, openai.Config{BaseURL: s.URL}).Generate(t.Context(), full())
	want := pipeline.Response{
		Text: "ok", Finish: pipeline.FinishStop, Model: "o3-mini-2025-01-31", Attempts: 1,
		Usage: outcome.Usage{Input: 100, Output: 60, Cached: 40, Reasoning: 25},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func read(t *testing.T, r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return body
}

// golden compares JSON with a file that holds it indented: names, order and
// digits count, space and escapes do not.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	indented.WriteByte('\n')
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
