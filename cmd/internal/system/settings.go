package system

import (
	"math"
	"strconv"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline"
)

// Read reads what the settings say of the system under test, and notes what is wrong.
func Read(p *cli.Problems, s cli.Values) Config {
	c := Config{
		Model: s.Text("model"), ModelGiven: s["model"].From != cli.FromDefault, Pipeline: s.Text("pipeline"), Record: s.Text("record"), Limits: readLimits(p, s), Resume: p.Switch(s, "resume"), TwoStages: p.Switch(s, "two-stages"),
		Prompt:     langfuse.PromptRef{Name: s.Text("prompt"), Label: s.Text("prompt-label")},
		PromptFile: s.Text("prompt-file"),
		Parameters: pipeline.Parameters{
			Temperature: p.Number("temperature", s.Text("temperature"), 0, 10),
			TopP:        p.Number("top-p", s.Text("top-p"), 0, 1),
		},
	}
	for _, word := range s.All("var") {
		v, err := pipeline.ParseVar(word)
		if err != nil {
			p.Add("--var: %v", err)
		}
		c.Vars = append(c.Vars, v)
	}
	if text := s.Text("prompt-version"); text != "" {
		c.Prompt.Version = p.Count("prompt-version", text, 1, math.MaxInt32)
	}
	if text := s.Text("max-tokens"); text != "" {
		n := p.Count("max-tokens", text, 1, math.MaxInt32)
		c.Parameters.MaxTokens = &n
	}
	if text := s.Text("seed"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.Add("--seed: %q is not a whole number", text)
		}
		c.Parameters.Seed = &n
	}
	if c.Prompt.Label != "" && c.Prompt.Version != 0 {
		p.Add("--prompt-label and --prompt-version cannot both be given")
	}
	if c.PromptFile != "" && (c.Prompt.Label != "" || c.Prompt.Version != 0) {
		p.Add("--prompt-file is a version of its own: leave --prompt-label and --prompt-version out")
	}
	if c.Pipeline != "" && (c.Record != "" || c.TwoStages || len(c.Vars) > 0) {
		p.Add("--pipeline asks in its own way: leave --record, --two-stages and --var out")
	}
	if c.Pipeline != "" && c.Limits.Limited() {
		p.Add("--pipeline asks its model itself: leave --rpm, --tpm, --cache and --budget-… out")
	}
	if c.Pipeline != "" && c.AsksPrompt() {
		p.Add("--pipeline has prompts of its own: leave --prompt and its relatives out")
	}
	return c
}

func readLimits(p *cli.Problems, s cli.Values) Limits {
	c := Limits{Retries: p.Count("retries", s.Text("retries"), 0, 100), Cache: s.Text("cache")}
	bound := func(flag string) int {
		if text := s.Text(flag); text != "" {
			return p.Count(flag, text, 1, math.MaxInt32)
		}
		return 0
	}
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
