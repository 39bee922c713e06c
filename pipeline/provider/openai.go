package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

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
	address string
}

// openAIAnswer and the types below are what is used of the API's JSON.
type openAIAnswer struct {
	Choices []struct {
		Message struct {
			Content json.RawMessage `json:"content"`
			Refusal string          `json:"refusal"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Model string       `json:"model"`
	Usage openAICounts `json:"usage"`
}

type openAICounts struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	Total         int `json:"total_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// openAIFormat asks for an answer that satisfies a schema.
type openAIFormat struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"json_schema"`
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
	var x exchange
	var answer openAIAnswer
	err := m.post(ctx, &x, m.address, m.members(req))
	if err == nil { // what some servers write behind the JSON is passed over
		err = json.NewDecoder(bytes.NewReader(x.Body)).Decode(&answer)
	}
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
	members := map[string]any{"model": m.service.Model, "messages": req.Messages, "stream": false}
	maxTokens := "max_tokens"
	if m.can.MaxCompletionTokens {
		maxTokens = "max_completion_tokens"
	}
	setParameters(members, req.Parameters, "top_p", maxTokens)
	if req.Schema != nil && m.can.SendsSchema() {
		format := openAIFormat{Type: "json_schema"}
		format.Schema.Name, format.Schema.Schema, format.Schema.Strict = req.Schema.Name, req.Schema.JSON, true
		members["response_format"] = format
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
func openAIText(content json.RawMessage) (text string, err error) {
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct{ Text string }
	err = json.Unmarshal(content, &parts)
	for _, part := range parts {
		text += part.Text
	}
	return text, err
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
	if !cfg.Azure {
		c.setHeaders("Authorization", "Bearer "+cfg.APIKey.Reveal(), cfg)
		return &openAI{c, base + "/chat/completions"}, nil
	}
	c.setHeaders("Api-Key", cfg.APIKey.Reveal(), cfg)
	if !strings.HasSuffix(base, azureV1) {
		base = strings.TrimSuffix(base, "/openai") + "/openai/deployments/" + url.PathEscape(cfg.Model)
	}
	base += "/chat/completions"
	if cfg.APIVersion != "" {
		base += "?api-version=" + url.QueryEscape(cfg.APIVersion)
	}
	return &openAI{c, base}, nil
}

// response reads a decoded answer. Only the first choice counts; more were not
// asked for.
func (m *openAI) response(answer openAIAnswer, x *exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.Model, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = openAIUsage(answer.Usage)
	if len(answer.Choices) == 0 {
		return response, m.empty(x, "the answer has no choices")
	}
	choice := answer.Choices[0]
	response.Finish = openAIFinish(choice.Finish)
	var err error
	if response.Text, err = openAIText(choice.Message.Content); err != nil {
		return response, m.service.fault(x, err)
	}
	if choice.Message.Refusal != "" {
		response.Finish = pipeline.FinishRefused
		if response.Text == "" {
			response.Text = choice.Message.Refusal
		}
	}
	empty := "the answer is empty"
	if response.Finish != pipeline.FinishStop {
		empty += fmt.Sprintf(" (finish reason %.40q)", choice.Finish)
	}
	return response, m.checkText(response, x, empty)
}

// openAIFinish translates a finish reason.
func openAIFinish(reason string) pipeline.Finish {
	switch reason {
	case "stop":
		return pipeline.FinishStop
	case "length":
		return pipeline.FinishLength
	case "content_filter":
		return pipeline.FinishRefused
	}
	return pipeline.FinishOther
}

// openAIUsage translates the counts of tokens; odd is that of pipeline.OddTokens.
//
// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI) show
// it by a total that is larger by just as much; it is added to Output there, so
// that Output times its price is what is paid.
func openAIUsage(u openAICounts) (found outcome.Usage, odd string) {
	cached, reasoning := u.PromptDetails.Cached, u.CompletionDetails.Reasoning
	if odd = pipeline.OddTokens(u.Prompt, u.Completion, cached, reasoning); odd != "" {
		return found, odd
	}
	output := u.Completion
	if reasoning > 0 && u.Total == u.Prompt+output+reasoning {
		output += reasoning
	}
	return outcome.Usage{Input: int64(u.Prompt), Output: int64(output),
		Cached: int64(min(cached, u.Prompt)), Reasoning: int64(min(reasoning, output))}, ""
}
