// Package gemini is the model behind the Gemini API of Google. It is a
// pipeline.Model: one request per call, no retries, no streaming, no automatic
// continuation; limits, repetitions, caches and prices are the business of
// decorators.
//
//	model, err := gemini.New(gemini.Config{Model: "gemini-2.5-flash", APIKey: secret.New(key)})
//	answer, err := model.Generate(ctx, pipeline.Request{Messages: messages})
//
// The request is POST {BaseURL}/v1beta/models/{Model}:generateContent with the
// key in the header x-goog-api-key. System messages become the system
// instruction, "assistant" becomes "model". Parameters are on the wire exactly
// as they are given, a temperature of 0 included, and are absent where they are
// nil; a schema goes out as responseJsonSchema with its keys in their order,
// because the model answers in that order.
//
// Thinking is billed as output: Usage.Output is candidates and thoughts
// together, Usage.Reasoning the thoughts among them. Usage.Input is the prompt,
// what was read from a cache included (Usage.Cached).
//
// The default HTTP client honours HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and for
// private certificates SSL_CERT_FILE and SSL_CERT_DIR (on macOS and Windows
// they belong into the system's store).
//
// Google's library starts one goroutine when the program begins
// (go.opencensus.io/stats/view) and says on standard error that both key
// variables are set where they are; neither can be switched off.
package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Model is a model of the Gemini API. Safe for concurrent use.
type Model struct {
	client  *genai.Client
	name    string
	can     pipeline.Capabilities
	service exchange.Service
}

var _ pipeline.Model = (*Model)(nil)

// Generate sends one POST …:generateContent and reads the whole answer, at most
// 64 MiB. Nothing is retried or continued and no redirect followed; to repeat a
// call is safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and
// the usage of an answer without text. A blocked prompt or answer is a Response
// with FinishRefused; where there is no text, its Text is the reason that the
// API gave. Errors are: a *pipeline.UnsupportedError for what cannot be asked
// (nothing is sent); one that wraps ctx.Err(); and a *pipeline.ModelError, of
// class invalid_output where the answer holds no text, rate_limited for 429,
// timeout if the HTTP client gave up, else provider.
//
// API: https://ai.google.dev/api/generate-content
func (m *Model) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.can.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	system, contents, err := conversation(req.Messages)
	if err != nil {
		return pipeline.Response{}, err
	}
	x := exchange.Exchange{Edit: func(body []byte) ([]byte, error) { return m.edit(body, req) }}
	answer, err := m.call(exchange.With(ctx, &x), contents, &genai.GenerateContentConfig{
		SystemInstruction: system,
		// Left to itself the library sends further requests until the model
		// says that it is done, which need not ever happen.
		AutomaticContinuation: new(false),
	})
	if err == nil && answer != nil && !errorInstead(answer, &x) {
		return m.response(answer, &x)
	}
	if stop := m.service.Stopped(ctx, &x); stop != nil {
		return pipeline.Response{Attempts: x.Requests}, stop
	}
	return pipeline.Response{Attempts: x.Requests}, pipeline.FaultError(m.service.Fault(&x, err))
}

// call asks the library. It reads answers through type assertions and panics
// on JSON of another form: that is the server's fault, not this program's.
func (m *Model) call(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig) (answer *genai.GenerateContentResponse, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer, err = nil, fmt.Errorf("a value has an unexpected type: %v", panicked)
		}
	}()
	return m.client.Models.GenerateContent(ctx, m.name, contents, config)
}

// conversation splits messages into the system instruction and the turns.
func conversation(messages []pipeline.Message) (*genai.Content, []*genai.Content, error) {
	var system *genai.Content
	var contents []*genai.Content
	for i, message := range messages {
		part := &genai.Part{Text: message.Content}
		switch {
		case message.Role == "system" && len(contents) > 0:
			return nil, nil, unsupported(fmt.Sprintf("message %d is a system message after others: Gemini takes them only at the beginning", i+1))
		case message.Role == "system" && system != nil:
			system.Parts = append(system.Parts, part)
		case message.Role == "system":
			system = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{part}}
		case message.Role == "assistant":
			contents = append(contents, &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{part}})
		default:
			contents = append(contents, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{part}})
		}
	}
	if len(contents) == 0 {
		return nil, nil, unsupported("there are only system messages: Gemini needs one of the user")
	}
	return system, contents, nil
}

func unsupported(problem string) error {
	return &pipeline.UnsupportedError{Problems: []string{problem}}
}

