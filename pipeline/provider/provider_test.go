package provider_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

func TestOpen_baseline(t *testing.T) {
	for _, spec := range []string{"baseline", " Baseline ", "BASELINE"} {
		opened, err := provider.Open(spec, provider.Config{})
		if err != nil {
			t.Fatalf("%q: %v", spec, err)
		}
		extractor, info := opened.Extractor, opened.Info
		if info.Provider != "baseline" || info.Model != "baseline" || !strings.HasPrefix(info.Pipeline, "baseline@") {
			t.Errorf("%q: %+v", spec, info)
		}
		_, calls, err := extractor.Extract(context.Background(), extraction.Document{Text: "Ann"})
		if err != nil || len(calls) != 1 {
			t.Errorf("%q: %v %v", spec, calls, err)
		}
	}
}

func TestOpen_unknown(t *testing.T) {
	for spec, nearest := range map[string]string{
		"basline": "baseline", "baseline/": "", "baseline/x": "",
		"": "", "gpt-9": "openai/gpt-9", " acme-xl ": "openai/acme-xl", "/": "", "acme/xl": "",
		strings.Repeat("日", 5000): "openai/日", "\xff": "openai/",
	} {
		opened, err := provider.Open(spec, provider.Config{})
		if opened.Extractor != nil || opened.Model != nil || cli.ExitCode(err) != 64 {
			t.Fatalf("%.20q: got %v, %v", spec, opened, err)
		}
		if message := err.Error(); len(message) > 400 || strings.Contains(message, `did you mean "`+nearest) != (nearest != "") || !strings.Contains(message, "there are: baseline") {
			t.Errorf("%.20q: message %q", spec, message)
		}
	}
	if _, err := provider.Open("anthropic/claude", provider.Config{}); !strings.Contains(err.Error(), "openai/NAME with OPENAI_BASE_URL") {
		t.Errorf("nothing says how to ask a compatible server: %v", err)
	}
}

func TestOpen_models(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "sk-1", "GOOGLE_API_KEY": "g-1"}
	cfg := provider.Config{
		Getenv: func(name string) string { return env[name] },
		Guess: func(model string) (string, bool) {
			if strings.HasPrefix(model, "gpt-") {
				return "openai", true
			}
			return "", false
		},
		Capabilities: func(model string) pipeline.Capabilities {
			return pipeline.Capabilities{NoSeed: model == "gpt-x"}
		},
	}
	for spec, want := range map[string]provider.Info{
		"openai/gpt-4o":   {Provider: "openai", Model: "gpt-4o"},
		"OpenAI/org/name": {Provider: "openai", Model: "org/name"},
		"gpt-x":           {Provider: "openai", Model: "gpt-x"},
		"gemini/g-2":      {Provider: "gemini", Model: "g-2"},
	} {
		opened, err := provider.Open(spec, cfg)
		if err != nil || opened.Info != want || opened.Model == nil || opened.Extractor != nil {
			t.Errorf("%s: %+v, %v", spec, opened.Info, err)
		}
		if opened.Capabilities.NoSeed != (want.Model == "gpt-x") {
			t.Errorf("%s: capabilities %+v", spec, opened.Capabilities)
		}
	}
	if _, err := provider.Open("openai/gpt-4o", provider.Config{}); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("without a key: %v", err)
	}
	env["OPENAI_API_TYPE"] = "Azure" // in any case, as the libraries of OpenAI read it
	if _, err := provider.Open("openai/deployment", cfg); err == nil || !strings.Contains(err.Error(), "OPENAI_API_VERSION") {
		t.Errorf("Azure: %v", err)
	}
}

// TestOpen_headers checks that the headers of OPENAI_EXTRA_HEADERS are sent with every request,
// override the default headers, and are in no error.
func TestOpen_headers(t *testing.T) {
	got := http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	t.Cleanup(server.Close)
	open := func(headers string) (provider.Opened, error) {
		env := map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": server.URL + "/v1", "OPENAI_EXTRA_HEADERS": headers}
		return provider.Open("openai/m", provider.Config{Getenv: func(name string) string { return env[name] }})
	}
	for headers, want := range map[string]http.Header{
		``: {"Authorization": {"Bearer sk-1"}},
		`{"X-Team":"knowledge","x-cost-centre":"7"}`: {"X-Team": {"knowledge"}, "X-Cost-Centre": {"7"}, "Authorization": {"Bearer sk-1"}},
		`{"Authorization":"Bearer gateway"}`:         {"Authorization": {"Bearer gateway"}},
	} {
		opened, err := open(headers)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opened.Model.Generate(t.Context(), pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "x"}}}); err != nil {
			t.Fatal(err)
		}
		for name, values := range want {
			if !slices.Equal(got[name], values) {
				t.Errorf("%s: %s is %q, want %q", headers, name, got[name], values)
			}
		}
	}
	for headers, want := range map[string]string{
		`[]`: "is not a JSON object of texts", `{"X":1}`: "is not a JSON object of texts", `{"X":"sesame"`: "is not a JSON object of texts",
		"{\"X\":\"sesame\\nY: z\"}": "contains a line break", `{"a b":"sesame"}`: `the header name "a b" is not one`, `{"":"sesame"}`: `the header name "" is not one`,
	} {
		if _, err := open(headers); cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want %q", headers, err, want)
		}
	}
}
