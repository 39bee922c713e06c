package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
)

// Gemini is the name of the provider.
const Gemini = "gemini"

// The environment variables that openGemini reads.
const (
	envGeminiKey     = "GEMINI_API_KEY" // takes precedence over envGoogleKey
	envGoogleKey     = "GOOGLE_API_KEY"
	envGeminiBaseURL = "GOOGLE_GEMINI_BASE_URL"
)

func openGemini(name string, cfg Config) (Opened, error) {
	key := cmp.Or(cfg.Getenv(envGeminiKey), cfg.Getenv(envGoogleKey))
	return cfg.openHTTP(Gemini, newGemini, modelConfig{Model: name, APIKey: secret.New(key), BaseURL: cfg.Getenv(envGeminiBaseURL)})
}

// gemini is the protocol of Google's Gemini API. The request is POST
// {BaseURL}/v1beta/models/{Model}:generateContent with the key in the header x-goog-api-key.
// System messages become the system instruction, "assistant" becomes "model". A schema is sent
// as responseJsonSchema with the order of its keys, because the model answers in that order.
//
// Thinking is billed as output: Usage.Output is candidates and thoughts together, and
// Usage.Reasoning the thoughts. Usage.Input is the prompt, including the part read from a cache
// (Usage.Cached).
//
// API: https://ai.google.dev/api/generate-content
type gemini struct{}

// geminiContent and the types below are the part of the API that is used.
type geminiContent struct {
	Parts []geminiPart `json:"parts"`
	Role  string       `json:"role"`
}

type geminiPart struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought,omitempty"` // the text is a summary of thoughts
}

type geminiAnswer struct {
	Candidates [1]*struct { // the others are not kept
		Content      geminiContent `json:"content"`
		FinishReason string        `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	ModelVersion string          `json:"modelVersion"`
	Usage        json.RawMessage `json:"usageMetadata"` // geminiUsage
}

type geminiUsage struct {
	Prompt     tokenCount `json:"promptTokenCount"`
	ToolUse    tokenCount `json:"toolUsePromptTokenCount"`
	Cached     tokenCount `json:"cachedContentTokenCount"`
	Candidates tokenCount `json:"candidatesTokenCount"`
	Thoughts   tokenCount `json:"thoughtsTokenCount"`
}

// geminiRequest is the body of a request.
type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	Config   struct {
		MaxTokens   *int            `json:"maxOutputTokens,omitempty"`
		Schema      json.RawMessage `json:"responseJsonSchema,omitempty"`
		MIMEType    string          `json:"responseMimeType,omitempty"`
		Seed        *int64          `json:"seed,omitempty"`
		Temperature *float64        `json:"temperature,omitempty"`
		TopP        *float64        `json:"topP,omitempty"`
	} `json:"generationConfig"`
	System *geminiContent `json:"systemInstruction,omitempty"`
}

func (*gemini) requestBody(model modelConfig, req pipeline.Request) ([]byte, error) {
	system, contents, err := conversation(req.Messages)
	if err != nil {
		return nil, err
	}
	body := geminiRequest{Contents: contents, System: system}
	config, p := &body.Config, req.Parameters
	config.Temperature, config.TopP, config.MaxTokens, config.Seed = p.Temperature, p.TopP, p.MaxTokens, p.Seed
	if req.Schema != nil && !model.Capabilities.NoSchema {
		config.MIMEType, config.Schema = "application/json", req.Schema.JSON
	}
	return json.Marshal(body)
}

func (*gemini) parseAnswer(body []byte) (r parsedAnswer, err error) {
	var answer geminiAnswer
	if err := decodeAnswer(body, &answer); err != nil {
		return r, err
	}
	candidate := answer.Candidates[0]
	r.Model, r.Finish, r.hasChoice = answer.ModelVersion, pipeline.FinishOther, candidate != nil
	r.emptyMessage = "the answer has no candidates"
	u, unreadable := readUsage[geminiUsage](answer.Usage)
	r.Usage, r.UsageProblem = tokenUsage(u.Prompt+u.ToolUse, u.Candidates+u.Thoughts, u.Cached, u.Thoughts,
		u.Prompt, u.ToolUse, u.Thoughts, u.Candidates, u.Cached)
	r.UsageProblem = cmp.Or(unreadable, r.UsageProblem)
	if !r.hasChoice {
		if blocked := answer.PromptFeedback; blocked.BlockReason != "" {
			r.Finish = pipeline.FinishRefused
			r.Text = strings.TrimSuffix("the prompt was blocked: "+blocked.BlockReason+": "+blocked.BlockReasonMessage, ": ")
		}
		return r, nil
	}
	var text strings.Builder // linear in the number of parts
	for _, part := range candidate.Content.Parts {
		if !part.Thought {
			text.WriteString(part.Text)
		}
	}
	r.Text, r.Finish = text.String(), finishReason(candidate.FinishReason)
	r.emptyMessage = fmt.Sprintf("the answer is empty (finish reason %.300q)", candidate.FinishReason)
	if r.Finish == pipeline.FinishRefused && strings.TrimSpace(r.Text) == "" {
		r.Text = "the answer was blocked: " + candidate.FinishReason
	}
	return r, nil
}

// conversation splits messages into the system instruction and the turns.
func conversation(messages []pipeline.Message) (*geminiContent, []geminiContent, error) {
	const unsupported = "the request cannot be sent as it stands: "
	var system *geminiContent
	var contents []geminiContent
	for i, message := range messages {
		parts := []geminiPart{{Text: message.Content}}
		switch {
		case message.Role == "system" && len(contents) > 0:
			return nil, nil, cli.Usage(unsupported+"message %d is a system message after others: Gemini takes them only at the beginning", i+1)
		case message.Role == "system" && system != nil:
			system.Parts = append(system.Parts, parts...)
		case message.Role == "system":
			system = &geminiContent{parts, "user"}
		case message.Role == "assistant":
			contents = append(contents, geminiContent{parts, "model"})
		default:
			contents = append(contents, geminiContent{parts, "user"})
		}
	}
	if len(contents) == 0 {
		return nil, nil, cli.Usage(unsupported + "there are only system messages: Gemini needs one of the user")
	}
	return system, contents, nil
}

const defaultGeminiURL = "https://generativelanguage.googleapis.com"

// newGemini returns the model, or one error of exit code 64 with all problems of the
// configuration. Nothing is sent.
func newGemini(cfg modelConfig) (pipeline.Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, defaultGeminiURL)
	c := newHTTPModel(Gemini, cfg, envGeminiKey, envGeminiBaseURL)
	c.keyVariable += " (or " + envGoogleKey + ")"
	name := strings.TrimPrefix(cfg.Model, "models/")
	c.problems.Add(strings.TrimSpace(name) == "", "the model's name is missing")
	c.problems.Add(strings.ContainsAny(name, "?&#%{}\\: \t\r\n") || strings.Contains(name, ".."),
		"the model's name contains a character that no name has: it looks like gemini-2.5-flash")
	c.problems.Add(cfg.APIKey.Reveal() == "" && !cfg.NoKey, "the key is missing: set %s or %s", envGeminiKey, envGoogleKey)
	if !strings.HasPrefix(cfg.Model, "models/") && !strings.HasPrefix(cfg.Model, "tunedModels/") {
		cfg.Model = "models/" + cfg.Model
	}
	return c.open(&gemini{}, c.BaseURL+"/v1beta/"+cfg.Model+":generateContent", "X-Goog-Api-Key", "")
}
