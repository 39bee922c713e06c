package bench

import (
	"context"
	_ "embed" // the texts of the built-in prompt
	"errors"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/ground"
	"extraction-experiment/pipeline/prompt"
)

// PromptName is the name of the prompt that models are asked with.
const PromptName = "bench"

var (
	//go:embed prompt_system.txt
	promptSystem string
	//go:embed prompt_user.txt
	promptUser string
)

// Prompt returns the prompt that models are asked with: the instructions and the
// schema of the case, and the form of a record with quote and offsets.
func Prompt() prompt.Template {
	return prompt.Template{Name: PromptName, Messages: []prompt.Message{
		{Role: prompt.System, Content: promptSystem}, {Role: prompt.User, Content: promptUser},
	}}
}

// AskingConfig configures an Asking. Model and Name are required.
type AskingConfig struct {
	Model pipeline.Model
	// Name and Provider are how calls call the model.
	Name, Provider string
	Parameters     pipeline.Parameters
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// Asking asks a language model, once for each case. The schema is a part of the
// prompt and is not enforced by the provider, nor is an answer repaired: what
// the model says is what is measured. It is safe for concurrent use if the model
// is.
type Asking struct{ cfg AskingConfig }

// NewAsking checks the configuration.
func NewAsking(cfg AskingConfig) (*Asking, error) {
	if cfg.Model == nil || cfg.Name == "" {
		return nil, errors.New("bench: AskingConfig needs Model and Name")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Asking{cfg}, nil
}

// Answer returns what the model says; also a refusal and an answer that was cut
// off are answers. Errors are those of the model.
func (a *Asking) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	compiled, err := prompt.Compile(Prompt(), prompt.Vars{Texts: map[string]string{
		"document_text": q.DocumentText, "instructions": q.Instructions, "target_schema": string(q.TargetSchema),
		"offset_mode": q.OffsetMode, "offset_unit": unitName(q.OffsetMode),
	}})
	if err != nil {
		return "", nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := pipeline.Request{Parameters: a.cfg.Parameters}
	for _, m := range compiled {
		req.Messages = append(req.Messages, pipeline.Message{Role: m.Role, Content: m.Content})
	}
	res, call, err := pipeline.Record(ctx, a.cfg.Model, req, outcome.Call{Name: "extract", Provider: a.cfg.Provider, Model: a.cfg.Name}, a.cfg.Now)
	if res.Finish == pipeline.FinishLength {
		call.Warnings = append(call.Warnings, "the answer was cut by the limit of tokens")
	}
	return res.Text, []outcome.Call{call}, err
}

// unitName says in words what an offset mode counts.
func unitName(mode string) string {
	switch unit, known := unitOf(mode); {
	case known && unit == ground.CodePoints:
		return "Unicode code points"
	case known && unit == ground.Bytes:
		return "bytes of UTF-8"
	}
	return "UTF-16 code units"
}
