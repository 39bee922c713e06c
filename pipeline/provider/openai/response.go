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