// edit writes the parameters into the body that the library made. The library
// rounds numbers to 32 bits and sorts the keys of a schema.
func (m *Model) edit(body []byte, req pipeline.Request) ([]byte, error) {
	config := map[string]any{}
	p := req.Parameters
	if p.Temperature != nil {
		config["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		config["topP"] = *p.TopP
	}
	if p.Seed != nil {
		config["seed"] = *p.Seed
	}
	if p.MaxTokens != nil {
		config["maxOutputTokens"] = *p.MaxTokens
	}
	if req.Schema != nil && m.can.SendsSchema() {
		config["responseMimeType"] = "application/json"
		config["responseJsonSchema"] = req.Schema.JSON
	}
	return exchange.Set(body, map[string]any{"generationConfig": config})
}

// errorInstead reports whether a good status hides an error of a gateway.
func errorInstead(answer *genai.GenerateContentResponse, x *exchange.Exchange) bool {
	return len(answer.Candidates) == 0 && (len(x.Body) == 0 ||
		exchange.ReadReason(x.Header.Get("Content-Type"), x.Body).Stated)
}

// Name is what this provider is called.
const Name = "gemini"

// DefaultBaseURL is the address of the Gemini API.
const DefaultBaseURL = "https://generativelanguage.googleapis.com"

// The variables that messages name. This package reads no environment; the
// first key variable comes before the second.
const (
	EnvKey      = "GEMINI_API_KEY"
	EnvOtherKey = "GOOGLE_API_KEY"
	EnvBaseURL  = "GOOGLE_GEMINI_BASE_URL"
)

// Config says which model to ask. Model and APIKey are required.
type Config struct {
	// Model is the name as the API knows it, with or without "models/".
	Model string
	// APIKey is sent in the header x-goog-api-key, never in the address.
	APIKey secret.Secret
	// BaseURL is the address before /v1beta. Empty: DefaultBaseURL.
	BaseURL string
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

// New returns the model, or all problems of the configuration at once in an
// error with the exit code 64. Nothing is sent.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := exchange.BaseURL(cfg.BaseURL, EnvBaseURL)
	problems := []error{err, exchange.CheckKey(cfg.APIKey, EnvKey), exchange.CheckHeaders(cfg.Headers)}
	name := strings.TrimPrefix(cfg.Model, "models/")
	switch {
	case strings.TrimSpace(name) == "":
		problems = append(problems, errors.New("the model's name is missing"))
	case strings.ContainsAny(name, "?&#%{}\\: \t\r\n") || strings.Contains(name, ".."):
		problems = append(problems, errors.New("the model's name contains a character that no name has: it looks like gemini-2.5-flash"))
	}
	if cfg.APIKey.Reveal() == "" {
		problems = append(problems, errors.New("the key is missing: set "+EnvKey+" or "+EnvOtherKey))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &exchange.ConfigError{Provider: Name, Err: err}
	}
	mask := exchange.NewMask(cfg.APIKey, cfg.Headers)
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: cfg.APIKey.Reveal(), Backend: genai.BackendGeminiAPI,
		HTTPClient:  exchange.NewClient(cfg.HTTPClient, cfg.Headers, mask),
		HTTPOptions: genai.HTTPOptions{BaseURL: base, APIVersion: "v1beta"},
	})
	if err != nil {
		// The library's errors print its whole configuration.
		return nil, &exchange.ConfigError{Provider: Name, Err: errors.New(mask.Text(err.Error()))}
	}
	return &Model{
		client: client, name: cfg.Model, can: cfg.Capabilities,
		service: exchange.Service{
			Provider: Name, Model: cfg.Model, Base: base, KeyVariable: EnvKey + " (or " + EnvOtherKey + ")",
			BaseVariable: EnvBaseURL, Mask: mask, Now: cfg.Now,
		},
	}, nil
}

// response reads a decoded answer. Only the first candidate counts; more were
// not asked for.
func (m *Model) response(answer *genai.GenerateContentResponse, x *exchange.Exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.ModelVersion, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = usage(answer.UsageMetadata)
	if len(answer.Candidates) == 0 || answer.Candidates[0] == nil {
		if blocked := answer.PromptFeedback; blocked != nil && blocked.BlockReason != "" {
			response.Finish = pipeline.FinishRefused
			response.Text = strings.TrimSuffix("the prompt was blocked: "+string(blocked.BlockReason)+": "+blocked.BlockReasonMessage, ": ")
			return response, nil
		}
		return response, m.empty(x, "the answer has no candidates")
	}
	candidate := answer.Candidates[0]
	response.Text, response.Finish = text(candidate.Content), finish(candidate.FinishReason)
	if strings.TrimSpace(response.Text) != "" {
		return response, nil
	}
	why := string(candidate.FinishReason) // the library drops the API's finishMessage
	switch response.Finish {
	case pipeline.FinishRefused:
		response.Text = "the answer was blocked: " + why
		return response, nil
	case pipeline.FinishLength:
		// Thinking used up the limit: the caller sees it from Finish.
		return response, nil
	}
	return response, m.empty(x, fmt.Sprintf("the answer is empty (finish reason %.300q)", why))
}

// empty is the error of an answer without text. Asking again may help: models
// answer differently each time.
func (m *Model) empty(x *exchange.Exchange, what string) error {
	return &pipeline.ModelError{
		Failure: outcome.Failure{Class: outcome.InvalidOutput, Message: Name + ": " + m.name + ": " + what},
		Status:  x.Status, Retry: true,
	}
}

// text joins the parts of an answer, without the summary of thoughts.
func text(content *genai.Content) string {
	if content == nil {
		return ""
	}
	var all strings.Builder
	for _, part := range content.Parts {
		if part != nil && !part.Thought {
			all.WriteString(part.Text)
		}
	}
	return all.String()
}

// finish translates a finish reason.
func finish(reason genai.FinishReason) pipeline.Finish {
	switch reason {
	case genai.FinishReasonStop:
		return pipeline.FinishStop
	case genai.FinishReasonMaxTokens:
		return pipeline.FinishLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage,
		genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return pipeline.FinishRefused
	}
	return pipeline.FinishOther
}

// usage translates the counts of tokens; the package comment says what they hold, odd
// is that of pipeline.OddTokens.
func usage(u *genai.GenerateContentResponseUsageMetadata) (found outcome.Usage, odd string) {
	if u == nil {
		return found, ""
	}
	input, thoughts := []int32{u.PromptTokenCount, u.ToolUsePromptTokenCount}, u.ThoughtsTokenCount
	if odd = pipeline.OddTokens(append(input, thoughts, u.CandidatesTokenCount, u.CachedContentTokenCount)...); odd != "" {
		return found, odd
	}
	found = outcome.Usage{Input: int64(input[0]) + int64(input[1]), Reasoning: int64(thoughts)}
	found.Output = int64(u.CandidatesTokenCount) + found.Reasoning
	found.Cached = min(int64(u.CachedContentTokenCount), found.Input)
	return found, ""
}
