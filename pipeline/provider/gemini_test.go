package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

func TestGemini_contract(t *testing.T) {
	runContract(t, func(t *testing.T, baseURL string) pipeline.Model {
		return openGeminiAt(t, modelConfig{BaseURL: baseURL})
	}, geminiWire())
}

func FuzzGemini(f *testing.F) {
	for _, body := range []string{
		`{"candidates":"x"}`, `{"candidates":[1]}`, `{"candidates":[null]}`, `{"candidates":[{"content":7}]}`,
		`{"candidates":[{"content":{"parts":"x"}}]}`, `{"candidates":[{"content":{"parts":[3]}}]}`,
		`{"candidates":[{"continuationToken":"eA==","content":{"parts":[{"text":"x"}]}}]}`,
		`{"usageMetadata":{"promptTokenCount":-3},"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`,
	} {
		f.Add(200, "application/json", "", []byte(body))
	}
	fuzzModel(f, func(t testing.TB, client *http.Client) pipeline.Model {
		return openGeminiAt(t, modelConfig{HTTPClient: client})
	}, geminiWire())
}

// openGeminiAt opens a model with contractKey and defaults for tests.
func openGeminiAt(t testing.TB, cfg modelConfig) pipeline.Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "gemini-2.5-flash"
	}
	cfg.APIKey = secret.New(contractKey)
	model, err := newGemini(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func geminiWire() wireForm {
	return wireForm{
		Answer: func(text string) string { return candidate(text, "STOP") },
		Cut:    func(text string) string { return candidate(text, "MAX_TOKENS") },
		Refused: map[string]string{
			"blocked prompt":  `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4},"modelVersion":"gemini-2.5-flash"}`,
			"blocked answer":  `{"candidates":[{"finishReason":"SAFETY","index":0,"safetyRatings":[{"category":"HARM_CATEGORY_HARASSMENT","probability":"HIGH"}]}]}`,
			"recitation":      `{"candidates":[{"content":{},"finishReason":"RECITATION","citationMetadata":{"citationSources":[{"startIndex":1}]}}]}`,
			"blocked midways": candidate("The first w", "PROHIBITED_CONTENT"),
		},
		Empty: map[string]string{
			"no candidates":       `{"candidates":[],"usageMetadata":{"promptTokenCount":3}}`,
			"null":                `null`,
			"a candidate of null": `{"candidates":[null]}`,
			"none mentioned":      `{"modelVersion":"gemini-2.5-flash"}`,
			"empty object":        `{}`,
			"no content":          `{"candidates":[{"finishReason":"STOP"}]}`,
			"no parts":            `{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]}`,
			"empty text":          candidate("", "STOP"),
			"only thoughts":       `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]},"finishReason":"STOP"}]}`,
			"a malformed call":    `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print("}]}`,
			"wants to go on":      `{"candidates":[{"finishReason":"CONTINUATION","continuationToken":"eA=="}]}`,
			"unknown reason":      `{"candidates":[{"finishReason":"SOMETHING_NEW"}]}`,
			"picture and no text": `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"eA=="}}]},"finishReason":"STOP"}]}`,
		},
		Error: func(message string) string {
			return mustJSON(map[string]any{"error": map[string]any{"code": 400, "message": message, "status": "UNKNOWN"}})
		},
		Temperature: []string{"generationConfig", "temperature"}, TopP: []string{"generationConfig", "topP"},
		KeyVariable: "GEMINI_API_KEY",
	}
}

// candidate returns an answer of one candidate with that text.
func candidate(text, finish string) string {
	return mustJSON(map[string]any{
		"candidates": []any{map[string]any{
			"content":      map[string]any{"role": "model", "parts": []any{map[string]any{"text": "thinking", "thought": true}, map[string]any{"text": text}}},
			"finishReason": finish, "index": 0,
		}},
		"usageMetadata": map[string]any{
			"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 35,
			"thoughtsTokenCount": 25, "totalTokenCount": 160,
		},
		"modelVersion": "gemini-2.5-flash-001", "responseId": "r1",
	})
}

// fullGemini returns a request with all fields.
func fullGemini() pipeline.Request {
	return pipeline.Request{
		Messages: []pipeline.Message{
			{Role: "system", Content: "Extract <entities> & relationships as JSON: {\"a\": 1}"},
			{Role: "system", Content: "Be brief."},
			{Role: "user", Content: "Ann works for Acmé 日本.\n\u2028"},
			{Role: "assistant", Content: "{"},
			{Role: "user", Content: "again"},
		},
		Parameters: pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0), MaxTokens: new(4096), Seed: new(int64(42))},
		// The keys are not in alphabetical order, and must stay so.
		Schema: &pipeline.Schema{Name: "extraction", JSON: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"anyOf":[{"type":"null"}]}},"required":["zeta","alpha"],"additionalProperties":false}`)},
	}
}

func TestGemini_request(t *testing.T) {
	for name, c := range map[string]struct {
		cfg modelConfig
		req pipeline.Request
		url string
	}{
		"full":      {modelConfig{Model: "gemini-2.5-flash"}, fullGemini(), "/v1beta/models/gemini-2.5-flash:generateContent"},
		"minimal":   {modelConfig{Model: "models/gemini-1.5-pro"}, pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "hello"}}}, "/v1beta/models/gemini-1.5-pro:generateContent"},
		"no_schema": {modelConfig{Model: "tunedModels/mine", Capabilities: pipeline.Capabilities{NoSchema: true}}, fullGemini(), "/v1beta/tunedModels/mine:generateContent"},
	} {
		t.Run(name, func(t *testing.T) {
			var length int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				length = r.ContentLength
				if r.Method != "POST" || r.RequestURI != "/gateway"+c.url || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("got %s %s %v", r.Method, r.RequestURI, r.Header)
				}
				if r.Header.Get("X-Goog-Api-Key") != contractKey || r.Header.Get("X-Tenant") != "seven" {
					t.Errorf("headers: %v", r.Header)
				}
				_, _ = io.WriteString(w, geminiWire().Answer("ok"))
			})
			c.cfg.BaseURL, c.cfg.Headers = s.URL+"/gateway/", map[string]secret.Secret{"x-tenant": secret.New("seven")}
			if _, err := openGeminiAt(t, c.cfg).Generate(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			got := s.onlyBody(t)
			checkGolden(t, filepath.Join("testdata", "gemini", name+".json"), got)
			if int(length) != len(got) {
				t.Errorf("Content-Length is %d of %d", length, len(got))
			}
		})
	}
}

func TestGemini_response(t *testing.T) {
	got, err := askGemini(t, 200, geminiWire().Answer("ok"))
	want := pipeline.Response{
		Text: "ok", Finish: pipeline.FinishStop, Model: "gemini-2.5-flash-001", Attempts: 1,
		// 35 tokens of text and 25 of thinking are 60 of output.
		Usage: outcome.Usage{Input: 100, Output: 60, Cached: 40, Reasoning: 25},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestGemini_noContinuation checks that an answer that asks to be continued is returned as it is.
func TestGemini_noContinuation(t *testing.T) {
	got, err := askGemini(t, 200, `{"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"CONTINUATION","continuationToken":"eA=="}]}`)
	if err != nil || got.Text != "half" || got.Finish != pipeline.FinishOther {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestGemini_conversations(t *testing.T) {
	model := openGeminiAt(t, modelConfig{BaseURL: "http://127.0.0.1:1"})
	for want, messages := range map[string][]pipeline.Message{
		"message 2 is a system message": {{Role: "user", Content: "a"}, {Role: "system", Content: "b"}},
		"only system messages":          {{Role: "system", Content: "a"}},
	} {
		_, err := model.Generate(t.Context(), pipeline.Request{Messages: messages})
		if cli.ExitCode(err) != 64 || !limit.StopsRun(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// askGemini sends one request to a server with this answer.
func askGemini(t *testing.T, status int, body string) (pipeline.Response, error) {
	t.Helper()
	s := serve(t, reply(status, body))
	got, err := openGeminiAt(t, modelConfig{BaseURL: s.URL}).Generate(t.Context(), fullGemini())
	s.onlyBody(t)
	return got, err
}

func TestGemini_finish(t *testing.T) {
	for reason, want := range map[string]pipeline.Finish{
		"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refused", "RECITATION": "refused", "LANGUAGE": "refused",
		"BLOCKLIST": "refused", "PROHIBITED_CONTENT": "refused", "SPII": "refused", "OTHER": "other", "": "other", "NEW_ONE": "other",
		"FINISH_REASON_UNSPECIFIED": "other",
	} {
		if got, err := askGemini(t, 200, candidate("text", reason)); err != nil || got.Finish != want || got.Text != "text" {
			t.Errorf("%q: got %+v, %v", reason, got, err)
		}
	}
}

func TestGemini_blockedSaysWhy(t *testing.T) {
	for body, want := range map[string]string{
		`{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"too rude"}}`:            "the prompt was blocked: SAFETY: too rude",
		`{"promptFeedback":{"blockReason":"OTHER"}}`:                                             "the prompt was blocked: OTHER",
		`{"candidates":[{"finishReason":"SPII","finishMessage":"a phone number"}]}`:              "the answer was blocked: SPII",
		`{"candidates":[],"promptFeedback":{"blockReason":"BLOCKLIST"},"usageMetadata":{}}`:      "the prompt was blocked: BLOCKLIST",
		`{"candidates":[{"finishReason":"SAFETY","content":{"parts":[{"thought":true}]}}]}`:      "the answer was blocked: SAFETY",
		`{"candidates":[{"finishReason":"SAFETY","content":{"parts":[{"text":"begun, and"}]}}]}`: "begun, and",
	} {
		if got, err := askGemini(t, 200, body); err != nil || got.Finish != pipeline.FinishRefused || got.Text != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
}

func TestGemini_malformed(t *testing.T) {
	for _, body := range []string{
		`{"candidates":"x"}`, `{"candidates":[1]}`, `{"candidates":{"a":1}}`,
		`{"candidates":[{"content":7}]}`, `{"candidates":[{"content":{"parts":7}}]}`, `{"candidates":[{"content":{"parts":[7]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":7}]}}]}`, `{"modelVersion":7}`,
	} {
		_, err := askGemini(t, 200, body)
		failed := modelFailure(t, err)
		if failed.Failure.Class != outcome.Provider || failed.Retry || !strings.Contains(err.Error(), "not the expected JSON: ") ||
			!strings.Contains(err.Error(), ": unexpected ") || strings.Contains(err.Error(), "struct") {
			t.Errorf("%s: got %v", body, err)
		}
	}
	// What is cut or blank is asked for again.
	for _, body := range []string{`{"candidates":[{"content":{"parts":[{"te`, "\n\n"} {
		_, err := askGemini(t, 200, body)
		if failed := modelFailure(t, err); failed.Failure.Class != outcome.Provider || !failed.Retry {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

func TestGemini_usage(t *testing.T) {
	for counts, want := range map[string]outcome.Usage{
		``: {},
		`"promptTokenCount":10,"candidatesTokenCount":5`:                               {Input: 10, Output: 5},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7`:        {Input: 10, Output: 12, Reasoning: 7},
		`"promptTokenCount":10,"toolUsePromptTokenCount":3,"thoughtsTokenCount":7`:     {Input: 13, Output: 7, Reasoning: 7},
		`"promptTokenCount":10,"cachedContentTokenCount":20`:                           {Input: 10, Cached: 10},
		`"promptTokenCount":-1,"candidatesTokenCount":-5,"cachedContentTokenCount":-1`: {},
		`"promptTokenCount":"10","candidatesTokenCount":5.0`:                           {Input: 10, Output: 5},
		`"promptTokenCount":1e12`:                                                      {},
		`"promptTokenCount":0.5`:                                                       {},
	} {
		got, err := askGemini(t, 200, `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{`+counts+`}}`)
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
		// The usage of an empty answer is known as well.
		got, err = askGemini(t, 200, `{"candidates":[],"usageMetadata":{`+counts+`}}`)
		if err == nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
	}
}

// TestGemini_googleErrors checks the failures for errors in the forms of the Gemini API.
func TestGemini_googleErrors(t *testing.T) {
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
		"a schema too large":              {400, `{"error":{"code":400,"message":"The specified schema produces a constraint that has too many states for serving.","status":"INVALID_ARGUMENT"}}`, outcome.Provider, false, 0, "no_schema: true"},
		"the code in the body is another": {503, `{"error":{"code":200,"message":"overloaded","status":"UNAVAILABLE"}}`, outcome.Provider, true, 0, "503: overloaded"},
		"in a list":                       {400, `[{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}]`, outcome.Provider, false, 0, `400: Unknown name "x"`},
		"unknown model":                   {404, `{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}`, outcome.Provider, false, 0, `has the model "gemini-2.5-flash"`},
	} {
		_, err := askGemini(t, c.status, c.body)
		failed := modelFailure(t, err)
		if failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || failed.RetryAfter != c.after || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, failed, err)
		}
		if failed.Unauthorised != strings.Contains(c.body, "API_KEY_INVALID") {
			t.Errorf("%s: the key is refused: %v", name, failed.Unauthorised)
		}
	}
}

func TestGemini_problems(t *testing.T) {
	key := secret.New(contractKey)
	for name, c := range map[string]struct {
		cfg  modelConfig
		want []string
	}{
		"nothing":    {modelConfig{}, []string{"name is missing", "set GEMINI_API_KEY or GOOGLE_API_KEY"}},
		"everything": {modelConfig{Model: "a?b", APIKey: secret.New("a b"), BaseURL: "ftp://x", Headers: map[string]secret.Secret{"a b": key, "c": secret.New("x\ny")}}, []string{"character that no name has", "the key (GEMINI_API_KEY)", "http:// or https:// and a host", `"a b" is not one`, `"c" contains a line break`}},
		"dots":       {modelConfig{Model: "../x", APIKey: key}, []string{"character that no name has"}},
		"prefix":     {modelConfig{Model: "models/", APIKey: key}, []string{"name is missing"}},
		"password":   {modelConfig{Model: "m", APIKey: key, BaseURL: "https://u:" + contractKey + "@x/"}, []string{"holds a password"}},
	} {
		model, err := newGemini(c.cfg)
		checkProblems(t, name, model, err, c.want)
	}
}

// TestGemini_environment checks that variables of the libraries of Google have no effect.
func TestGemini_environment(t *testing.T) {
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_API_KEY", "another-key-of-the-environment")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "project")
	t.Setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
	if got, err := askGemini(t, 200, candidate("ok", "STOP")); err != nil || got.Text != "ok" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := newGemini(modelConfig{Model: "m"}); err == nil {
		t.Error("a key was taken from the environment")
	}
}
