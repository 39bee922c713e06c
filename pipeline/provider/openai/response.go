package openai

import (
	"fmt"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// response reads a decoded answer. Only the first choice counts; more were not
// asked for.
func (m *Model) response(answer api.ChatCompletionResponse, x *exchange.Exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.Model, Usage: usage(answer.Usage), Attempts: x.Requests, Finish: pipeline.FinishOther}
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

// usage translates the counts of tokens.
//
// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI) show
// it by a total that is larger by just as much; it is added to Output there, so
// that Output times its price is what is paid.
func usage(u api.Usage) outcome.Usage {
	found := outcome.Usage{Input: count(u.PromptTokens), Output: count(u.CompletionTokens)}
	if d := u.PromptTokensDetails; d != nil {
		found.Cached = min(count(d.CachedTokens), found.Input)
	}
	if d := u.CompletionTokensDetails; d != nil {
		found.Reasoning = count(d.ReasoningTokens)
	}
	if found.Reasoning > 0 && count(u.TotalTokens) == found.Input+found.Output+found.Reasoning {
		found.Output += found.Reasoning
	}
	found.Reasoning = min(found.Reasoning, found.Output)
	return found
}

// count keeps a count from outside in [0, 2⁴⁰], so that sums cannot overflow.
func count(n int) int64 { return min(max(int64(n), 0), 1<<40) }
