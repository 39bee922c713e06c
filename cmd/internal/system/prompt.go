package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
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

// findPrompt fetches the prompt that is asked for, of that name unless it has one, or
// pushes the file if check finds that it can be used.
func (o Opener) findPrompt(ctx context.Context, cfg Config, name string, check func(pipeline.Template) error) (pipeline.Template, outcome.Prompt, error) {
	ref := cfg.Prompt
	ref.Name = cmp.Or(ref.Name, name)
	if cfg.PromptFile == "" {
		return o.FetchPrompt(ctx, ref, promptFromFile)
	}
	template, err := readPrompt(ctx, cfg.PromptFile, check)
	if err != nil || cfg.Estimator != nil {
		return template, outcome.Prompt{}, err
	}
	return tracking.PushPrompt(ctx, o.Langfuse.Client, ref.Name, template)
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
	take(&p, "model", "a text", &model, nil)
	if !c.ModelGiven && model != "" {
		c.Model = model
	}
	take(&p, "placeholders", `lists of messages by name, such as {"history": [{"role": "user", "content": "…"}]}`, &c.placeholders, nil)
	take(&p, "schema", "a JSON Schema, which is an object,", &c.schema, func(raw json.RawMessage) bool { return raw[0] == '{' })
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
