package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Config names the system to measure: a team's own pipeline, an extractor that needs
// no model, or a model with its prompt.
type Config struct {
	Model string
	// ModelGiven is false if Model is the default.
	ModelGiven bool
	NoKey      bool   // the workers ask the model: its key may be missing here
	Pipeline   string // a program or an address
	Record     string // the file of a recording
	// Bare marks the baseline of a sweep: of Limits, only the budget is used, for its judges.
	Bare       bool
	Limits     Limits
	Resume     bool               // also continues the recording
	Prompt     langfuse.PromptRef // its name is empty if none was given
	PromptFile string
	// Began is the prompt that a resumed run began with, which a PromptFile must equal and which a
	// label stands for; nil for a new run.
	Began *outcome.Prompt
	ModelOptions
	unset      []string // names of parameters that the prompt's config does not set: --temperature=
	promptSets string   // the end of an error about parameters, which names those of the prompt's config
	// Estimator, if set, answers instead of the model.
	Estimator *pipeline.Estimator
}

// ModelOptions holds the parts of a request to a model other than the prompt.
type ModelOptions struct {
	Vars       []pipeline.Var      `json:"vars,omitempty"`
	Parameters pipeline.Parameters `json:"parameters"`
	TwoStages  bool                `json:"two_stages,omitempty"`
	// Schema and Placeholders, which are messages by name, come from the prompt's config.
	Schema       json.RawMessage               `json:"schema,omitempty"`
	Placeholders map[string][]pipeline.Message `json:"placeholders,omitempty"`
}

// HasPrompt reports whether the settings name a prompt or a file with one.
func (c Config) HasPrompt() bool {
	return c.Prompt != (langfuse.PromptRef{}) || c.PromptFile != ""
}

// needsModel reports whether one of the settings only serves a model: the baseline would ignore it.
func (c Config) needsModel() bool {
	return c.HasPrompt() || c.Parameters != (pipeline.Parameters{}) || c.Record != "" || c.TwoStages || len(c.Vars) > 0 ||
		!c.Bare && c.Limits.Limited()
}

var errNeedsModel = cli.Usage("the baseline reads no prompt, has no temperature and the like, no limit or budget, and nothing to record: " +
	"name a model with --model")

// CheckBaseline returns an error for the baseline with settings that it does not use, unless the config of a
// prompt may name a model. Call it before a system is opened.
func (c Config) CheckBaseline() error {
	if c.Pipeline == "" && IsBaseline(c.Model) && (c.ModelGiven || !c.HasPrompt()) && c.needsModel() {
		return errNeedsModel
	}
	return nil
}

// ReadOnly reports whether opening the system changes nothing: it pushes no prompt and
// begins no recording.
func (c Config) ReadOnly() bool { return c.PromptFile == "" && c.Record == "" }

// Read reads the settings of the system under test and adds every mistake to p.
func Read(p *settings.Problems, s settings.Values) Config {
	c := Config{
		Model: s.Text("model"), ModelGiven: s["model"].From != settings.FromDefault, Pipeline: s.Text("pipeline"), Record: s.Text("record"), Limits: readLimits(p, s), Resume: p.Switch(s, "resume"),
		Prompt: langfuse.PromptRef{
			Name: s.Text("prompt"), Label: s.Text("prompt-label"),
			Version: p.Optional("prompt-version", s.Text("prompt-version"), 1, math.MaxInt32),
		},
		PromptFile:   s.Text("prompt-file"),
		ModelOptions: ModelOptions{TwoStages: p.Switch(s, "two-stages")},
	}
	for _, text := range s.All("var") {
		v, err := pipeline.ParseVar(text)
		p.Add(err != nil, "--var: %v", err)
		c.Vars = append(c.Vars, v)
	}
	for _, v := range c.Parameters.List() {
		if text := s.Text(v.Flag()); text == "" && s[v.Flag()].From == settings.FromFlag {
			c.unset = append(c.unset, v.Name)
		} else if text != "" && !v.Set(text) {
			p.Add(true, "--%s: %q is not %s", v.Flag(), text, v.Range())
		}
	}
	label, version := c.Prompt.Label != "", c.Prompt.Version != 0
	p.Add(label && version || c.PromptFile != "" && (label || version),
		"--prompt-label, --prompt-version and --prompt-file each name a version: give one of them")
	p.Add(c.Pipeline != "" && c.ModelGiven && IsBaseline(c.Model),
		"--model baseline and --pipeline cannot both be measured in one run: "+
			"leave one out, or set it aside with --model= or --pipeline=")
	p.Add(c.Pipeline != "" && (c.Record != "" || c.TwoStages || len(c.Vars) > 0 || c.Limits.Limited() || c.HasPrompt()),
		"--pipeline asks its model itself: leave --record, --two-stages, --var, --prompt and its relatives, "+
			"--rpm, --tpm, --cache and --budget-… out")
	return c
}

