package gemini_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/providertest"
)

func TestMain(m *testing.M) {
	// Started by a package that Google's library imports, for the program's life.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T, baseURL string) pipeline.Model {
		return open(t, gemini.Config{BaseURL: baseURL})
	}, wire())
}

func FuzzGenerate(f *testing.F) {
	for _, body := range []string{
		`{"candidates":"x"}`, `{"candidates":[1]}`, `{"candidates":[null]}`, `{"candidates":[{"content":7}]}`,
		`{"candidates":[{"content":{"parts":"x"}}]}`, `{"candidates":[{"content":{"parts":[3]}}]}`,
		`{"candidates":[{"continuationToken":"eA==","content":{"parts":[{"text":"x"}]}}]}`,
		`{"usageMetadata":{"promptTokenCount":-3},"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`,
	} {
		f.Add(200, "application/json", "", []byte(body))
	}
	providertest.Fuzz(f, func(t testing.TB, client *http.Client) pipeline.Model {
		return open(t, gemini.Config{HTTPClient: client})
	}, wire())
}

// open fills in what every test wants.
func open(t testing.TB, cfg gemini.Config) *gemini.Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "gemini-2.5-flash"
	}
	cfg.APIKey, cfg.Now = secret.New(providertest.Key), providertest.Clock
	model, err := gemini.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func wire() providertest.Wire {
	return providertest.Wire{
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
			return encode(map[string]any{"error": map[string]any{"code": 500, "message": message, "status": "UNKNOWN"}})
		},
		Temperature: []string{"generationConfig", "temperature"}, TopP: []string{"generationConfig", "topP"},
		KeyVariable: "GEMINI_API_KEY",
	}
}

// candidate is an answer of one candidate.
func candidate(text, finish string) string {
	return encode(map[string]any{
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

func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}
