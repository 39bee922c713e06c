// Package openai is the model behind OpenAI's chat completions and every server
// that speaks the same protocol: Azure, vLLM, Ollama, llama.cpp, LM Studio,
// OpenRouter, LiteLLM and others. It is a pipeline.Model: one request per call,
// no retries, no streaming; limits, repetitions, caches and prices are the
// business of decorators.
//
//	model, err := openai.New(openai.Config{Model: "gpt-4o-mini", APIKey: secret.New(key)})
//	answer, err := model.Generate(ctx, pipeline.Request{Messages: messages})
//
// The request is POST {BaseURL}/chat/completions. Parameters are on the wire
// exactly as they are given, a temperature of 0 included, and are absent where
// they are nil. What the model cannot do is known from Config.Capabilities and
// never from its name.
//
// The default HTTP client honours HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and for
// private certificates SSL_CERT_FILE and SSL_CERT_DIR (on macOS and Windows
// they belong into the system's store).
package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/sashabaranov/go-openai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Model is a model of a server that speaks OpenAI's protocol. Safe for
// concurrent use.
type Model struct {
	client  *api.Client
	name    string
	can     pipeline.Capabilities
	service exchange.Service
}

var _ pipeline.Model = (*Model)(nil)

// Generate sends one POST …/chat/completions and reads the whole answer, at
// most 64 MiB. Nothing is retried and no redirect followed; to repeat a call is
// safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and
// the usage of an answer without text. A refusal, of the model, its filter or
// Azure's filter of prompts, is a Response with FinishRefused, its Text what
// the server gave as the reason. Errors are: a *pipeline.UnsupportedError for what
// the model cannot do (nothing is sent); one that wraps ctx.Err(); and a
// *pipeline.ModelError, of class invalid_output where the answer holds no text,
// rate_limited for 429, timeout if the HTTP client gave up, else provider.
//
// API: https://platform.openai.com/docs/api-reference/chat/create
func (m *Model) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.can.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	x := exchange.Exchange{Edit: func(body []byte) ([]byte, error) { return exchange.Set(body, m.members(req)) }}
	// The library is given neither the name nor the parameters: it drops zeros,
	// rounds to 32 bits, and refuses by the beginnings of names.
	answer, err := m.client.CreateChatCompletion(exchange.With(ctx, &x), api.ChatCompletionRequest{})
	if err == nil && x.Status >= 200 && x.Status < 300 && !errorInstead(answer, &x) {
		return m.response(answer, &x)
	}
	if stop := m.service.Stopped(ctx, &x); stop != nil {
		return pipeline.Response{Attempts: x.Requests}, stop
	}
	if text, ok := filtered(&x); ok {
		return pipeline.Response{Text: text, Finish: pipeline.FinishRefused, Attempts: x.Requests}, nil
	}
	return pipeline.Response{Attempts: x.Requests}, pipeline.FaultError(m.service.Fault(&x, err))
}

