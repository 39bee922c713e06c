package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// OpenAI is the name of the provider.
const OpenAI = "openai"

// The environment variables that openOpenAI reads.
const (
	envOpenAIKey     = "OPENAI_API_KEY"
	EnvOpenAIBaseURL = "OPENAI_BASE_URL"
	envAzureVersion  = "OPENAI_API_VERSION"
	envAPIType       = "OPENAI_API_TYPE"
	// envHeaders holds headers for a gateway, as a JSON object.
	envHeaders = "OPENAI_EXTRA_HEADERS"
)

// readHeaders reads the extra headers. The error does not repeat them, because they may hold
// keys.
func readHeaders(text string) (map[string]secret.Secret, error) {
	if text == "" {
		return nil, nil
	}
	var plain map[string]string
	if json.Unmarshal([]byte(text), &plain) != nil {
		return nil, configError(OpenAI, errors.New(envHeaders+` is not a JSON object of texts, such as {"X-Team": "knowledge"}`))
	}
	headers := map[string]secret.Secret{}
	for name, value := range plain {
		headers[name] = secret.New(value)
	}
	return headers, nil
}

// openOpenAI opens a model with the key and the address of the environment.
// OPENAI_API_TYPE=azure selects the header of Azure, with the version in OPENAI_API_VERSION.
func openOpenAI(name string, cfg Config) (Opened, error) {
	headers, err := readHeaders(cfg.Getenv(envHeaders))
	if err != nil {
		return Opened{}, err
	}
	return cfg.openHTTP(OpenAI, newOpenAI, modelConfig{
		Headers: headers, Model: name, APIKey: secret.New(cfg.Getenv(envOpenAIKey)), BaseURL: cfg.Getenv(EnvOpenAIBaseURL),
		Azure: strings.EqualFold(cfg.Getenv(envAPIType), "azure"), APIVersion: cfg.Getenv(envAzureVersion),
	})
}

// openAI is the protocol of OpenAI's chat completions and compatible servers: Azure, vLLM,
// Ollama, llama.cpp, LM Studio, OpenRouter, LiteLLM and others. The request is POST
// {BaseURL}/chat/completions. Parameters are sent exactly as given, a temperature of 0
// included, and left out if nil. The Capabilities say what the model cannot do, never its name.
//
// API: https://platform.openai.com/docs/api-reference/chat/create
type openAI struct{}

// openAIAnswer is the part of an answer that is used.
type openAIAnswer struct {
	Choices [1]*struct { // the others are not kept
		Message struct {
			Content json.RawMessage `json:"content"`
			Refusal any             `json:"refusal"` // a text; some servers write false
		} `json:"message"`
		Finish any `json:"finish_reason"` // a text; some servers write a number
		Error  any `json:"error"`         // why the server broke off the answer: OpenRouter
	} `json:"choices"`
	Model string          `json:"model"`
	Usage json.RawMessage `json:"usage"` // openAIUsage
}

