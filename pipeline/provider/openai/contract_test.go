package openai_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T, baseURL string) pipeline.Model {
		return open(t, openai.Config{BaseURL: baseURL + "/v1"})
	}, wire())
}

func FuzzGenerate(f *testing.F) {
	providertest.Fuzz(f, func(t testing.TB, client *http.Client) pipeline.Model {
		return open(t, openai.Config{HTTPClient: client})
	}, wire())
}

// open fills in what every test wants.
func open(t testing.TB, cfg openai.Config) *openai.Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "o3-mini" // a name that go-openai has opinions about
	}
	cfg.APIKey, cfg.Now = secret.New(providertest.Key), providertest.Clock
	model, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func wire() providertest.Wire {
	return providertest.Wire{
		Answer: func(text string) string { return completion(map[string]any{"content": text}, "stop") },
		Cut:    func(text string) string { return completion(map[string]any{"content": text}, "length") },
		Refused: map[string]string{
			"refusal":        completion(map[string]any{"content": nil, "refusal": "I cannot help with that."}, "stop"),
			"content filter": completion(map[string]any{"content": "The first w"}, "content_filter"),
		},
		Empty: map[string]string{
			"no choices":      `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":3}}`,
			"choices of null": `{"choices":null}`,
			"null":            `null`,
			"empty object":    `{}`,
			"empty content":   completion(map[string]any{"content": ""}, "stop"),
			"null content":    completion(map[string]any{"content": nil}, "stop"),
			"only blanks":     `{"choices":[{"message":{"role":"assistant","content":""}}]}`,
			"tool calls":      completion(map[string]any{"content": nil, "tool_calls": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}}, "tool_calls"),
		},
		Error: func(message string) string {
			return encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
		},
		Temperature: []string{"temperature"}, TopP: []string{"top_p"},
		KeyVariable: "OPENAI_API_KEY",
	}
}

// completion is an answer of one choice.
func completion(message map[string]any, finish string) string {
	message["role"] = "assistant"
	return encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1772600767, "model": "o3-mini-2025-01-31",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish, "logprobs": nil}},
		"usage": map[string]any{
			"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160,
			"prompt_tokens_details":     map[string]any{"cached_tokens": 40},
			"completion_tokens_details": map[string]any{"reasoning_tokens": 25},
		},
	})
}

func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}
