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

// The variables of the environment that openOpenAI reads.
const (
	envOpenAIKey     = "OPENAI_API_KEY"
	EnvOpenAIBaseURL = "OPENAI_BASE_URL"
	envAzureVersion  = "OPENAI_API_VERSION"
	envAPIType       = "OPENAI_API_TYPE"
	// envHeaders holds headers that a gateway wants, as a JSON object.
	envHeaders = "OPENAI_EXTRA_HEADERS"
)

// readHeaders reads the extra headers; the error does not repeat them, as they may hold
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

// openOpenAI reads the key and the address of the environment; OPENAI_API_TYPE
// azure asks for Azure's header, with the version of OPENAI_API_VERSION.
func openOpenAI(name string, cfg Config) (Opened, error) {
	headers, err := readHeaders(cfg.Getenv(envHeaders))
	if err != nil {
		return Opened{}, err
	}
	return cfg.opened(OpenAI, newOpenAI, modelConfig{
		Headers: headers, Model: name, APIKey: secret.New(cfg.Getenv(envOpenAIKey)), BaseURL: cfg.Getenv(EnvOpenAIBaseURL),
		Azure: cfg.Getenv(envAPIType) == "azure", APIVersion: cfg.Getenv(envAzureVersion),
	})
}

// openAI is the protocol of OpenAI's chat completions and of every server that speaks the
// same: Azure, vLLM, Ollama, llama.cpp, LM Studio, OpenRouter, LiteLLM and others. The
// request is POST {BaseURL}/chat/completions. Parameters are on the wire exactly as they
// are given, a temperature of 0 included, and are absent where they are nil. What the
// model cannot do is known from the Capabilities and never from its name.
//
// API: https://platform.openai.com/docs/api-reference/chat/create
type openAI struct{}

// openAIAnswer and the types below are what is used of the API's JSON.
type openAIAnswer struct {
	Choices []struct {
		Message struct {
			Content json.RawMessage `json:"content"`
			Refusal string          `json:"refusal"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Model string `json:"model"`
	Usage struct {
		Prompt        int `json:"prompt_tokens"`
		Completion    int `json:"completion_tokens"`
		Total         int `json:"total_tokens"`
		PromptDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

func (*openAI) body(model modelConfig, req pipeline.Request) ([]byte, error) {
	size := pipeline.MessagesSize(req.Messages) + 1000 // for what else there is
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
	if req.Schema != nil && model.Capabilities.SendsSchema() { // the answer is to satisfy it
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
	if parameters.Temperature != nil {
		w.Float("temperature", *parameters.Temperature)
	}
	if parameters.TopP != nil {
		w.Float("top_p", *parameters.TopP)
	}
	w.Close()
	if req.Sent != nil {
		*req.Sent = bytes.Clone(w.B[begin:end]) // it is kept for longer than the rest
	}
	return w.B, w.Err
}

func (*openAI) read(body []byte) (r decoded, err error) {
	var answer openAIAnswer
	// What some servers write after the JSON is passed over.
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		return r, err
	}
	r.Model, r.Finish, r.choices, r.empty = answer.Model, pipeline.FinishOther, len(answer.Choices), "the answer has no choices"
	u := answer.Usage
	output, cached, reasoning := u.Completion, u.PromptDetails.Cached, u.CompletionDetails.Reasoning
	// OpenAI counts reasoning in completion_tokens. Servers that do not (xAI) show it by a
	// total that is larger by just as much; it is added here, so that Output times its
	// price is what is paid.
	if reasoning > 0 && u.Total == u.Prompt+output+reasoning {
		output += reasoning
	}
	r.Usage, r.Odd = usage(u.Prompt, output, cached, reasoning, u.Prompt, u.Completion, cached, reasoning)
	if r.choices == 0 {
		return r, nil
	}
	choice := answer.Choices[0]
	r.Finish, r.empty = finish(choice.Finish), "the answer is empty"
	if r.Text, r.err = openAIText(choice.Message.Content); r.err != nil {
		return r, nil
	}
	if choice.Message.Refusal != "" {
		r.Finish, r.Text = pipeline.FinishRefused, cmp.Or(r.Text, choice.Message.Refusal)
	}
	if r.Finish != pipeline.FinishStop {
		r.empty += fmt.Sprintf(" (finish reason %.40q)", choice.Finish)
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
	c := newChat(OpenAI, cfg, envOpenAIKey, EnvOpenAIBaseURL)
	base, keyHeader, keyPrefix, query := c.BaseURL, "Authorization", "Bearer ", ""
	deployments := cfg.Azure && !strings.HasSuffix(base, azureV1)
	c.problem(strings.TrimSpace(cfg.Model) == "", "the model's name is missing")
	c.problem(cfg.APIKey.Reveal() == "" && (cfg.Azure || base == defaultOpenAIURL),
		"the key is missing: set %s, or %s to a server that needs none", envOpenAIKey, EnvOpenAIBaseURL)
	c.problem(deployments && cfg.APIVersion == "", "Azure needs an api-version such as 2024-10-21, or a base URL that ends in %s", azureV1)
	c.problem(!cfg.Azure && cfg.APIVersion != "", "an api-version is only sent to Azure")
	if cfg.Azure {
		keyHeader, keyPrefix = "Api-Key", ""
	}
	if deployments {
		base = strings.TrimSuffix(base, "/openai") + "/openai/deployments/" + url.PathEscape(cfg.Model)
	}
	if cfg.APIVersion != "" {
		query = "?api-version=" + url.QueryEscape(cfg.APIVersion)
	}
	return c.speaking(&openAI{}, base+"/chat/completions"+query, keyHeader, keyPrefix)
}