type openAIUsage struct {
	Prompt        tokenCount `json:"prompt_tokens"`
	Completion    tokenCount `json:"completion_tokens"`
	Total         tokenCount `json:"total_tokens"`
	CacheHit      tokenCount `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached        tokenCount `json:"cached_tokens"`           // Moonshot
	PromptDetails struct {
		Cached tokenCount `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning tokenCount `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (*openAI) requestBody(model modelConfig, req pipeline.Request) ([]byte, error) {
	size := pipeline.MessagesSize(req.Messages) + 1000 // for the other members
	if req.Schema != nil {
		size += len(req.Schema.JSON)
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, size), '{')}
	parameters := req.Parameters
	if parameters.MaxTokens != nil {
		name := "max_tokens"
		if model.Capabilities.MaxCompletionTokens {
			name = "max_completion_tokens"
		}
		w.Int(name, int64(*parameters.MaxTokens))
	}
	w.Name("messages")
	begin := len(w.B)
	w.B = pipeline.AppendMessages(w.B, req.Messages)
	end := len(w.B)
	w.Text("model", model.Model)
	if req.Schema != nil && !model.Capabilities.NoSchema {
		w.Open("response_format")
		w.Text("type", "json_schema")
		w.Open("json_schema")
		w.Text("name", req.Schema.Name)
		w.Raw("schema", req.Schema.JSON)
		w.Raw("strict", []byte("true"))
		w.Close()
		w.Close()
	}
	if parameters.Seed != nil {
		w.Int("seed", *parameters.Seed)
	}
	w.Raw("stream", []byte("false"))
	w.FloatIf("temperature", parameters.Temperature)
	w.FloatIf("top_p", parameters.TopP)
	w.Close()
	if req.Sent != nil {
		*req.Sent = bytes.Clone(w.B[begin:end]) // a copy, because it outlives the body
	}
	return w.B, w.Err
}

func (*openAI) parseAnswer(body []byte) (r parsedAnswer, err error) {
	var answer openAIAnswer
	if err := decodeAnswer(body, &answer); err != nil {
		return r, err
	}
	choice := answer.Choices[0]
	r.Model, r.Finish, r.hasChoice = answer.Model, pipeline.FinishOther, choice != nil
	r.emptyMessage = "the answer has no choices"
	u, unreadable := readUsage[openAIUsage](answer.Usage)
	output, reasoning := u.Completion, u.CompletionDetails.Reasoning
	cached := cmp.Or(u.PromptDetails.Cached, u.CacheHit, u.Cached)
	// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI; Google, which does not
	// even tell its number) count it in the total. It is billed as output.
	if u.Prompt > 0 {
		output = max(output, u.Total-u.Prompt)
	}
	r.Usage, r.UsageProblem = tokenUsage(u.Prompt, output, cached, reasoning, u.Prompt, u.Completion, output, cached, reasoning)
	r.UsageProblem = cmp.Or(unreadable, r.UsageProblem)
	if !r.hasChoice {
		return r, nil
	}
	finish, _ := choice.Finish.(string)
	r.Finish, r.emptyMessage = finishReason(finish), "the answer is empty"
	if r.Text, err = openAIText(choice.Message.Content); err != nil {
		return r, err
	}
	if refusal, _ := choice.Message.Refusal.(string); refusal != "" {
		r.Finish, r.Text = pipeline.FinishRefused, cmp.Or(r.Text, refusal)
	}
	if r.Finish == finishBroken {
		r.emptyMessage = "the server broke off its answer"
	}
	if r.Finish != pipeline.FinishStop {
		r.emptyMessage += fmt.Sprintf(" (finish reason %.40q)", finish)
	}
	if failure, _ := choice.Error.(map[string]any); failure != nil {
		r.emptyMessage += ": " + textutil.Cut(textOf(failure["message"]), maxReason)
	}
	return r, nil
}

// openAIText returns the text of a message, which some servers send in parts.
func openAIText(content json.RawMessage) (text string, err error) {
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct{ Text string }
	err = json.Unmarshal(content, &parts)
	var joined strings.Builder // linear in the number of parts
	for _, part := range parts {
		joined.WriteString(part.Text)
	}
	return joined.String(), err
}

const defaultOpenAIURL = "https://api.openai.com/v1"

// azureV1 is the end of the address of the Azure API without deployments.
const azureV1 = "/openai/v1"

// newOpenAI returns the model, or one error of exit code 64 with all problems of the
// configuration. Nothing is sent.
func newOpenAI(cfg modelConfig) (pipeline.Model, error) {
	if cfg.BaseURL == "" && !cfg.Azure {
		cfg.BaseURL = defaultOpenAIURL
	}
	c := newHTTPModel(OpenAI, cfg, envOpenAIKey, EnvOpenAIBaseURL)
	base, keyHeader, keyPrefix, query := c.BaseURL, "Authorization", "Bearer ", ""
	deployments := cfg.Azure && !strings.HasSuffix(base, azureV1)
	c.problems.Add(strings.TrimSpace(cfg.Model) == "", "the model's name is missing")
	c.problems.Add(cfg.APIKey.Reveal() == "" && !cfg.NoKey && (cfg.Azure || base == defaultOpenAIURL),
		"the key is missing: set %s, or %s to a server that needs none", envOpenAIKey, EnvOpenAIBaseURL)
	c.problems.Add(deployments && cfg.APIVersion == "", "Azure at https://NAME.openai.azure.com needs an api-version (%s) "+
		"such as 2024-10-21, unless the base URL ends in %s", envAzureVersion, azureV1)
	c.problems.Add(!cfg.Azure && cfg.APIVersion != "", "%s is for Azure only: set %s=azure too, or unset it",
		envAzureVersion, envAPIType)
	if cfg.Azure {
		keyHeader, keyPrefix = "Api-Key", ""
	}
	if deployments {
		base = strings.TrimSuffix(base, "/openai") + "/openai/deployments/" + url.PathEscape(cfg.Model)
	}
	if cfg.APIVersion != "" {
		query = "?api-version=" + url.QueryEscape(cfg.APIVersion)
	}
	return c.open(&openAI{}, base+"/chat/completions"+query, keyHeader, keyPrefix)
}
