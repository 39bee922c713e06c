package gemini_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/providertest"
)

// ask sends a small request to a server that answers so.
func ask(t *testing.T, status int, body string) (pipeline.Response, error) {
	t.Helper()
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	got, err := open(t, gemini.Config{BaseURL: s.URL}).Generate(t.Context(), full())
	if requests != 1 {
		t.Errorf("%d requests", requests)
	}
	return got, err
}

func TestGenerate_finish(t *testing.T) {
	for reason, want := range map[string]pipeline.Finish{
		"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refused", "RECITATION": "refused", "LANGUAGE": "refused",
		"BLOCKLIST": "refused", "PROHIBITED_CONTENT": "refused", "SPII": "refused", "OTHER": "other", "": "other", "NEW_ONE": "other",
		"FINISH_REASON_UNSPECIFIED": "other",
	} {
		if got, err := ask(t, 200, candidate("text", reason)); err != nil || got.Finish != want || got.Text != "text" {
			t.Errorf("%q: got %+v, %v", reason, got, err)
		}
	}
}

func TestGenerate_blockedSaysWhy(t *testing.T) {
	for body, want := range map[string]string{
		`{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"too rude"}}`:            "the prompt was blocked: SAFETY: too rude",
		`{"promptFeedback":{"blockReason":"OTHER"}}`:                                             "the prompt was blocked: OTHER",
		`{"candidates":[{"finishReason":"SPII","finishMessage":"a phone number"}]}`:              "the answer was blocked: SPII",
		`{"candidates":[],"promptFeedback":{"blockReason":"BLOCKLIST"},"usageMetadata":{}}`:      "the prompt was blocked: BLOCKLIST",
		`{"candidates":[{"finishReason":"SAFETY","content":{"parts":[{"thought":true}]}}]}`:      "the answer was blocked: SAFETY",
		`{"candidates":[{"finishReason":"SAFETY","content":{"parts":[{"text":"begun, and"}]}}]}`: "begun, and",
	} {
		if got, err := ask(t, 200, body); err != nil || got.Finish != pipeline.FinishRefused || got.Text != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
}

// TestGenerate_malformed: the library panics or fails on these.
func TestGenerate_malformed(t *testing.T) {
	for _, body := range []string{
		`null`, `{"candidates":"x"}`, `{"candidates":[null]}`, `{"candidates":[1]}`, `{"candidates":{"a":1}}`,
		`{"candidates":[{"content":7}]}`, `{"candidates":[{"content":{"parts":7}}]}`, `{"candidates":[{"content":{"parts":[7]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":7}]}}]}`, `{"candidates":[{"citationMetadata":[]}]}`, `{"usageMetadata":7}`,
		`{"usageMetadata":{"promptTokenCount":1e12}}`, `{"usageMetadata":{"promptTokenCount":0.5}}`,
	} {
		_, err := ask(t, 200, body)
		var failed *pipeline.ModelError
		if !errors.As(err, &failed) || failed.Failure.Class != outcome.Provider || failed.Retry || !strings.Contains(err.Error(), "not the expected JSON") {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

func TestGenerate_usage(t *testing.T) {
	for counts, want := range map[string]outcome.Usage{
		``: {},
		`"promptTokenCount":10,"candidatesTokenCount":5`:                               {Input: 10, Output: 5},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7`:        {Input: 10, Output: 12, Reasoning: 7},
		`"promptTokenCount":10,"toolUsePromptTokenCount":3,"thoughtsTokenCount":7`:     {Input: 13, Output: 7, Reasoning: 7},
		`"promptTokenCount":10,"cachedContentTokenCount":20`:                           {Input: 10, Cached: 10},
		`"promptTokenCount":-1,"candidatesTokenCount":-5,"cachedContentTokenCount":-1`: {},
	} {
		got, err := ask(t, 200, `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{`+counts+`}}`)
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
		// What an empty answer cost is known as well.
		got, err = ask(t, 200, `{"candidates":[],"usageMetadata":{`+counts+`}}`)
		if err == nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
	}
}

// TestGenerate_googleErrors: bodies as the Gemini API sends them.
func TestGenerate_googleErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		class  outcome.Class
		retry  bool
		after  time.Duration
		want   string
	}{
		"a wrong key is a 400": {
			400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`,
			outcome.Provider, false, 0, "API key not valid. Please pass a valid API key.; check GEMINI_API_KEY (or GOOGLE_API_KEY)",
		},
		"the pause stands in the body": {
			429, `{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"23.5s"}]}}`,
			outcome.RateLimited, true, 23500 * time.Millisecond, "Quota exceeded.; the server asks to wait 23.5s",
		},
		"the code in the body is another": {503, `{"error":{"code":200,"message":"overloaded","status":"UNAVAILABLE"}}`, outcome.Provider, true, 0, "503: overloaded"},
		"in a list":                       {400, `[{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}]`, outcome.Provider, false, 0, `400: Unknown name "x"`},
		"unknown model":                   {404, `{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}`, outcome.Provider, false, 0, `has the model "gemini-2.5-flash"`},
	} {
		_, err := ask(t, c.status, c.body)
		var failed *pipeline.ModelError
		if !errors.As(err, &failed) || failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || failed.RetryAfter != c.after || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, failed, err)
		}
	}
}

func TestNew_problems(t *testing.T) {
	key := secret.New(providertest.Key)
	for name, c := range map[string]struct {
		cfg  gemini.Config
		want []string
	}{
		"nothing":    {gemini.Config{}, []string{"name is missing", "set GEMINI_API_KEY or GOOGLE_API_KEY"}},
		"everything": {gemini.Config{Model: "a?b", APIKey: secret.New("a b"), BaseURL: "ftp://x", Headers: map[string]secret.Secret{"a b": key, "c": secret.New("x\ny")}}, []string{"character that no name has", "the key (GEMINI_API_KEY)", "needs http://", `"a b" is not one`, `"c" contains a line break`}},
		"dots":       {gemini.Config{Model: "../x", APIKey: key}, []string{"character that no name has"}},
		"prefix":     {gemini.Config{Model: "models/", APIKey: key}, []string{"name is missing"}},
		"password":   {gemini.Config{Model: "m", APIKey: key, BaseURL: "https://u:" + providertest.Key + "@x/"}, []string{"must not contain a user"}},
	} {
		model, err := gemini.New(c.cfg)
		if model != nil || err == nil {
			t.Fatalf("%s: got %v, %v", name, model, err)
		}
		coded, ok := err.(interface{ ExitCode() int })
		if lines := strings.Split(err.Error(), "\n"); !ok || coded.ExitCode() != 64 || len(lines) != len(c.want) || strings.Contains(err.Error(), providertest.Key) {
			t.Errorf("%s: got %q", name, lines)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
}

// TestNew_environment: what the library would read by itself does not count.
func TestNew_environment(t *testing.T) {
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_API_KEY", "another-key-of-the-environment")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "project")
	t.Setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
	if got, err := ask(t, 200, candidate("ok", "STOP")); err != nil || got.Text != "ok" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := gemini.New(gemini.Config{Model: "m"}); err == nil {
		t.Error("a key was taken from the environment")
	}
}