func readLimits(p *settings.Problems, s settings.Values) Limits {
	c := Limits{Retries: p.Count("retries", s.Text("retries"), 0, 100), Cache: s.Text("cache")}
	for _, flag := range []string{"budget-usd", "budget-tokens"} { // as --budget-usd "$BUDGET", which is not set
		p.Add(s[flag].From == settings.FromFlag && s.Text(flag) == "", "--%s: the value is empty; without the flag there is no limit", flag)
	}
	bound := func(flag string) int { return p.Optional(flag, s.Text(flag), 1, math.MaxInt32) }
	c.RPM, c.TPM, c.Tokens = bound("rpm"), bound("tpm"), bound("budget-tokens")
	if text := s.Text("budget-usd"); text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		p.Add(err != nil || !(usd > 0) || math.IsInf(usd, 0), "--budget-usd: %q is not a number above 0", text)
		c.USD = usd
	}
	return c
}

// IsBaseline reports whether model names the built-in extractor, which needs no model.
func IsBaseline(model string) bool { return strings.EqualFold(strings.TrimSpace(model), "baseline") }

// promptConfig reads the config that is stored with a version of a prompt. Teams keep keys
// of their own in it, so unknown keys give a note and no error.
type promptConfig struct {
	source   string
	values   map[string]json.RawMessage
	problems []error
}

// fillFrom sets what the command line does not set from the prompt's config. It returns
// notes for the user about unknown keys.
func (c *Config) fillFrom(t pipeline.Template) ([]string, error) {
	if text := bytes.TrimSpace(t.Config); len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	p := promptConfig{source: fmt.Sprintf("the config of prompt %s@%d", t.Name, t.Version)}
	if err := json.Unmarshal(t.Config, &p.values); err != nil {
		return nil, cli.Usage("%s: an object with keys such as model and temperature is expected", p.source)
	}
	var model string
	takeValue(&p, "model", "a text", &model, nil)
	if !c.ModelGiven && model != "" {
		c.Model = model
	}
	takeValue(&p, "placeholders", `lists of messages by name, such as {"history": [{"role": "user", "content": "…"}]}`, &c.Placeholders, nil)
	takeValue(&p, "schema", "a JSON Schema, which is an object,", &c.Schema,
		func(raw json.RawMessage) bool { return raw[0] == '{' })
	given := c.Parameters // of the command line, which has precedence
	var set []string
	for i, v := range c.Parameters.List() {
		if slices.Contains(c.unset, v.Name) {
			delete(p.values, v.Name)
			continue
		}
		takeValue(&p, v.Name, v.Range(), new(json.RawMessage), func(raw json.RawMessage) bool { return v.Set(string(raw)) })
		if !v.Set(given.List()[i].Text()) && v.Text() != "" {
			set = append(set, v.Name)
		}
	}
	if len(set) > 0 {
		c.promptSets = "; " + p.source + " sets " + strings.Join(set, ", ")
	}
	var unknown []string
	if len(p.values) > 0 {
		unknown = []string{fmt.Sprintf("%s has keys that are not used here: %s", p.source, strings.Join(slices.Sorted(maps.Keys(p.values)), ", "))}
	}
	return unknown, usageError(errors.Join(p.problems...))
}

// takeValue removes a key and stores its value in target. It ignores null, and records a
// problem if the value has another type or valid, if not nil, refuses it.
func takeValue[T any](p *promptConfig, key, expected string, target *T, valid func(T) bool) {
	raw, ok := p.values[key]
	delete(p.values, key)
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	var v T
	if json.Unmarshal(raw, &v) != nil || valid != nil && !valid(v) {
		p.problems = append(p.problems, fmt.Errorf("%s: %s: %s is expected", p.source, key, expected))
		return
	}
	*target = v
}
