package gemini

import (
	"fmt"
	"strings"

	"google.golang.org/genai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// response reads a decoded answer. Only the first candidate counts; more were
// not asked for.
func (m *Model) response(answer *genai.GenerateContentResponse, x *exchange.Exchange) (pipeline.Response, error) {
	response := pipeline.Response{Model: answer.ModelVersion, Attempts: x.Requests, Finish: pipeline.FinishOther}
	response.Usage, response.Odd = usage(answer.UsageMetadata)
	if len(answer.Candidates) == 0 || answer.Candidates[0] == nil {
		if blocked := answer.PromptFeedback; blocked != nil && blocked.BlockReason != "" {
			response.Finish = pipeline.FinishRefused
			response.Text = strings.TrimSuffix("the prompt was blocked: "+string(blocked.BlockReason)+": "+blocked.BlockReasonMessage, ": ")
			return response, nil
		}
		return response, m.empty(x, "the answer has no candidates")
	}
	candidate := answer.Candidates[0]
	response.Text, response.Finish = text(candidate.Content), finish(candidate.FinishReason)
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

// empty is the error of an answer without text. Asking again may help: models
// answer differently each time.
func (m *Model) empty(x *exchange.Exchange, what string) error {
	return &pipeline.ModelError{
		Failure: outcome.Failure{Class: outcome.InvalidOutput, Message: Name + ": " + m.name + ": " + what},
		Status:  x.Status, Retry: true,
	}
}

// text joins the parts of an answer, without the summary of thoughts.
func text(content *genai.Content) string {
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

// finish translates a finish reason.
func finish(reason genai.FinishReason) pipeline.Finish {
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

// usage translates the counts of tokens; the package comment says what they hold, odd
// is that of pipeline.OddTokens.
func usage(u *genai.GenerateContentResponseUsageMetadata) (found outcome.Usage, odd string) {
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
