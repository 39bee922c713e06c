package answers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
)

// DefaultPassages is how many passages a model is given.
const DefaultPassages = 6

// AskingConfig configures an Asking. Document, Model and Name are required.
type AskingConfig struct {
	Document *Document
	Model    pipeline.Model
	// Name and Provider are how calls and run metadata call the model.
	Name, Provider string
	// Prompt is shown {{question}} and {{passages}}; zero means DefaultPrompt.
	Prompt     prompt.Template
	Parameters pipeline.Parameters
	// Passages is how many passages the model is given; 0 means DefaultPassages.
	Passages int
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// Asking gives a model the best passages of a document and asks it for an answer
// that cites its pages. It is safe for concurrent use if the model is.
type Asking struct{ cfg AskingConfig }

// NewAsking checks the configuration and returns every problem of it at once.
func NewAsking(cfg AskingConfig) (*Asking, error) {
	var problems []error
	if cfg.Document == nil || cfg.Model == nil || cfg.Name == "" {
		problems = append(problems, errors.New("answers: AskingConfig needs Document, Model and Name"))
	}
	if cfg.Passages < 0 || cfg.Passages > 100 {
		problems = append(problems, fmt.Errorf("%d passages: give the model 1 to 100", cfg.Passages))
	}
	if len(cfg.Prompt.Messages) == 0 {
		cfg.Prompt = DefaultPrompt()
	}
	problems = append(problems, CheckPrompt(cfg.Prompt))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Passages == 0 {
		cfg.Passages = DefaultPassages
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Asking{cfg}, nil
}

// Answer searches, asks and returns what the model says. A refusal, an empty
// answer and one that was cut off fail with class invalid_output; other errors
// are those of the model.
func (a *Asking) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	found, search := a.cfg.Document.Find(question, a.cfg.Passages, a.cfg.Now)
	calls := []outcome.Call{search}
	compiled, err := compile(a.cfg.Prompt, question, found)
	if err != nil {
		return Answer{}, calls, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := pipeline.Request{Parameters: a.cfg.Parameters}
	for _, m := range compiled {
		req.Messages = append(req.Messages, pipeline.Message{Role: m.Role, Content: m.Content})
	}
	call := outcome.Call{Name: "answer", Provider: a.cfg.Provider, Model: a.cfg.Name}
	res, call, err := pipeline.Ask(ctx, a.cfg.Model, req, call, a.cfg.Now)
	calls = append(calls, call)
	if err != nil {
		return Answer{}, calls, err
	}
	text := strings.TrimSpace(res.Text)
	return Answer{Text: text, Pages: Citations(text)}, calls, nil
}