// members are the members of the request's body.
func (m *Model) members(req pipeline.Request) map[string]any {
	p := req.Parameters
	members := map[string]any{"model": m.name, "messages": req.Messages}
	if p.Temperature != nil {
		members["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		members["top_p"] = *p.TopP
	}
	if p.Seed != nil {
		members["seed"] = *p.Seed
	}
	if p.MaxTokens != nil && m.can.MaxCompletionTokens {
		members["max_completion_tokens"] = *p.MaxTokens
	} else if p.MaxTokens != nil {
		members["max_tokens"] = *p.MaxTokens
	}
	if req.Schema != nil && m.can.SendsSchema() {
		members["response_format"] = api.ChatCompletionResponseFormat{
			Type: api.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &api.ChatCompletionResponseFormatJSONSchema{
				Name: req.Schema.Name, Schema: req.Schema.JSON, Strict: true,
			},
		}
	}
	return members
}

// errorInstead reports whether a good status hides an error, as gateways in
// front of several providers answer: no choice, but an error object.
func errorInstead(answer api.ChatCompletionResponse, x *exchange.Exchange) bool {
	return len(answer.Choices) == 0 && exchange.ReadReason(x.Header.Get("Content-Type"), x.Body).Stated
}

// filtered recognises the status 400 by which Azure says that its filter
// declined the prompt.
func filtered(x *exchange.Exchange) (string, bool) {
	if x.Status != 400 || x.Err != nil {
		return "", false
	}
	reason := exchange.ReadReason(x.Header.Get("Content-Type"), x.Body)
	return reason.Text, reason.Has("content_filter") || reason.Has("ResponsibleAIPolicyViolation")
}

// text returns the text of a message, which some servers send in parts.
func text(message api.ChatCompletionMessage) string {
	if message.Content != "" {
		return message.Content
	}
	var all strings.Builder
	for _, part := range message.MultiContent {
		all.WriteString(part.Text)
	}
	return all.String()
}

// Name is what this provider is called.
const Name = "openai"

// DefaultBaseURL is the address of OpenAI itself.
const DefaultBaseURL = "https://api.openai.com/v1"

// The variables that messages name. This package reads no environment.
const (
	EnvKey     = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
)

// Config says which model of which server to ask. Model is required, and
// APIKey unless BaseURL names another server than OpenAI's.
type Config struct {
	// Model is the name as the server knows it; the deployment's name on Azure.
	Model string
	// APIKey is sent as "Authorization: Bearer …", on Azure as "api-key: …".
	// Empty: none is sent, as local servers want it.
	APIKey secret.Secret
	// BaseURL is the address before /chat/completions. Empty: DefaultBaseURL.
	BaseURL string
	// Azure sends the key in the header api-key. A BaseURL that ends in
	// /openai/v1 is used as it is; below any other the path is
	// /openai/deployments/{Model}/chat/completions, and APIVersion is required.
	Azure bool
	// APIVersion is sent as the query's api-version; only with Azure.
	APIVersion string
	// Headers are sent with every request and replace those of the same name.
	// They may hold keys of gateways and are kept out of messages.
	Headers map[string]secret.Secret
	// HTTPClient sends the requests; it is copied, redirects are not followed.
	// Nil: a client with Go's default transport and without a timeout, because
	// the context given to Generate bounds the time.
	HTTPClient *http.Client
	// Capabilities says what the model cannot do. Zero: it can do everything.
	Capabilities pipeline.Capabilities
	// Now reads the clock, for a Retry-After that is a date. Nil: time.Now.
	Now func() time.Time
}

// azureV1 is the end of the address of Azure's API without deployments.
const azureV1 = "/openai/v1"

// New returns the model, or all problems of the configuration at once in an
// error with the exit code 64. Nothing is sent.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" && !cfg.Azure {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := exchange.BaseURL(cfg.BaseURL, EnvBaseURL)
	problems := []error{err, exchange.CheckKey(cfg.APIKey, EnvKey), exchange.CheckHeaders(cfg.Headers)}
	if strings.TrimSpace(cfg.Model) == "" {
		problems = append(problems, errors.New("the model's name is missing"))
	}
	if cfg.APIKey.Reveal() == "" && (cfg.Azure || base == DefaultBaseURL) {
		problems = append(problems, errors.New("the key is missing: set "+EnvKey+", or "+EnvBaseURL+" to a server that needs none"))
	}
	if cfg.Azure && cfg.APIVersion == "" && !strings.HasSuffix(base, azureV1) {
		problems = append(problems, errors.New("Azure needs an api-version such as 2024-10-21, or a base URL that ends in "+azureV1))
	}
	if !cfg.Azure && cfg.APIVersion != "" {
		problems = append(problems, errors.New("an api-version is only sent to Azure"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &exchange.ConfigError{Provider: Name, Err: err}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return newModel(cfg, base), nil
}

func newModel(cfg Config, base string) *Model {
	client := api.DefaultConfig(cfg.APIKey.Reveal())
	client.BaseURL, client.APIVersion = base, cfg.APIVersion
	mask := exchange.NewMask(cfg.APIKey, cfg.Headers)
	client.HTTPClient = exchange.NewClient(cfg.HTTPClient, cfg.Headers, mask)
	switch {
	case cfg.Azure && strings.HasSuffix(base, azureV1):
		client.APIType = api.APITypeCloudflareAzure // the key's header, no deployments
	case cfg.Azure:
		client.APIType = api.APITypeAzure
		client.BaseURL = strings.TrimSuffix(base, "/openai")
		client.AzureModelMapperFunc = func(string) string { return url.PathEscape(cfg.Model) }
	}
	return &Model{
		client: api.NewClientWithConfig(client), name: cfg.Model, can: cfg.Capabilities,
		service: exchange.Service{
			Provider: Name, Model: cfg.Model, Base: base, KeyVariable: EnvKey,
			BaseVariable: EnvBaseURL, Mask: mask, Now: cfg.Now,
		},
	}
}

// response reads a decoded answer. Only the first choice counts; more were not
// asked for.
func (m *Model) response(answer api.ChatCompletionResponse, x *exchange.Exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.Model, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = usage(answer.Usage)
	if len(answer.Choices) == 0 {
		return response, m.empty(x, "the answer has no choices")
	}
	choice := answer.Choices[0]
	response.Text, response.Finish = text(choice.Message), finish(choice.FinishReason)
	if choice.Message.Refusal != "" {
		response.Finish = pipeline.FinishRefused
		if response.Text == "" {
			response.Text = choice.Message.Refusal
		}
	}
	if strings.TrimSpace(response.Text) != "" || response.Finish == pipeline.FinishRefused {
		return response, nil
	}
	switch response.Finish {
	case pipeline.FinishLength:
		// Reasoning used up the limit: the caller sees it from Finish.
		return response, nil
	case pipeline.FinishStop:
		return response, m.empty(x, "the answer is empty")
	}
	return response, m.empty(x, fmt.Sprintf("the answer is empty (finish reason %.40q)", choice.FinishReason))
}

// empty is the error of an answer without text. Asking again may help: models
// answer differently each time.
func (m *Model) empty(x *exchange.Exchange, what string) error {
	return &pipeline.ModelError{
		Failure: outcome.Failure{Class: outcome.InvalidOutput, Message: Name + ": " + m.name + ": " + what},
		Status:  x.Status, Retry: true,
	}
}

// finish translates a finish reason.
func finish(reason api.FinishReason) pipeline.Finish {
	switch reason {
	case api.FinishReasonStop:
		return pipeline.FinishStop
	case api.FinishReasonLength:
		return pipeline.FinishLength
	case api.FinishReasonContentFilter:
		return pipeline.FinishRefused
	}
	return pipeline.FinishOther
}

// usage translates the counts of tokens; odd is that of pipeline.OddTokens.
//
// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI) show
// it by a total that is larger by just as much; it is added to Output there, so
// that Output times its price is what is paid.
func usage(u api.Usage) (found outcome.Usage, odd string) {
	var cached, reasoning int
	if d := u.PromptTokensDetails; d != nil {
		cached = d.CachedTokens
	}
	if d := u.CompletionTokensDetails; d != nil {
		reasoning = d.ReasoningTokens
	}
	if odd = pipeline.OddTokens(u.PromptTokens, u.CompletionTokens, cached, reasoning); odd != "" {
		return found, odd
	}
	output := u.CompletionTokens
	if reasoning > 0 && u.TotalTokens == u.PromptTokens+output+reasoning {
		output += reasoning
	}
	return outcome.Usage{Input: int64(u.PromptTokens), Output: int64(output),
		Cached: int64(min(cached, u.PromptTokens)), Reasoning: int64(min(reasoning, output))}, ""
}
