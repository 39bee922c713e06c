package answers

import (
	"cmp"
	"context"
	_ "embed" // the text of the built-in prompt
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// ModelAnswerer gives a model the best passages of a document and asks for an answer that cites pages. It
// is safe for concurrent use if the model is.
type ModelAnswerer struct {
	Document *Document
	Model    pipeline.Model
	// Name and Provider of the model, for calls and run metadata.
	Name, Provider string
	// Prompt must pass CheckPrompt.
	Prompt     pipeline.Template
	Parameters pipeline.Parameters
	Passages   int // number of passages in a request
}

// Answer searches the document, asks the model and returns its answer. A refusal, an empty answer
// and a truncated answer fail with class invalid_output; other errors are those of the model.
func (a ModelAnswerer) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	found, search := a.Document.index.findAndRecord(retrieveCall, question, a.Passages)
	if len(found) == 0 {
		search.Warnings = []string{"no passage was found for the question, so that the model got none"}
	}
	calls := []outcome.Call{search}
	messages, err := compile(a.Prompt, question, found)
	if err != nil {
		return Answer{}, calls, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := pipeline.Request{Messages: messages, Parameters: a.Parameters}
	call := outcome.Call{Name: "answer", Provider: a.Provider, Model: a.Name}
	res, err := pipeline.Ask(ctx, a.Model, req, &call)
	calls = append(calls, call)
	if err != nil {
		return Answer{}, calls, err
	}
	text := strings.TrimSpace(res.Text)
	return Answer{Text: text, Pages: Citations(text)}, calls, nil
}

// External asks a team's own system, a program or an address, with the protocol of docs/answers.md:
// a request is {"id", "question", "pdf", "pdf_sha256"}, an answer {"answer", "pages"?, …}. It is
// safe for concurrent use.
type External struct {
	Asker    *provider.External
	Document *Document
	// Pause is the time before the second try; it doubles with each further try. 0 means half a
	// second. A longer Retry-After takes precedence, up to 30 s.
	Pause time.Duration
}

const (
	// maxTries is the number of tries for a question if the failures are temporary: a process that
	// ended, 5xx, 429.
	maxTries = 3
	// maxPause bounds a Retry-After.
	maxPause = 30 * time.Second
)

// Answer asks until there is an answer, a permanent failure, or a third failure. A request that
// hangs ends with ctx. If the run is stopped during a pause, Answer returns limit.ErrStopped, and
// the resumed run asks again. A reply that exceeds the limit of the Asker, or has no "answer",
// fails with class invalid_output.
func (e External) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	request := map[string]any{"question": question, "pdf": e.Document.Path, "pdf_sha256": e.Document.SHA256}
	pause := cmp.Or(e.Pause, 500*time.Millisecond)
	var allCalls []outcome.Call
	for try := 1; ; try++ {
		fields, calls, err := e.Asker.Ask(ctx, request)
		allCalls = append(allCalls, calls...)
		if err == nil {
			answer, err := readAnswer(fields)
			return answer, allCalls, err
		}
		var modelErr *pipeline.ModelError
		if try >= maxTries || !errors.As(err, &modelErr) || !modelErr.Retry || ctx.Err() != nil {
			return Answer{}, allCalls, err
		}
		select {
		case <-time.After(max(pause, min(modelErr.RetryAfter, maxPause))):
		case <-limit.Stop(ctx):
			return Answer{}, allCalls, limit.ErrStopped
		case <-ctx.Done():
			return Answer{}, allCalls, err
		}
		pause *= 2
	}
}

func readAnswer(fields map[string]json.RawMessage) (Answer, error) {
	var a Answer
	if raw := fields["answer"]; string(raw) == "null" || json.Unmarshal(raw, &a.Text) != nil {
		return a, &outcome.Failure{Class: outcome.InvalidOutput, Message: `the reply has no text "answer"`}
	}
	if raw, ok := fields["pages"]; ok && json.Unmarshal(raw, &a.Pages) != nil {
		return a, &outcome.Failure{Class: outcome.InvalidOutput, Message: `the reply's "pages" is not a list of numbers`}
	}
	return a, nil
}

// PromptName is the name of the built-in prompt.
const PromptName = "answers"

// The variables of a prompt for answers. A prompt must use both and no others.
const (
	questionVar = "question"
	passagesVar = "passages"
)

//go:embed prompt_system.txt
var systemPrompt string

// DefaultPrompt returns the built-in prompt.
func DefaultPrompt() pipeline.Template {
	return pipeline.Template{Name: PromptName, Messages: []pipeline.TemplateMessage{
		{Role: pipeline.RoleSystem, Content: systemPrompt},
		{Role: pipeline.RoleUser, Content: "{{passages}}\n\nВопрос / Question: {{question}}\n"},
	}}
}

// CheckPrompt returns an error for a prompt with other variables, or without the question or the
// passages.
func CheckPrompt(t pipeline.Template) error {
	return t.CheckUse([]string{questionVar, passagesVar}, questionVar, passagesVar)
}

// compile fills question and passages into a prompt. The passages are sorted by page, each below
// its page in the form of a citation.
func compile(t pipeline.Template, question string, found []Found) ([]pipeline.Message, error) {
	var passages []string
	for _, p := range slices.SortedStableFunc(slices.Values(found), func(a, b Found) int { return a.Page - b.Page }) {
		passages = append(passages, fmt.Sprintf("(стр. %d)\n%s", p.Page, p.Text))
	}
	texts := map[string]string{questionVar: question, passagesVar: strings.Join(passages, "\n\n")}
	return pipeline.Compile(t, pipeline.Vars{Texts: texts})
}
