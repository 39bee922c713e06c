package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

func TestOpenAI_contract(t *testing.T) {
	runContract(t, func(t *testing.T, baseURL string) pipeline.Model {
		return openOpenAIAt(t, modelConfig{BaseURL: baseURL + "/v1"})
	}, openaiWire())
}

func FuzzOpenAI(f *testing.F) {
	fuzzModel(f, func(t testing.TB, client *http.Client) pipeline.Model {
		return openOpenAIAt(t, modelConfig{HTTPClient: client})
	}, openaiWire())
}

// openOpenAIAt opens a model with contractKey and defaults for tests.
func openOpenAIAt(t testing.TB, cfg modelConfig) pipeline.Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "o3-mini" // a name for which go-openai changes parameters
	}
	cfg.APIKey = secret.New(contractKey)
	model, err := newOpenAI(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func openaiWire() wireForm {
	return wireForm{
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
			return mustJSON(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
		},
		Temperature: []string{"temperature"}, TopP: []string{"top_p"},
		KeyVariable: "OPENAI_API_KEY",
	}
}

// completion returns an answer of one choice with that message.
func completion(message map[string]any, finish string) string {
	message["role"] = "assistant"
	return mustJSON(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1772600767, "model": "o3-mini-2025-01-31",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish, "logprobs": nil}},
		"usage": map[string]any{
			"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160,
			"prompt_tokens_details":     map[string]any{"cached_tokens": 40},
			"completion_tokens_details": map[string]any{"reasoning_tokens": 25},
		},
	})
}

