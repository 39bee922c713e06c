package main

import (
	"encoding/json"
	"math"
	"strconv"

	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
)

// systemConfig is what the settings say of the system under test.
type systemConfig struct {
	model string
	// modelGiven says that the model was named, and is not the default.
	modelGiven bool
	pipeline   string
	record     string
	limits     limitsConfig
	resume     bool // the recording goes on, too
	twoStages  bool
	schema     json.RawMessage // of the prompt's config
	// placeholders are messages that the prompt's config gives by name.
	placeholders map[string][]prompt.Message
	prompt       langfuse.PromptRef // without a name where none was given
	promptFile   string
	vars         []prompt.Var
	parameters   pipeline.Parameters
	// estimator, if set, is asked in place of the model.
	estimator *pipeline.Estimator
}

// asksPrompt reports whether a prompt was asked for.
func (c systemConfig) asksPrompt() bool {
	return c.prompt != (langfuse.PromptRef{}) || c.promptFile != ""
}

// onlyAsks reports whether opening the system leaves everything as it is: no
// prompt is pushed, no recording begun.
func (c systemConfig) onlyAsks() bool { return c.promptFile == "" && c.record == "" }

func (p *problems) system(s settings) systemConfig {
	c := systemConfig{
		model: s.text("model"), modelGiven: s["model"].from != "default", pipeline: s.text("pipeline"), record: s.text("record"), limits: p.limits(s), resume: p.toggle(s, "resume"), twoStages: p.toggle(s, "two-stages"),
		prompt:     langfuse.PromptRef{Name: s.text("prompt"), Label: s.text("prompt-label")},
		promptFile: s.text("prompt-file"),
		parameters: pipeline.Parameters{
			Temperature: p.number("temperature", s.text("temperature"), 0, 10),
			TopP:        p.number("top-p", s.text("top-p"), 0, 1),
		},
	}
	for _, word := range s.all("var") {
		v, err := prompt.ParseVar(word)
		if err != nil {
			p.add("--var: %v", err)
		}
		c.vars = append(c.vars, v)
	}
	if text := s.text("prompt-version"); text != "" {
		c.prompt.Version = p.count("prompt-version", text, 1, math.MaxInt32)
	}
	if text := s.text("max-tokens"); text != "" {
		n := p.count("max-tokens", text, 1, math.MaxInt32)
		c.parameters.MaxTokens = &n
	}
	if text := s.text("seed"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.add("--seed: %q is not a whole number", text)
		}
		c.parameters.Seed = &n
	}
	if c.prompt.Label != "" && c.prompt.Version != 0 {
		p.add("--prompt-label and --prompt-version cannot both be given")
	}
	if c.promptFile != "" && (c.prompt.Label != "" || c.prompt.Version != 0) {
		p.add("--prompt-file is a version of its own: leave --prompt-label and --prompt-version out")
	}
	if c.pipeline != "" && (c.record != "" || c.twoStages || len(c.vars) > 0) {
		p.add("--pipeline asks in its own way: leave --record, --two-stages and --var out")
	}
	if c.pipeline != "" && c.limits.limited() {
		p.add("--pipeline asks its model itself: leave --rpm, --tpm, --cache and --budget-… out")
	}
	if c.pipeline != "" && c.asksPrompt() {
		p.add("--pipeline has prompts of its own: leave --prompt and its relatives out")
	}
	return c
}

// number reads a decimal; nil where there is none.
func (p *problems) number(flag, text string, low, high float64) *float64 {
	if text == "" {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= low && v <= high) {
		p.add("--%s: %q is not a number from %g to %g", flag, text, low, high)
	}
	return &v
}
