package openai_test

import (
	"context"
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
	"extraction-experiment/pipeline/provider/openai"
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
	got, err := open(t, openai.Config{BaseURL: s.URL}).Generate(t.Context(), full())
	if requests != 1 {
		t.Errorf("%d requests", requests)
	}
	return got, err
}

func TestGenerate_finish(t *testing.T) {
	for reason, want := range map[string]pipeline.Finish{
		"stop": "stop", "length": "length", "content_filter": "refused", "tool_calls": "other",
		"insufficient_system_resource": "other", "": "other", "null": "other",
	} {
		if got, err := ask(t, 200, completion(map[string]any{"content": "text"}, reason)); err != nil || got.Finish != want || got.Text != "text" {
			t.Errorf("%q: got %+v, %v", reason, got, err)
		}
	}
}

func TestGenerate_texts(t *testing.T) {
	for body, want := range map[string]pipeline.Response{
		`{"choices":[{"message":{"content":[{"type":"text","text":"in "},{"type":"text","text":"parts"}]},"finish_reason":"stop"}]}`: {Text: "in parts", Finish: "stop", Attempts: 1},
		`{"choices":[{"message":{"content":"a","refusal":"no"},"finish_reason":"stop"}]}`:                                            {Text: "a", Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`:                                           {Text: "no", Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`:                                                  {Finish: "refused", Attempts: 1},
		`{"choices":[{"message":{"content":"first"}},{"message":{"content":"second"}}]}`:                                             {Text: "first", Finish: "other", Attempts: 1},
		`{"choices":[{"message":{"content":"text","reasoning_content":"thought"},"finish_reason":"stop"}]} trailing`:                 {Text: "text", Finish: "stop", Attempts: 1},
	} {
		if got, err := ask(t, 200, body); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
}

func TestGenerate_usage(t *testing.T) {
	for counts, want := range map[string]outcome.Usage{
		`{}`:   {},
		`null`: {},
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`: {Input: 10, Output: 5},
		// OpenAI: the 3 tokens of reasoning are among the 5, the total is 10 + 5.
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 5, Reasoning: 3},
		// xAI: they are not, the total is 10 + 5 + 3; output is 5 + 3.
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 8, Reasoning: 3},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":null}`:               {Input: 10, Cached: 4},
		// Parts are cut to the whole; numbers that cannot be count as none, and say so.
		`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":9},"prompt_tokens_details":{"cached_tokens":7}}`: {Input: 1, Cached: 1, Output: 2, Reasoning: 2},
		`{"prompt_tokens":-100,"completion_tokens":2}`:                                  {},
		`{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`: {},
	} {
		got, err := ask(t, 200, `{"choices":[{"message":{"content":"x"}}],"usage":`+counts+`}`)
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
		if odd := strings.Contains(counts, "-100") || strings.Contains(counts, "9223372036854775807"); odd != (got.Odd != "") {
			t.Errorf("%s: odd is %q", counts, got.Odd)
		}
		// What an empty answer cost is known as well.
		got, err = ask(t, 200, `{"choices":[],"usage":`+counts+`}`)
		if err == nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v", counts, got.Usage, err)
		}
	}
}

// TestGenerate_errorBodies: bodies as OpenAI and compatible servers send them.
func TestGenerate_errorBodies(t *testing.T) {
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
		"requests":               {429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`, outcome.RateLimited, true, "Rate limit reached"},
		"messages in a list":     {400, `{"error":{"message":["a is wrong","b is wrong"]}}`, outcome.Provider, false, "400: a is wrong, b is wrong"},
		"error is a text":        {404, `{"error":"model 'x' not found"}`, outcome.Provider, false, "404: model 'x' not found"},
		"FastAPI":                {422, `{"detail":[{"loc":["body","temperature"],"msg":"must be less than 2"}]}`, outcome.Provider, false, "must be less than 2"},
		"a number as the code":   {400, `{"object":"error","message":"bad request","code":40001}`, outcome.Provider, false, "400: bad request"},
		"a message of a type":    {500, `{"error":{"message":{"a":1}}}`, outcome.Provider, true, `500: {"a":1}`},
		"error null":             {500, `{"error":null}`, outcome.Provider, true, `500: {"error":null}`},
		"a gateway's 200":        {200, `{"error":{"message":"Provider returned error","code":502}}`, outcome.Provider, false, "answered with an error: Provider returned error"},
		"error of another shape": {200, `{"error":"nope"}`, outcome.Provider, false, "answered with an error: nope"},
	} {
		_, err := ask(t, c.status, c.body)
		var failed *pipeline.ModelError
		if !errors.As(err, &failed) || failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, failed, err)
		}
	}
}

// TestGenerate_azureFilter: the filter of prompts answers with a status of 400.
func TestGenerate_azureFilter(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"The prompt triggered the policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`,
		`{"error":{"message":"The prompt triggered the policy.","code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
	} {
		got, err := ask(t, 400, body)
		if want := (pipeline.Response{Text: "The prompt triggered the policy.", Finish: pipeline.FinishRefused, Attempts: 1}); err != nil || got != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestGenerate_clientTimeout: it is not the caller's context that ended it.
func TestGenerate_clientTimeout(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read(t, r) // only then does a server notice that its client has gone
		<-r.Context().Done()
	}))
	defer s.Close()
	model := open(t, openai.Config{BaseURL: s.URL, HTTPClient: &http.Client{Timeout: 30 * time.Millisecond}})
	got, err := model.Generate(t.Context(), full())
	var failed *pipeline.ModelError
	if !errors.As(err, &failed) || failed.Failure.Class != outcome.Timeout || !failed.Retry || errors.Is(err, context.DeadlineExceeded) || got.Attempts != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestGenerate_headersStaySecret: the keys of gateways do not show either.
func TestGenerate_headersStaySecret(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "refused "+r.Header.Get("Authorization")+" and "+r.Header.Get("X-Key"))
	}))
	defer s.Close()
	_, err := open(t, openai.Config{BaseURL: s.URL, Headers: map[string]secret.Secret{
		"authorization": secret.New("Bearer gateway-secret"), "x-key": secret.New("another-secret"),
	}}).Generate(t.Context(), full())
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "refused *** and ***") {
		t.Errorf("got %v", err)
	}
}

func TestNew_problems(t *testing.T) {
	key := secret.New(providertest.Key)
	for name, c := range map[string]struct {
		cfg  openai.Config
		want []string // one part of each line
	}{
		"nothing":           {openai.Config{}, []string{"name is missing", "set OPENAI_API_KEY"}},
		"blanks":            {openai.Config{Model: " ", BaseURL: "http://x"}, []string{"name is missing"}},
		"everything":        {openai.Config{APIKey: secret.New("a\nb"), BaseURL: "localhost:8080", APIVersion: "1", Headers: map[string]secret.Secret{"a:": key, "b": secret.New("\x00")}}, []string{"needs http://", "the key (OPENAI_API_KEY)", `"a:" is not one`, `"b" contains`, "name is missing", "only sent to Azure"}},
		"azure":             {openai.Config{Model: "m", Azure: true}, []string{"needs http://", "set OPENAI_API_KEY", "api-version"}},
		"version in a URL":  {openai.Config{Model: "m", APIKey: key, BaseURL: "https://x/v1?api-version=1"}, []string{"must not have a query"}},
		"password in a URL": {openai.Config{Model: "m", APIKey: key, BaseURL: "https://u:" + providertest.Key + "@x/v1"}, []string{"must not contain a user"}},
		"no URL":            {openai.Config{Model: "m", APIKey: key, BaseURL: "http://%zz" + providertest.Key}, []string{"cannot be read"}},
		"OpenAI, no key":    {openai.Config{Model: "m", BaseURL: "https://api.openai.com/v1/"}, []string{"set OPENAI_API_KEY"}},
	} {
		model, err := openai.New(c.cfg)
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
	if _, err := openai.New(openai.Config{Model: "llama3", BaseURL: "http://127.0.0.1:11434/v1"}); err != nil {
		t.Errorf("a local server needs no key: %v", err)
	}
}