func mustJSON(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

var update = flag.Bool("update", false, "write the golden files anew")

// fullOpenAI returns a request with all fields.
func fullOpenAI() pipeline.Request {
	return pipeline.Request{
		Messages: []pipeline.Message{
			{Role: "system", Content: "Extract <entities> & relationships as JSON: {\"a\": 1}"},
			{Role: "user", Content: "Ann works for Acmé 日本.\n\u2028"},
			{Role: "assistant", Content: ""},
			{Role: "user", Content: "again"},
		},
		Parameters: pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0), MaxTokens: new(4096), Seed: new(int64(9007199254740993))},
		// The keys are not in alphabetical order, and must stay so.
		Schema: &pipeline.Schema{Name: "extraction", JSON: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"anyOf":[{"type":"null"}]}},"required":["zeta","alpha"],"additionalProperties":false}`)},
	}
}

func TestOpenAI_request(t *testing.T) {
	for name, c := range map[string]struct {
		cfg modelConfig
		req pipeline.Request
	}{
		"full":              {modelConfig{Model: "gpt-4o"}, fullOpenAI()},
		"minimal":           {modelConfig{Model: "gpt-4o"}, pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "hello"}}}},
		"completion_tokens": {modelConfig{Model: "gpt-5", Capabilities: pipeline.Capabilities{MaxCompletionTokens: true}}, fullOpenAI()},
		"max_tokens":        {modelConfig{Model: "o1", Capabilities: pipeline.Capabilities{}}, fullOpenAI()},
		"retired_name":      {modelConfig{Model: "text-davinci-003"}, fullOpenAI()},
		"no_schema":         {modelConfig{Model: "local", Capabilities: pipeline.Capabilities{NoSchema: true}}, fullOpenAI()},
		"warm":              {modelConfig{Model: "gpt-6-sol"}, pipeline.Request{Messages: fullOpenAI().Messages[:2], Parameters: pipeline.Parameters{Temperature: new(0.7), TopP: new(0.95)}}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen *http.Request
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				seen = r
				_, _ = io.WriteString(w, openaiWire().Answer("ok"))
			})
			c.cfg.BaseURL = s.URL + "/v1/"
			if _, err := openOpenAIAt(t, c.cfg).Generate(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			got := s.onlyBody(t)
			checkGolden(t, filepath.Join("testdata", "openai", name+".json"), got)
			if seen.Method != "POST" || seen.URL.String() != "/v1/chat/completions" || seen.Header.Get("Content-Type") != "application/json" ||
				seen.Header.Get("Authorization") != "Bearer "+contractKey || int(seen.ContentLength) != len(got) {
				t.Errorf("got %s %s %v", seen.Method, seen.URL, seen.Header)
			}
		})
	}
}

func TestOpenAI_addresses(t *testing.T) {
	header := map[string]secret.Secret{"X-Gateway": secret.New("tenant-7"), "api-version": secret.New("9")}
	for name, c := range map[string]struct {
		cfg      modelConfig
		path     string
		url, key string // the requested URL, and the header with the key
	}{
		"deployment":           {modelConfig{Model: "my gpt/4:x", Azure: true, APIVersion: "2024-10-21"}, "", "/openai/deployments/my%20gpt%2F4:x/chat/completions?api-version=2024-10-21", "Api-Key"},
		"deployment, openai":   {modelConfig{Model: "d", Azure: true, APIVersion: "2024-10-21"}, "/openai/", "/openai/deployments/d/chat/completions?api-version=2024-10-21", "Api-Key"},
		"azure v1":             {modelConfig{Model: "d", Azure: true}, "/openai/v1/", "/openai/v1/chat/completions", "Api-Key"},
		"azure v1, preview":    {modelConfig{Model: "d", Azure: true, APIVersion: "preview"}, "/openai/v1", "/openai/v1/chat/completions?api-version=preview", "Api-Key"},
		"below a path":         {modelConfig{}, "/api/v1", "/api/v1/chat/completions", "Authorization"},
		"o-name on deployment": {modelConfig{Model: "o1-mini", Azure: true, APIVersion: "1"}, "", "/openai/deployments/o1-mini/chat/completions?api-version=1", "Api-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != c.url {
					t.Errorf("got %s, want %s", r.RequestURI, c.url)
				}
				for _, name := range []string{"Api-Key", "Authorization"} {
					if has := strings.Contains(r.Header.Get(name), contractKey); has != (name == c.key) {
						t.Errorf("%s: %q", name, r.Header.Get(name))
					}
				}
				if r.Header.Get("X-Gateway") != "tenant-7" || r.Header.Get("Api-Version") != "9" {
					t.Errorf("headers are missing: %v", r.Header)
				}
				_, _ = io.WriteString(w, openaiWire().Answer("ok"))
			})
			c.cfg.BaseURL, c.cfg.Headers = s.URL+c.path, header
			if _, err := openOpenAIAt(t, c.cfg).Generate(t.Context(), fullOpenAI()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOpenAI_refusedByCapabilities(t *testing.T) {
	model := openOpenAIAt(t, modelConfig{BaseURL: "http://127.0.0.1:1", Capabilities: pipeline.Capabilities{NoTemperature: true}})
	_, err := model.Generate(t.Context(), fullOpenAI())
	if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), "no temperature") {
		t.Errorf("got %v", err)
	}
}

func TestOpenAI_response(t *testing.T) {
	got, err := askOpenAI(t, 200, openaiWire().Answer("ok"))
	want := pipeline.Response{
		Text: "ok", Finish: pipeline.FinishStop, Model: "o3-mini-2025-01-31", Attempts: 1,
		Usage: outcome.Usage{Input: 100, Output: 60, Cached: 40, Reasoning: 25},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// checkGolden compares JSON with a golden file of indented JSON: names, order and digits count,
// space does not.
func checkGolden(t *testing.T, path string, got []byte) {
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

// askOpenAI sends one request to a server with this answer.
func askOpenAI(t *testing.T, status int, body string) (pipeline.Response, error) {
	t.Helper()
	s := serve(t, reply(status, body))
	got, err := openOpenAIAt(t, modelConfig{BaseURL: s.URL}).Generate(t.Context(), fullOpenAI())
	s.onlyBody(t)
	return got, err
}

func TestOpenAI_finish(t *testing.T) {
	for reason, want := range map[string]pipeline.Finish{
		"stop": "stop", "length": "length", "content_filter": "refused", "tool_calls": "other", "": "other", "null": "other",
		// Mistral; and Anthropic's own words, which some gateways pass on.
		"model_length": "length", "max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused",
	} {
		if got, err := askOpenAI(t, 200, completion(map[string]any{"content": "text"}, reason)); err != nil || got.Finish != want || got.Text != "text" {
			t.Errorf("%q: got %+v, %v", reason, got, err)
		}
	}
}

// TestOpenAI_brokenOff checks that an answer that the server itself broke off is a failure of the provider,
// with what was paid, and no answer of the model.
func TestOpenAI_brokenOff(t *testing.T) {
	const upstream = `{"choices":[{"message":{"content":"{\"entities\": [{"},"finish_reason":"error","error":{"code":502,"message":"Upstream idle timeout"}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`
	for body, want := range map[string]string{
		upstream: `broke off its answer (finish reason "error"): Upstream idle timeout`,
		completion(map[string]any{"content": "{"}, "insufficient_system_resource"): `(finish reason "insufficient_system_resource")`,
		completion(map[string]any{"content": ""}, "abort"):                         `(finish reason "abort")`,
	} {
		got, err := askOpenAI(t, 200, body)
		failed := modelFailure(t, err)
		if failed.Failure.Class != outcome.Provider || !failed.Retry || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %+v, %v", body, failed, err)
		}
		if got.Usage.Input == 0 || got.Finish != pipeline.FinishOther {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// TestOpenAI_notFinished checks that status 400 for a limit of tokens that reasoning used up is an answer that was
// cut, of unknown cost.
func TestOpenAI_notFinished(t *testing.T) {
	got, err := askOpenAI(t, 400, openaiWire().Error("Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens."))
	if want := (pipeline.Response{Finish: pipeline.FinishLength, Attempts: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestOpenAI_usedUp checks that an account without credit stops the run, whatever the status.
func TestOpenAI_usedUp(t *testing.T) {
	for body, status := range map[string]int{
		`{"error":{"message":"Your account is not active, please check your billing details.","type":"billing_not_active","code":null}}`:   429,
		`{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}`:                                          429,
		`{"code":"exhausted","error":"Your team has either used all available credits or reached its monthly spending limit."}`:            429,
		`{"error":{"message":"Your credit balance is too low to access the Anthropic API.","type":"invalid_request_error"}}`:               400,
		`{"error":{"message":"You have reached your specified API usage limits. You will regain access.","type":"invalid_request_error"}}`: 400,
		`{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`:   400,
	} {
		_, err := askOpenAI(t, status, body)
		failed := modelFailure(t, err)
		if failed.Retry || !failed.Unauthorised || !strings.Contains(err.Error(), "the account of OPENAI_API_KEY has no credit left") {
			t.Errorf("%s: got %+v, %v", body, failed, err)
		}
	}
}

func TestOpenAI_texts(t *testing.T) {
	for body, want := range map[string]pipeline.Response{
		`{"choices":[{"message":{"content":[{"type":"text","text":"in "},{"type":"text","text":"parts"}]},"finish_reason":"stop"}]}`: {Text: "in parts", Finish: "stop", Attempts: 1},
		`{"choices":[{"message":{"content":"a","refusal":"no"},"finish_reason":"stop"}]}`:                                            {Text: "a", Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`:                                           {Text: "no", Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`:                                                  {Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":"first"}},{"message":{"content":"second"}}]}`:                                             {Text: "first", Finish: "other", Attempts: 1},
		`{"choices":[{"message":{"content":"text","reasoning_content":"thought"},"finish_reason":"stop"}]} trailing`:                 {Text: "text", Finish: "stop", Attempts: 1},
		`{"choices":[{"message":{"content":"text","refusal":false},"finish_reason":0}]}`:                                             {Text: "text", Finish: "other", Attempts: 1},
		`{"choices":[{"message":{"content":"text","refusal":{}},"finish_reason":["stop"]}]}`:                                         {Text: "text", Finish: "other", Attempts: 1},
	} {
		if got, err := askOpenAI(t, 200, body); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
}

func TestOpenAI_usage(t *testing.T) {
	for counts, want := range map[string]outcome.Usage{
		`{}`:   {},
		`null`: {},
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`: {Input: 10, Output: 5},
		// OpenAI: the 5 include the 3 tokens of reasoning, the total is 10 + 5.
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 5, Reasoning: 3},
		// xAI: they do not, the total is 10 + 5 + 3; output is 5 + 3.
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 8, Reasoning: 3},
		// Google's compatible endpoint leaves its thoughts out, and tells them by the total alone.
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":65}`:                                      {Input: 10, Output: 55},
		`{"completion_tokens":5,"total_tokens":65}`:                                                         {Output: 5},
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1e12}`:                                    {},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":null}`: {Input: 10, Cached: 4},
		// DeepSeek and Moonshot count what was cached beside the prompt.
		`{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}`: {Input: 10, Cached: 4, Output: 5},
		`{"prompt_tokens":10,"completion_tokens":5,"cached_tokens":4}`:                                        {Input: 10, Cached: 4, Output: 5},
		// Parts are cut to the whole; impossible numbers count as none, and are reported.
		`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":9},"prompt_tokens_details":{"cached_tokens":7}}`: {Input: 1, Cached: 1, Output: 2, Reasoning: 2},
		`{"prompt_tokens":-100,"completion_tokens":2}`:                                  {},
		`{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`: {},
		`{"prompt_tokens":1e30,"completion_tokens":-1e30}`:                              {},
		// Some servers write counts in another form.
		`{"prompt_tokens":"10","completion_tokens":5.0,"total_tokens":null}`: {Input: 10, Output: 5},
		`{"prompt_tokens":10.5,"completion_tokens":5}`:                       {},
		`{"prompt_tokens":"many","completion_tokens":5}`:                     {},
		`{"prompt_tokens":10,"prompt_tokens_details":"none"}`:                {},
		`[]`:    {},
		`"n/a"`: {},
	} {
		got, err := askOpenAI(t, 200, `{"choices":[{"message":{"content":"x"}}],"usage":`+counts+`}`)
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
		if odd := want == (outcome.Usage{}) && counts != "{}" && counts != "null"; odd != (got.UsageProblem != "") {
			t.Errorf("%s: odd is %q", counts, got.UsageProblem)
		}
		// The usage of an empty answer is known as well.
		got, err = askOpenAI(t, 200, `{"choices":[],"usage":`+counts+`}`)
		if err == nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
	}
}

// TestOpenAI_errorBodies checks the failures for errors of OpenAI and compatible servers.
func TestOpenAI_errorBodies(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		class  outcome.Class
		retry  bool
		want   string
	}{
		"wrong key":              {401, `{"error":{"message":"Incorrect API key provided: sk-a***b.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, outcome.Provider, false, "Incorrect API key provided: sk-a***b.; check OPENAI_API_KEY"},
		"context too long":       {400, `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, outcome.Provider, false, "maximum context length"},
		"no credit":              {429, `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}`, outcome.RateLimited, false, "no credit left"},
		"no credit, 402":         {402, `{"error":{"message":"Insufficient Balance"}}`, outcome.Provider, false, "402: Insufficient Balance; the account of OPENAI_API_KEY has no credit left"},
		"credit held, 402":       {402, `{"error":{"code":402,"message":"This request would exceed your available credits given your current in-flight requests.","metadata":{"reason":"in_flight_budget_exhausted","limit_source":"openrouter_in_flight_budget"}}}`, outcome.RateLimited, true, "402: This request would exceed your available credits given your current in-flight requests."},
		"no schemas":             {400, `{"error":{"message":"'response_format' of type 'json_schema' is not supported with this model"}}`, outcome.Provider, false, "no_schema: true in the file of EXPERIMENT_MODELS_FILE"},
		"requests":               {429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`, outcome.RateLimited, true, "Rate limit reached"},
		"messages in a list":     {400, `{"error":{"message":["a is wrong","b is wrong"]}}`, outcome.Provider, false, `400: ["a is wrong","b is wrong"]`},
		"error is a text":        {404, `{"error":"model 'x' not found"}`, outcome.Provider, false, "404: model 'x' not found"},
		"FastAPI":                {422, `{"detail":[{"loc":["body","temperature"],"msg":"must be less than 2"}]}`, outcome.Provider, false, "must be less than 2"},
		"a number as the code":   {400, `{"object":"error","message":"bad request","code":40001}`, outcome.Provider, false, "400: bad request"},
		"a message of a type":    {500, `{"error":{"message":{"a":1}}}`, outcome.Provider, true, `500: {"a":1}`},
		"error null":             {500, `{"error":null}`, outcome.Provider, true, `500: {"error":null}`},
		"a gateway's 200":        {200, `{"error":{"message":"Provider returned error","code":502}}`, outcome.Provider, true, "answered with an error: Provider returned error"},
		"a gateway's limit":      {200, `{"error":{"message":"Rate limit exceeded","code":429}}`, outcome.RateLimited, true, "answered with an error: Rate limit exceeded"},
		"a gateway's refusal":    {200, `{"error":{"message":"Bad request","code":400}}`, outcome.Provider, false, "answered with an error: Bad request"},
		"a code of its own":      {200, `{"error":{"message":"Odd","code":40001}}`, outcome.Provider, false, "answered with an error: Odd"},
		"too large for a minute": {429, `{"error":{"message":"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 30601. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}`, outcome.Provider, false, "; it alone exceeds what the account may use in a minute"},
		"another limit":          {400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"unsupported_parameter"}}`, outcome.Provider, false, "; say max_completion_tokens: true of the model in the file of EXPERIMENT_MODELS_FILE"},
		"no schemas, shorter":    {400, `{"error":{"message":"This model does not support response format json_schema"}}`, outcome.Provider, false, "no_schema: true in the file of EXPERIMENT_MODELS_FILE"},
		"only blank lines":       {200, "\n\n \n", outcome.Provider, true, "is empty"},
		"an answer that is cut":  {200, openaiWire().Answer("ok")[:90], outcome.Provider, true, "unexpected EOF"},
		"no temperature":         {400, `{"error":{"message":"` + "`temperature`" + ` is deprecated for this model.","type":"invalid_request_error"}}`, outcome.Provider, false, "; leave the temperature out, or say no_temperature: true of the model in the file of EXPERIMENT_MODELS_FILE"},
		"no JSON, Groq":          {400, `{"error":{"message":"Failed to generate JSON. Please adjust your prompt.","type":"invalid_request_error","code":"json_validate_failed","failed_generation":"{"}}`, outcome.InvalidOutput, true, "400: Failed to generate JSON."},
		"a schema too large":     {400, `{"error":{"message":"Invalid schema for response_format 'extraction': Expected at most 500 enum values"}}`, outcome.Provider, false, "no_schema: true"},
		"tokens, vLLM":           {400, `{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens.","code":400}`, outcome.Provider, false, "4096 tokens."},
		"error of another shape": {200, `{"error":"nope"}`, outcome.Provider, false, "answered with an error: nope"},
	} {
		_, err := askOpenAI(t, c.status, c.body)
		failed := modelFailure(t, err)
		if failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, failed, err)
		}
		if name == "tokens, vLLM" && strings.Contains(err.Error(), "EXPERIMENT_MODELS_FILE") {
			t.Errorf("%s: the advice is wrong: %v", name, err)
		}
	}
}

// TestOpenAI_azureFilter checks that status 400 of the filter of prompts of Azure is a refusal of
// unknown cost.
func TestOpenAI_azureFilter(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"The prompt triggered the policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`,
		`{"error":{"message":"The prompt triggered the policy.","code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
	} {
		got, err := askOpenAI(t, 400, body)
		if want := (pipeline.Response{Text: "The prompt triggered the policy.", Finish: pipeline.FinishRefused, Attempts: 1}); err != nil || got != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestOpenAI_moderation checks that status 403 is a refusal that costs nothing if OpenRouter's moderation
// declined the input, and otherwise a failure that may be that of the key.
func TestOpenAI_moderation(t *testing.T) {
	got, err := askOpenAI(t, 403, `{"error":{"code":403,"message":"Input was flagged","metadata":{"reasons":["violence"],"flagged_input":"He shot …"}}}`)
	if err != nil || got.CostUSD == nil || *got.CostUSD != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	got.CostUSD = nil
	if want := (pipeline.Response{Text: "Input was flagged", Finish: pipeline.FinishRefused, Attempts: 1}); got != want {
		t.Errorf("got %+v", got)
	}
	_, err = askOpenAI(t, 403, `{"error":{"code":403,"message":"Key limit exceeded","metadata":{"provider_name":null}}}`)
	if failed := modelFailure(t, err); failed.Status != 403 || !strings.Contains(err.Error(), "check OPENAI_API_KEY") {
		t.Errorf("got %+v", failed)
	}
}

// TestOpenAI_clientTimeout checks the failure if the HTTP client times out before the context does.
func TestOpenAI_clientTimeout(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	model := openOpenAIAt(t, modelConfig{BaseURL: s.URL, HTTPClient: &http.Client{Timeout: 30 * time.Millisecond}})
	got, err := model.Generate(t.Context(), fullOpenAI())
	if failed := modelFailure(t, err); failed.Failure.Class != outcome.Timeout || !failed.Retry || errors.Is(err, context.DeadlineExceeded) || got.Attempts != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestOpenAI_headersStaySecret checks that no message shows the values of configured headers.
func TestOpenAI_headersStaySecret(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "refused "+r.Header.Get("Authorization")+" and "+r.Header.Get("X-Key"))
	})
	_, err := openOpenAIAt(t, modelConfig{BaseURL: s.URL, Headers: map[string]secret.Secret{
		"authorization": secret.New("Bearer gateway-secret"), "x-key": secret.New("another-secret"),
	}}).Generate(t.Context(), fullOpenAI())
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "refused *** and ***") {
		t.Errorf("got %v", err)
	}
}

// TestOpenAI_headersInAnswers checks that an answer keeps the words of a header that holds no key,
// while messages show no header at all.
func TestOpenAI_headersInAnswers(t *testing.T) {
	const text = "Siemens Energy, abcdefgh-key and tenant-id-7"
	headers := map[string]secret.Secret{
		"X-Team": secret.New("Siemens Energy"), "X-Key": secret.New("abcdefgh-key"), "X-Tenant": secret.New("tenant-id-7"),
	}
	for status, want := range map[int]string{200: "Siemens Energy, *** and ***", 400: "400: ***, *** and ***"} {
		s := serve(t, reply(status, openaiWire().Answer(text)))
		if status != 200 {
			s = serve(t, reply(status, openaiWire().Error(text)))
		}
		got, err := openOpenAIAt(t, modelConfig{BaseURL: s.URL, Headers: headers}).Generate(t.Context(), fullOpenAI())
		if err != nil {
			got.Text = err.Error()
		}
		if !strings.HasSuffix(got.Text, want) {
			t.Errorf("%d: got %q", status, got.Text)
		}
	}
}

func TestOpenAI_problems(t *testing.T) {
	key := secret.New(contractKey)
	for name, c := range map[string]struct {
		cfg  modelConfig
		want []string // one part of each line
	}{
		"nothing":           {modelConfig{}, []string{"name is missing", "set OPENAI_API_KEY"}},
		"blanks":            {modelConfig{Model: " ", BaseURL: "http://x"}, []string{"name is missing"}},
		"everything":        {modelConfig{APIKey: secret.New("a\nb"), BaseURL: "localhost:8080", APIVersion: "1", Headers: map[string]secret.Secret{"a:": key, "b": secret.New("\x00")}}, []string{"http:// or https:// and a host", "the key (OPENAI_API_KEY)", `"a:" is not one`, `"b" contains`, "name is missing", "OPENAI_API_VERSION is for Azure only: set OPENAI_API_TYPE=azure"}},
		"azure":             {modelConfig{Model: "m", Azure: true}, []string{"(OPENAI_BASE_URL): it must be an address", "set OPENAI_API_KEY", "an api-version (OPENAI_API_VERSION)"}},
		"version in a URL":  {modelConfig{Model: "m", APIKey: key, BaseURL: "https://x/v1?api-version=1"}, []string{"must not have a query"}},
		"password in a URL": {modelConfig{Model: "m", APIKey: key, BaseURL: "https://u:" + contractKey + "@x/v1"}, []string{"holds a password"}},
		"no URL":            {modelConfig{Model: "m", APIKey: key, BaseURL: "http://%zz" + contractKey}, []string{"cannot be read"}},
		"headers of HTTP":   {modelConfig{Model: "m", APIKey: key, Headers: map[string]secret.Secret{"content-length": key, "Trailer": key, "Transfer-Encoding": key, "Host": key}}, []string{`"Trailer" cannot be set`, `"Transfer-Encoding" cannot be set`, `"content-length" cannot be set`}},
		"OpenAI, no key":    {modelConfig{Model: "m", BaseURL: "https://api.openai.com/v1/"}, []string{"set OPENAI_API_KEY"}},
	} {
		model, err := newOpenAI(c.cfg)
		checkProblems(t, name, model, err, c.want)
	}
	if _, err := newOpenAI(modelConfig{Model: "llama3", BaseURL: "http://127.0.0.1:11434/v1"}); err != nil {
		t.Errorf("a local server needs no key: %v", err)
	}
}
