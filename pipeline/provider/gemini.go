package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// gemini is a model behind the Gemini API of Google. The request is
// POST {BaseURL}/v1beta/models/{Model}:generateContent with the key in the header
// x-goog-api-key. System messages become the system instruction, "assistant" becomes
// "model". A schema goes out as responseJsonSchema with its keys in their order, because
// the model answers in that order.
//
// Thinking is billed as output: Usage.Output is candidates and thoughts together,
// Usage.Reasoning the thoughts among them. Usage.Input is the prompt, what was read from
// a cache included (Usage.Cached).
//
// Google's library starts one goroutine when the program begins
// (go.opencensus.io/stats/view) and says on standard error that both key variables are
// set where they are; neither can be switched off.
type gemini struct {
	chat
	client *genai.Client
}

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
func (m *gemini) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.can.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	system, contents, err := conversation(req.Messages)
	if err != nil {
		return pipeline.Response{}, err
	}
	x := exchange{Edit: func(body []byte) ([]byte, error) { return m.edit(body, req) }}
	answer, err := m.call(withExchange(ctx, &x), contents, &genai.GenerateContentConfig{
		SystemInstruction: system,
		// Left to itself the library sends further requests until the model
		// says that it is done, which need not ever happen.
		AutomaticContinuation: new(false),
	})
	if err != nil || answer == nil || !x.answers(len(answer.Candidates)) {
		return m.failed(ctx, &x, err)
	}
	return m.response(answer, &x)
}

// call asks the library. It reads answers through type assertions and panics
// on JSON of another form: that is the server's fault, not this program's.
func (m *gemini) call(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig) (answer *genai.GenerateContentResponse, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer, err = nil, fmt.Errorf("a value has an unexpected type: %v", panicked)
		}
	}()
	return m.client.Models.GenerateContent(ctx, m.service.Model, contents, config)
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
	return cli.Usage("the request cannot be sent as it stands: %s", problem)
}

// edit writes the parameters into the body that the library made. The library
// rounds numbers to 32 bits and sorts the keys of a schema.
func (m *gemini) edit(body []byte, req pipeline.Request) ([]byte, error) {
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
	return setMembers(body, map[string]any{"generationConfig": config})
}

const defaultGeminiURL = "https://generativelanguage.googleapis.com"

// newGemini returns the model, or all problems of the configuration at once in an error
// with the exit code 64. Nothing is sent.
func newGemini(cfg modelConfig) (pipeline.Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, defaultGeminiURL)
	c, problems := newChat(Gemini, cfg, EnvGeminiKey, EnvGeminiBaseURL)
	c.service.KeyVariable += " (or " + EnvGoogleKey + ")"
	name := strings.TrimPrefix(cfg.Model, "models/")
	switch {
	case strings.TrimSpace(name) == "":
		problems = append(problems, errors.New("the model's name is missing"))
	case strings.ContainsAny(name, "?&#%{}\\: \t\r\n") || strings.Contains(name, ".."):
		problems = append(problems, errors.New("the model's name contains a character that no name has: it looks like gemini-2.5-flash"))
	}
	if cfg.APIKey.Reveal() == "" {
		problems = append(problems, errors.New("the key is missing: set "+EnvGeminiKey+" or "+EnvGoogleKey))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, configError(Gemini, err)
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: cfg.APIKey.Reveal(), Backend: genai.BackendGeminiAPI, HTTPClient: c.http,
		HTTPOptions: genai.HTTPOptions{BaseURL: c.service.Base, APIVersion: "v1beta"},
	})
	if err != nil {
		// The library's errors print its whole configuration.
		return nil, configError(Gemini, errors.New(c.service.Mask.Text(err.Error())))
	}
	return &gemini{c, client}, nil
}

// response reads a decoded answer. Only the first candidate counts; more were
// not asked for.
func (m *gemini) response(answer *genai.GenerateContentResponse, x *exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.ModelVersion, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = geminiUsage(answer.UsageMetadata)
	if len(answer.Candidates) == 0 || answer.Candidates[0] == nil {
		if blocked := answer.PromptFeedback; blocked != nil && blocked.BlockReason != "" {
			response.Finish = pipeline.FinishRefused
			response.Text = strings.TrimSuffix("the prompt was blocked: "+string(blocked.BlockReason)+": "+blocked.BlockReasonMessage, ": ")
			return response, nil
		}
		return response, m.empty(x, "the answer has no candidates")
	}
	candidate := answer.Candidates[0]
	response.Text, response.Finish = geminiText(candidate.Content), geminiFinish(candidate.FinishReason)
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

// geminiText joins the parts of an answer, without the summary of thoughts.
func geminiText(content *genai.Content) string {
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

// geminiFinish translates a finish reason.
func geminiFinish(reason genai.FinishReason) pipeline.Finish {
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

// geminiUsage translates the counts of tokens; odd
// is that of pipeline.OddTokens.
func geminiUsage(u *genai.GenerateContentResponseUsageMetadata) (found outcome.Usage, odd string) {
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
