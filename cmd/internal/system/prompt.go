package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/tracking"
)

// findPrompt fetches the prompt that is asked for, or pushes the file.
func (o Opener) findPrompt(ctx context.Context, cfg Config) (pipeline.Template, outcome.Prompt, error) {
	ref := cfg.Prompt
	if ref.Name == "" {
		ref.Name = pipeline.DefaultPromptName
	}
	if cfg.PromptFile != "" {
		template, err := readPrompt(ctx, cfg.PromptFile, func(t pipeline.Template) error { return t.Check(cfg.Vars, nil) })
		if err != nil {
			return pipeline.Template{}, outcome.Prompt{}, err
		}
		if cfg.Estimator != nil {
			return template, outcome.Prompt{}, nil
		}
		return tracking.PushPrompt(ctx, o.Langfuse.Client, ref.Name, template)
	}
	return o.FetchPrompt(ctx, ref, promptFromFile)
}

// promptFromFile is how else a run comes to a prompt.
const promptFromFile = "--prompt-file FILE makes one"

// FetchPrompt finds a prompt in Langfuse; without label and version, that of
// production. otherwise tells a person what to do where there is none.
func (o Opener) FetchPrompt(ctx context.Context, ref langfuse.PromptRef, otherwise string) (pipeline.Template, outcome.Prompt, error) {
	if ref.Label == "" && ref.Version == 0 {
		ref.Label = "production"
	}
	template, pin, err := tracking.FindPrompt(ctx, o.Langfuse.Client, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		return template, pin, fmt.Errorf("%w; %s", missingPrompt(ctx, o.Langfuse.Client, ref), otherwise)
	}
	return template, pin, err
}

// readPrompt reads a prompt from a file: messages where it ends in .json, else
// a text. check says whether it can be used.
func readPrompt(ctx context.Context, path string, check func(pipeline.Template) error) (pipeline.Template, error) {
	raw, err := files.Read(ctx, path, files.MaxText)
	if err != nil {
		return pipeline.Template{}, cli.Usage("reading the prompt: %w", err)
	}
	template := pipeline.ParseText(string(raw))
	if strings.EqualFold(filepath.Ext(path), ".json") {
		if template, err = pipeline.ParseChat(raw); err != nil {
			return template, cli.Usage("reading %s: %w", path, err)
		}
	}
	if err := check(template); err != nil {
		return template, cli.Usage("%s: %w", path, err)
	}
	return template, nil
}

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
	take(&p, "model", "a text", &model)
	if !c.ModelGiven && model != "" {
		c.Model = model
	}
	take(&p, "placeholders", `lists of messages by name, such as {"history": [{"role": "user", "content": "…"}]}`, &c.placeholders)
	take(&p, "schema", "a JSON Schema, which is an object", &c.schema)
	if len(c.schema) > 0 && bytes.TrimSpace(c.schema)[0] != '{' {
		p.add("%s: schema: a JSON Schema, which is an object, is expected", p.where)
	}
	decimal(&p, "temperature", 0, 10, &c.Parameters.Temperature)
	decimal(&p, "top_p", 0, 1, &c.Parameters.TopP)
	whole(&p, "max_tokens", &c.Parameters.MaxTokens)
	whole(&p, "seed", &c.Parameters.Seed)
	if c.Parameters.MaxTokens != nil && *c.Parameters.MaxTokens < 1 {
		p.add("%s: max_tokens: a whole number from 1 on is expected", p.where)
	}
	return p.unknown(), refused(errors.Join(p.problems...))
}

// take moves the value of a key into a variable; null counts as absent.
func take[T any](p *promptConfig, key, expected string, into *T) {
	raw, ok := p.values[key]
	delete(p.values, key)
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	if json.Unmarshal(raw, into) != nil {
		p.add("%s: %s: %s is expected", p.where, key, expected)
	}
}

// decimal takes a number within bounds where none is given yet.
func decimal(p *promptConfig, key string, low, high float64, into **float64) {
	var v *float64
	expected := fmt.Sprintf("a number from %g to %g", low, high)
	take(p, key, expected, &v)
	if v != nil && !(*v >= low && *v <= high) {
		p.add("%s: %s: %s is expected", p.where, key, expected)
	}
	if *into == nil {
		*into = v
	}
}

// whole takes a whole number where none is given yet.
func whole[T int | int64](p *promptConfig, key string, into **T) {
	var v *T
	take(p, key, "a whole number", &v)
	if *into == nil {
		*into = v
	}
}

// unknown tells the keys that were not taken.
func (p *promptConfig) unknown() []string {
	if len(p.values) == 0 {
		return nil
	}
	var keys []string
	for key := range p.values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return []string{fmt.Sprintf("%s has keys that are not used here: %s", p.where, strings.Join(keys, ", "))}
}

func (p *promptConfig) add(format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf(format, args...))
}
