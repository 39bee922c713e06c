package main

import (
	"math"
	"strconv"

	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
)

func (p *problems) system(s settings) system.Config {
	c := system.Config{
		Model: s.text("model"), ModelGiven: s["model"].from != "default", Pipeline: s.text("pipeline"), Record: s.text("record"), Limits: p.limits(s), Resume: p.toggle(s, "resume"), TwoStages: p.toggle(s, "two-stages"),
		Prompt:     langfuse.PromptRef{Name: s.text("prompt"), Label: s.text("prompt-label")},
		PromptFile: s.text("prompt-file"),
		Parameters: pipeline.Parameters{
			Temperature: p.number("temperature", s.text("temperature"), 0, 10),
			TopP:        p.number("top-p", s.text("top-p"), 0, 1),
		},
	}
	for _, word := range s.all("var") {
		v, err := prompt.ParseVar(word)
		if err != nil {
			p.add("--var: %v", err)
		}
		c.Vars = append(c.Vars, v)
	}
	if text := s.text("prompt-version"); text != "" {
		c.Prompt.Version = p.count("prompt-version", text, 1, math.MaxInt32)
	}
	if text := s.text("max-tokens"); text != "" {
		n := p.count("max-tokens", text, 1, math.MaxInt32)
		c.Parameters.MaxTokens = &n
	}
	if text := s.text("seed"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.add("--seed: %q is not a whole number", text)
		}
		c.Parameters.Seed = &n
	}
	if c.Prompt.Label != "" && c.Prompt.Version != 0 {
		p.add("--prompt-label and --prompt-version cannot both be given")
	}
	if c.PromptFile != "" && (c.Prompt.Label != "" || c.Prompt.Version != 0) {
		p.add("--prompt-file is a version of its own: leave --prompt-label and --prompt-version out")
	}
	if c.Pipeline != "" && (c.Record != "" || c.TwoStages || len(c.Vars) > 0) {
		p.add("--pipeline asks in its own way: leave --record, --two-stages and --var out")
	}
	if c.Pipeline != "" && c.Limits.Limited() {
		p.add("--pipeline asks its model itself: leave --rpm, --tpm, --cache and --budget-… out")
	}
	if c.Pipeline != "" && c.AsksPrompt() {
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

func (p *problems) limits(s settings) system.Limits {
	c := system.Limits{Retries: p.count("retries", s.text("retries"), 0, 100), Cache: s.text("cache")}
	bound := func(flag string) int {
		if text := s.text(flag); text != "" {
			return p.count(flag, text, 1, math.MaxInt32)
		}
		return 0
	}
	c.RPM, c.TPM, c.Tokens = bound("rpm"), bound("tpm"), bound("budget-tokens")
	if text := s.text("budget-usd"); text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		if err != nil || !(usd > 0) || math.IsInf(usd, 0) {
			p.add("--budget-usd: %q is not a number above 0", text)
		}
		c.USD = usd
	}
	return c
}
