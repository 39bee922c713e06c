package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline/prompt"
)

// promptConfig reads the config that is stored with a version of a prompt.
// Teams keep keys of their own in it, so an unknown one is told, not refused.
type promptConfig struct {
	where    string
	values   map[string]json.RawMessage
	problems problems
}

// fillFrom takes what the command line leaves open from the prompt's config,
// and returns what a person should know of it.
func (c *systemConfig) fillFrom(t prompt.Template) ([]string, error) {
	if text := bytes.TrimSpace(t.Config); len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	p := promptConfig{where: fmt.Sprintf("the config of prompt %s@%d", t.Name, t.Version)}
	if err := json.Unmarshal(t.Config, &p.values); err != nil {
		return nil, cli.Usage("%s: an object with keys such as model and temperature is expected", p.where)
	}
	var model string
	take(&p, "model", "a text", &model)
	if !c.modelGiven && model != "" {
		c.model = model
	}
	take(&p, "placeholders", `lists of messages by name, such as {"history": [{"role": "user", "content": "…"}]}`, &c.placeholders)
	take(&p, "schema", "a JSON Schema, which is an object", &c.schema)
	if len(c.schema) > 0 && bytes.TrimSpace(c.schema)[0] != '{' {
		p.problems.add("%s: schema: a JSON Schema, which is an object, is expected", p.where)
	}
	decimal(&p, "temperature", 0, 10, &c.parameters.Temperature)
	decimal(&p, "top_p", 0, 1, &c.parameters.TopP)
	whole(&p, "max_tokens", &c.parameters.MaxTokens)
	whole(&p, "seed", &c.parameters.Seed)
	if c.parameters.MaxTokens != nil && *c.parameters.MaxTokens < 1 {
		p.problems.add("%s: max_tokens: a whole number from 1 on is expected", p.where)
	}
	return p.unknown(), withCode(errors.Join(p.problems.found...))
}

// take moves the value of a key into a variable; null counts as absent.
func take[T any](p *promptConfig, key, expected string, into *T) {
	raw, ok := p.values[key]
	delete(p.values, key)
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	if json.Unmarshal(raw, into) != nil {
		p.problems.add("%s: %s: %s is expected", p.where, key, expected)
	}
}

// decimal takes a number within bounds where none is given yet.
func decimal(p *promptConfig, key string, low, high float64, into **float64) {
	var v *float64
	expected := fmt.Sprintf("a number from %g to %g", low, high)
	take(p, key, expected, &v)
	if v != nil && !(*v >= low && *v <= high) {
		p.problems.add("%s: %s: %s is expected", p.where, key, expected)
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
