package system

import (
	"bytes"
	"cmp"
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
	"extraction-experiment/pipeline"
)

// Config says what is to be measured: a team's own pipeline, an extractor that needs
// no model, or a model with its prompt.
type Config struct {
	Model string
	// ModelGiven says that the model was named, and is not the default.
	ModelGiven bool
	Pipeline   string // a program or an address
	Record     string // the file of a recording
	Limits     Limits
	Resume     bool               // the recording goes on, too
	Prompt     langfuse.PromptRef // without a name where none was given
	PromptFile string
	Asking
	// Estimator, if set, is asked in place of the model.
	Estimator *pipeline.Estimator
}

// Asking says how a model is asked beside its prompt.
type Asking struct {
	Vars       []pipeline.Var      `json:"vars,omitempty"`
	Parameters pipeline.Parameters `json:"parameters"`
	TwoStages  bool                `json:"two_stages,omitempty"`
	// Schema is that of the prompt's config, which gives messages by name, too.
	Schema       json.RawMessage               `json:"schema,omitempty"`
	Placeholders map[string][]pipeline.Message `json:"placeholders,omitempty"`
}

// AsksPrompt reports whether a prompt was asked for.
func (c Config) AsksPrompt() bool {
	return c.Prompt != (langfuse.PromptRef{}) || c.PromptFile != ""
}

// OnlyAsks reports whether opening the system leaves everything as it is: no
// prompt is pushed, no recording begun.
func (c Config) OnlyAsks() bool { return c.PromptFile == "" && c.Record == "" }

// Read reads what the settings say of the system under test, and notes what is wrong.
func Read(p *settings.Problems, s settings.Values) Config {
	c := Config{
		Model: s.Text("model"), ModelGiven: s["model"].From != settings.FromDefault, Pipeline: s.Text("pipeline"), Record: s.Text("record"), Limits: readLimits(p, s), Resume: p.Switch(s, "resume"),
		Prompt: langfuse.PromptRef{
			Name: s.Text("prompt"), Label: s.Text("prompt-label"),
			Version: p.Optional("prompt-version", s.Text("prompt-version"), 1, math.MaxInt32),
		},
		PromptFile: s.Text("prompt-file"),
		Asking: Asking{TwoStages: p.Switch(s, "two-stages"), Parameters: pipeline.Parameters{
			Temperature: p.Number("temperature", s.Text("temperature"), 0, 10),
			TopP:        p.Number("top-p", s.Text("top-p"), 0, 1),
		}},
	}
	for _, word := range s.All("var") {
		v, err := pipeline.ParseVar(word)
		if err != nil {
			p.Add("--var: %v", err)
		}
		c.Vars = append(c.Vars, v)
	}
	if text := s.Text("max-tokens"); text != "" {
		c.Parameters.MaxTokens = new(p.Count("max-tokens", text, 1, math.MaxInt32))
	}
	if text := s.Text("seed"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.Add("--seed: %q is not a whole number", text)
		}
		c.Parameters.Seed = &n
	}
	label, version := c.Prompt.Label != "", c.Prompt.Version != 0
	if label && version || c.PromptFile != "" && (label || version) {
		p.Add("--prompt-label, --prompt-version and --prompt-file each name a version: give one of them")
	}
	if c.Pipeline != "" && c.ModelGiven && IsBaseline(c.Model) {
		p.Add("--model baseline and --pipeline cannot both be measured in one run: " +
			"leave one out, or set it aside with --model= or --pipeline=")
	}
	if c.Pipeline != "" && (c.Record != "" || c.TwoStages || len(c.Vars) > 0 || c.Limits.Limited() || c.AsksPrompt()) {
		p.Add("--pipeline asks its model itself: leave --record, --two-stages, --var, --prompt and its relatives, " +
			"--rpm, --tpm, --cache and --budget-… out")
	}
	return c
}

func readLimits(p *settings.Problems, s settings.Values) Limits {
	c := Limits{Retries: p.Count("retries", s.Text("retries"), 0, 100), Cache: s.Text("cache")}
	bound := func(flag string) int { return p.Optional(flag, s.Text(flag), 1, math.MaxInt32) }
	c.RPM, c.TPM, c.Tokens = bound("rpm"), bound("tpm"), bound("budget-tokens")
	if text := s.Text("budget-usd"); text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		if err != nil || !(usd > 0) || math.IsInf(usd, 0) {
			p.Add("--budget-usd: %q is not a number above 0", text)
		}
		c.USD = usd
	}
	return c
}

// IsBaseline reports whether a model is the extractor that needs none.
func IsBaseline(model string) bool { return strings.EqualFold(strings.TrimSpace(model), "baseline") }

// promptConfig reads the config that is stored with a version of a prompt.
// Teams keep keys of their own in it, so an unknown one is told, not refused.
type promptConfig struct {
	where    string
	values   map[string]json.RawMessage
	problems []error
}

// fillFrom takes what the command line leaves open from the prompt's config,
// and returns what a person should know of it.
func (c *Config) fillFrom(t pipeline.Template) ([]string, error) {
	if text := bytes.TrimSpace(t.Config); len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	p := promptConfig{where: fmt.Sprintf("the config of prompt %s@%d", t.Name, t.Version)}
	if err := json.Unmarshal(t.Config, &p.values); err != nil {
		return nil, cli.Usage("%s: an object with keys such as model and temperature is expected", p.where)
	}
	var model string
	take(&p, "model", "a text", &model, nil)
	if !c.ModelGiven && model != "" {
		c.Model = model
	}
	take(&p, "placeholders", `lists of messages by name, such as {"history": [{"role": "user", "content": "…"}]}`, &c.Placeholders, nil)
	take(&p, "schema", "a JSON Schema, which is an object,", &c.Schema, func(raw json.RawMessage) bool { return raw[0] == '{' })
	takeNumber(&p, "temperature", "a number from 0 to 10", 0, 10, &c.Parameters.Temperature)
	takeNumber(&p, "top_p", "a number from 0 to 1", 0, 1, &c.Parameters.TopP)
	takeNumber(&p, "max_tokens", "a whole number from 1 on", 1, math.MaxInt32, &c.Parameters.MaxTokens)
	takeNumber(&p, "seed", "a whole number", math.MinInt64, math.MaxInt64, &c.Parameters.Seed)
	var unknown []string
	if len(p.values) > 0 {
		unknown = []string{fmt.Sprintf("%s has keys that are not used here: %s", p.where, strings.Join(slices.Sorted(maps.Keys(p.values)), ", "))}
	}
	return unknown, refused(errors.Join(p.problems...))
}

// take moves the value of a key into a variable; null counts as absent.
func take[T any](p *promptConfig, key, expected string, into *T, valid func(T) bool) {
	raw, ok := p.values[key]
	delete(p.values, key)
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	var v T
	if json.Unmarshal(raw, &v) != nil || valid != nil && !valid(v) {
		p.problems = append(p.problems, fmt.Errorf("%s: %s: %s is expected", p.where, key, expected))
		return
	}
	*into = v
}

// takeNumber takes a number from low to high where none is given yet.
func takeNumber[T int | int64 | float64](p *promptConfig, key, expected string, low, high T, into **T) {
	var v *T
	take(p, key, expected, &v, func(v *T) bool { return *v >= low && *v <= high })
	*into = cmp.Or(*into, v)
}
