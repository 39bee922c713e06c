package openai

import (
	"context"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"extraction-experiment/internal/exchange"
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
