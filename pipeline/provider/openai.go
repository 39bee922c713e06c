package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// openAI is a model behind OpenAI's chat completions and every server that speaks the
// same protocol: Azure, vLLM, Ollama, llama.cpp, LM Studio, OpenRouter, LiteLLM and
// others. The request is POST {BaseURL}/chat/completions. Parameters are on the wire
// exactly as they are given, a temperature of 0 included, and are absent where they are
// nil. What the model cannot do is known from the Capabilities and never from its name.
type openAI struct {
	chat
	client *api.Client
}

// Generate sends one POST …/chat/completions and reads the whole answer, at
// most 64 MiB. Nothing is retried and no redirect followed; to repeat a call is
// safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and
// the usage of an answer without text. A refusal, of the model, its filter or
// Azure's filter of prompts, is a Response with FinishRefused, its Text what
// the server gave as the reason. Errors are: one of exit code 64 for what
// the model cannot do (nothing is sent); one that wraps ctx.Err(); and a
// *pipeline.ModelError, of class invalid_output where the answer holds no text,
// rate_limited for 429, timeout if the HTTP client gave up, else provider.
//
// API: https://platform.openai.com/docs/api-reference/chat/create
func (m *openAI) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.can.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	x := exchange{Edit: func(body []byte) ([]byte, error) { return setMembers(body, m.members(req)) }}
	// The library is given neither the name nor the parameters: it drops zeros,
	// rounds to 32 bits, and refuses by the beginnings of names.
	answer, err := m.client.CreateChatCompletion(withExchange(ctx, &x), api.ChatCompletionRequest{})
	if text, ok := filtered(&x); ok {
		return pipeline.Response{Text: text, Finish: pipeline.FinishRefused, Attempts: x.Requests}, nil
	}
	if err != nil || !x.answers(len(answer.Choices)) {
		return m.failed(ctx, &x, err)
	}
	return m.response(answer, &x)
}

// members are the members of the request's body.
func (m *openAI) members(req pipeline.Request) map[string]any {
	p := req.Parameters
	members := map[string]any{"model": m.service.Model, "messages": req.Messages}
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

// filtered recognises the status 400 by which Azure says that its filter
// declined the prompt.
func filtered(x *exchange) (string, bool) {
	if x.Status != 400 || x.Err != nil {
		return "", false
	}
	reason := x.reason()
	return reason.Text, reason.has("content_filter", "ResponsibleAIPolicyViolation")
}

// openAIText returns the text of a message, which some servers send in parts.
func openAIText(message api.ChatCompletionMessage) string {
	if message.Content != "" {
		return message.Content
	}
	var all strings.Builder
	for _, part := range message.MultiContent {
		all.WriteString(part.Text)
	}
	return all.String()
}

const defaultOpenAIURL = "https://api.openai.com/v1"

// azureV1 is the end of the address of Azure's API without deployments.
const azureV1 = "/openai/v1"

// newOpenAI returns the model, or all problems of the configuration at once in an error
// with the exit code 64. Nothing is sent.
func newOpenAI(cfg modelConfig) (pipeline.Model, error) {
	if cfg.BaseURL == "" && !cfg.Azure {
		cfg.BaseURL = defaultOpenAIURL
	}
	c, problems := newChat(OpenAI, cfg, EnvOpenAIKey, EnvOpenAIBaseURL)
	base := c.service.Base
	if strings.TrimSpace(cfg.Model) == "" {
		problems = append(problems, errors.New("the model's name is missing"))
	}
	if cfg.APIKey.Reveal() == "" && (cfg.Azure || base == defaultOpenAIURL) {
		problems = append(problems, errors.New("the key is missing: set "+EnvOpenAIKey+", or "+EnvOpenAIBaseURL+" to a server that needs none"))
	}
	if cfg.Azure && cfg.APIVersion == "" && !strings.HasSuffix(base, azureV1) {
		problems = append(problems, errors.New("Azure needs an api-version such as 2024-10-21, or a base URL that ends in "+azureV1))
	}
	if !cfg.Azure && cfg.APIVersion != "" {
		problems = append(problems, errors.New("an api-version is only sent to Azure"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, configError(OpenAI, err)
	}
	client := api.DefaultConfig(cfg.APIKey.Reveal())
	client.BaseURL, client.APIVersion, client.HTTPClient = base, cfg.APIVersion, c.http
	switch {
	case cfg.Azure && strings.HasSuffix(base, azureV1):
		client.APIType = api.APITypeCloudflareAzure // the key's header, no deployments
	case cfg.Azure:
		client.APIType = api.APITypeAzure
		client.BaseURL = strings.TrimSuffix(base, "/openai")
		client.AzureModelMapperFunc = func(string) string { return url.PathEscape(cfg.Model) }
	}
	return &openAI{c, api.NewClientWithConfig(client)}, nil
}

// response reads a decoded answer. Only the first choice counts; more were not
// asked for.
func (m *openAI) response(answer api.ChatCompletionResponse, x *exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.Model, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = openAIUsage(answer.Usage)
	if len(answer.Choices) == 0 {
		return response, m.empty(x, "the answer has no choices")
	}
	choice := answer.Choices[0]
	response.Text, response.Finish = openAIText(choice.Message), openAIFinish(choice.FinishReason)
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

// openAIFinish translates a finish reason.
func openAIFinish(reason api.FinishReason) pipeline.Finish {
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

// openAIUsage translates the counts of tokens; odd is that of pipeline.OddTokens.
//
// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI) show
// it by a total that is larger by just as much; it is added to Output there, so
// that Output times its price is what is paid.
func openAIUsage(u api.Usage) (found outcome.Usage, odd string) {
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
