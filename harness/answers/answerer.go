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

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// Asking gives a model the best passages of a document and asks it for an answer
// that cites its pages. It is safe for concurrent use if the model is.
type Asking struct {
	Document *Document
	Model    pipeline.Model
	// Name and Provider are how calls and run metadata call the model.
	Name, Provider string
	// Prompt is one that CheckPrompt accepts.
	Prompt     pipeline.Template
	Parameters pipeline.Parameters
	Passages   int // how many the model is given
}

// Answer searches, asks and returns what the model says. A refusal, an empty
// answer and one that was cut off fail with class invalid_output; other errors
// are those of the model.
func (a Asking) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	found, search := a.Document.index.record(retrieving, question, a.Passages)
	calls := []outcome.Call{search}
	messages, err := compile(a.Prompt, question, found)
	if err != nil {
		return Answer{}, calls, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := pipeline.Request{Messages: messages, Parameters: a.Parameters}
	call := outcome.Call{Name: "answer", Provider: a.Provider, Model: a.Name}
	res, err := pipeline.Ask(ctx, a.Model, req, &call, time.Now)
	calls = append(calls, call)
	if err != nil {
		return Answer{}, calls, err
	}
	text := strings.TrimSpace(res.Text)
	return Answer{Text: text, Pages: Citations(text)}, calls, nil
}

// External asks a team's own system, a program or an address, by the protocol
// of docs/answers.md: a request is {"id", "question", "pdf",
// "pdf_sha256"}, an answer {"answer", "pages"?, …}. It is safe for concurrent
// use.
type External struct {
	Asker    *provider.External
	Document *Document
	// Pause is the time before the second try, doubled with each; 0 means half a
	// second. A longer Retry-After is kept, up to 30 s.
	Pause time.Duration
}

const (
	// tries is how often a question is asked that fails in a way which may pass:
	// a process that ended, 5xx, 429.
	tries = 3
	// longestPause bounds what a Retry-After can ask for.
	longestPause = 30 * time.Second
)

// Answer asks until there is an answer, the failure is one that stays, or it was
// asked three times. What hangs ends with ctx; where the run is stopped during a
// pause, the question is given up with limit.ErrStopped and asked when the run is
// resumed. What answers with more than the Asker takes, or with no "answer",
// fails with class invalid_output.
func (e External) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	request := map[string]any{"question": question, "pdf": e.Document.Path, "pdf_sha256": e.Document.SHA256}
	pause := cmp.Or(e.Pause, 500*time.Millisecond)
	var all []outcome.Call
	for try := 1; ; try++ {
		fields, calls, err := e.Asker.Ask(ctx, request)
		all = append(all, calls...)
		if err == nil {
			answer, err := readAnswer(fields)
			return answer, all, err
		}
		var failed *pipeline.ModelError
		if try >= tries || !errors.As(err, &failed) || !failed.Retry || ctx.Err() != nil {
			return Answer{}, all, err
		}
		select {
		case <-time.After(max(pause, min(failed.RetryAfter, longestPause))):
		case <-limit.Stop(ctx):
			return Answer{}, all, limit.ErrStopped
		case <-ctx.Done():
			return Answer{}, all, err
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

// The identifiers that a prompt for answers may use; it must use both.
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

// CheckPrompt refuses a prompt that asks for what nothing fills, or never shows
// the question or the passages.
func CheckPrompt(t pipeline.Template) error {
	return t.CheckUse([]string{questionVar, passagesVar}, questionVar, passagesVar)
}

// compile puts question and passages into a prompt, the passages in the order
// of their pages, each under its number as it is to be cited.
func compile(t pipeline.Template, question string, found []Found) ([]pipeline.Message, error) {
	var passages []string
	for _, p := range slices.SortedStableFunc(slices.Values(found), func(a, b Found) int { return a.Page - b.Page }) {
		passages = append(passages, fmt.Sprintf("(стр. %d)\n%s", p.Page, p.Text))
	}
	texts := map[string]string{questionVar: question, passagesVar: strings.Join(passages, "\n\n")}
	return pipeline.Compile(t, pipeline.Vars{Texts: texts})
}

// texts is a list of texts; null is none.
type texts []string

// UnmarshalJSON reads a list of which each element is a text.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var list []*string
	if json.Unmarshal(raw, &list) != nil || list == nil || slices.Contains(list, nil) {
		return errors.New("is not a list of texts")
	}
	*t = append(texts{}, cli.Each(list, func(text *string) string { return *text })...)
	return nil
}
