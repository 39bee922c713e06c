package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
type gemini struct {
	chat
	path string // "models/gemini-2.5-flash"
}

// geminiRequest and the types below are what is used of the API's JSON.
type geminiRequest struct {
	Contents   []geminiContent `json:"contents"`
	Generation map[string]any  `json:"generationConfig"`
	System     *geminiContent  `json:"systemInstruction,omitempty"`
}

type geminiContent struct {
	Parts []geminiPart `json:"parts"`
	Role  string       `json:"role"`
}

type geminiPart struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought,omitempty"` // part of a summary of thoughts
}

type geminiAnswer struct {
	Candidates []struct {
		Content      geminiContent `json:"content"`
		FinishReason string        `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	ModelVersion string       `json:"modelVersion"`
	Usage        geminiCounts `json:"usageMetadata"`
}

type geminiCounts struct {
	Prompt     int32 `json:"promptTokenCount"`
	ToolUse    int32 `json:"toolUsePromptTokenCount"`
	Cached     int32 `json:"cachedContentTokenCount"`
	Candidates int32 `json:"candidatesTokenCount"`
	Thoughts   int32 `json:"thoughtsTokenCount"`
}

// Generate sends one POST …:generateContent and reads the whole answer, at most
// 64 MiB. Nothing is retried or continued and no redirect followed; to repeat a
// call is safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and
// the usage of an answer without text. A blocked prompt or answer is a Response
// with FinishRefused; where there is no text, its Text is the reason that the
// API gave. Errors are: one of exit code 64 for what cannot be asked
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
	var x exchange
	var answer geminiAnswer
	address := m.service.Base + "/v1beta/" + m.path + ":generateContent"
	err = m.post(ctx, &x, address, geminiRequest{contents, m.generation(req), system})
	if err == nil {
		err = json.Unmarshal(x.Body, &answer)
	}
	if err != nil || !x.answers(len(answer.Candidates)) {
		return m.failed(ctx, &x, err)
	}
	return m.response(answer, &x)
}

// conversation splits messages into the system instruction and the turns.
func conversation(messages []pipeline.Message) (*geminiContent, []geminiContent, error) {
	var system *geminiContent
	var contents []geminiContent
	for i, message := range messages {
		parts := []geminiPart{{Text: message.Content}}
		switch {
		case message.Role == "system" && len(contents) > 0:
			return nil, nil, unsupported(fmt.Sprintf("message %d is a system message after others: Gemini takes them only at the beginning", i+1))
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
		return nil, nil, unsupported("there are only system messages: Gemini needs one of the user")
	}
	return system, contents, nil
}

func unsupported(problem string) error {
	return cli.Usage("the request cannot be sent as it stands: %s", problem)
}

// generation is the member generationConfig of a request.
func (m *gemini) generation(req pipeline.Request) map[string]any {
	config := map[string]any{}
	setParameters(config, req.Parameters, "topP", "maxOutputTokens")
	if req.Schema != nil && m.can.SendsSchema() {
		config["responseMimeType"] = "application/json"
		config["responseJsonSchema"] = req.Schema.JSON
	}
	return config
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
	if !strings.HasPrefix(cfg.Model, "models/") && !strings.HasPrefix(cfg.Model, "tunedModels/") {
		cfg.Model = "models/" + cfg.Model
	}
	c.setHeaders("X-Goog-Api-Key", cfg.APIKey.Reveal(), cfg)
	return &gemini{c, cfg.Model}, nil
}

// response reads a decoded answer. Only the first candidate counts; more were
// not asked for.
func (m *gemini) response(answer geminiAnswer, x *exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.ModelVersion, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = geminiUsage(answer.Usage)
	if len(answer.Candidates) == 0 {
		if blocked := answer.PromptFeedback; blocked.BlockReason != "" {
			response.Finish = pipeline.FinishRefused
			response.Text = strings.TrimSuffix("the prompt was blocked: "+blocked.BlockReason+": "+blocked.BlockReasonMessage, ": ")
			return response, nil
		}
		return response, m.empty(x, "the answer has no candidates")
	}
	candidate := answer.Candidates[0]
	response.Text, response.Finish = geminiText(candidate.Content), geminiFinish(candidate.FinishReason)
	if response.Finish == pipeline.FinishRefused && strings.TrimSpace(response.Text) == "" {
		response.Text = "the answer was blocked: " + candidate.FinishReason
	}
	return response, m.checkText(response, x, fmt.Sprintf("the answer is empty (finish reason %.300q)", candidate.FinishReason))
}

// geminiText joins the parts of an answer, without the summary of thoughts.
func geminiText(content geminiContent) string {
	var all strings.Builder
	for _, part := range content.Parts {
		if !part.Thought {
			all.WriteString(part.Text)
		}
	}
	return all.String()
}

// geminiFinish translates a finish reason.
func geminiFinish(reason string) pipeline.Finish {
	switch reason {
	case "STOP":
		return pipeline.FinishStop
	case "MAX_TOKENS":
		return pipeline.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return pipeline.FinishRefused
	}
	return pipeline.FinishOther
}

// geminiUsage translates the counts of tokens; odd
// is that of pipeline.OddTokens.
func geminiUsage(u geminiCounts) (found outcome.Usage, odd string) {
	if odd = pipeline.OddTokens(u.Prompt, u.ToolUse, u.Thoughts, u.Candidates, u.Cached); odd != "" {
		return found, odd
	}
	found = outcome.Usage{Input: int64(u.Prompt) + int64(u.ToolUse), Reasoning: int64(u.Thoughts)}
	found.Output = int64(u.Candidates) + found.Reasoning
	found.Cached = min(int64(u.Cached), found.Input)
	return found, ""
}
