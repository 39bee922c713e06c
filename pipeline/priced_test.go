package pipeline_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

func TestPrice_Cost(t *testing.T) {
	price := pipeline.Price{Input: 2.5, CachedInput: 1.25, Output: 10}
	limited := price
	limited.MaxInput = 200_000
	tests := map[string]struct {
		price pipeline.Price
		usage outcome.Usage
		want  float64 // below 0: unknown
	}{
		// 1000 × 2.5 + 200 × 10 = 4500; / 1e6
		"input and output": {price, outcome.Usage{Input: 1000, Output: 200}, 0.0045},
		// 600 × 2.5 + 400 × 1.25 + 200 × 10 = 1500 + 500 + 2000 = 4000; / 1e6
		"cached is part of input": {price, outcome.Usage{Input: 1000, Cached: 400, Output: 200}, 0.004},
		// 150 of the 200 are reasoning and not added again: 4500 as above
		"reasoning is part of output": {price, outcome.Usage{Input: 1000, Output: 200, Reasoning: 150}, 0.0045},
		"no output, as of a refusal":  {price, outcome.Usage{Input: 1000}, 0.0025},
		"a free model costs 0":        {pipeline.Price{}, outcome.Usage{Input: 5, Output: 5}, 0},
		"no usage":                    {price, outcome.Usage{}, -1},
		"no input":                    {price, outcome.Usage{Output: 200}, -1},
		"more cached than input":      {price, outcome.Usage{Input: 10, Cached: 11}, -1},
		"negative cached":             {price, outcome.Usage{Input: 10, Cached: -1}, -1},
		"negative output":             {price, outcome.Usage{Input: 10, Output: -1}, -1},
		// 200,000 × 2.5 / 1e6
		"at the border":    {limited, outcome.Usage{Input: 200_000}, 0.5},
		"above the border": {limited, outcome.Usage{Input: 200_001}, -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.price.Cost(tt.usage)
			switch {
			case tt.want < 0 && got != nil:
				t.Errorf("got %v, want unknown", *got)
			case tt.want >= 0 && got == nil:
				t.Errorf("got unknown, want %v", tt.want)
			case tt.want >= 0 && math.Abs(*got-tt.want) > 1e-12:
				t.Errorf("got %v, want %v", *got, tt.want)
			}
		})
	}
}

// TestPrice_Cost_adds checks that two calls cost as much as one with the sum of their tokens.
func TestPrice_Cost_adds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usage := func(name string) outcome.Usage {
			input := rapid.Int64Range(1, 1_000_000).Draw(t, name+" input")
			return outcome.Usage{Input: input, Cached: rapid.Int64Range(0, input).Draw(t, name+" cached"), Output: rapid.Int64Range(0, 1_000_000).Draw(t, name+" output")}
		}
		price := pipeline.Price{Input: rapid.Float64Range(0, 100).Draw(t, "in"), CachedInput: rapid.Float64Range(0, 100).Draw(t, "cached"), Output: rapid.Float64Range(0, 100).Draw(t, "out")}
		a, b := usage("a"), usage("b")
		sum, whole := *price.Cost(a)+*price.Cost(b), *price.Cost(a.Add(b))
		if math.Abs(sum-whole) > 1e-9*math.Max(1, whole) {
			t.Fatalf("%v and %v", sum, whole)
		}
	})
}

// fixedModel gives every request the same answer.
type fixedModel struct {
	response pipeline.Response
	err      error
}

func (f fixedModel) Generate(context.Context, pipeline.Request) (pipeline.Response, error) {
	return f.response, f.err
}

func TestPriced(t *testing.T) {
	prices := func(model string) (pipeline.Price, bool) {
		price, ok := map[string]pipeline.Price{"asked": {Input: 1}, "asked-2024": {Input: 2}}[model]
		return price, ok
	}
	statedCost, failure := 7.0, errors.New("empty")
	million := outcome.Usage{Input: 1_000_000}
	tests := map[string]struct {
		name string
		from fixedModel
		want float64 // below 0: unknown
	}{
		"the name asked for":                {"asked", fixedModel{response: pipeline.Response{Usage: million}}, 1},
		"the name answered is more exact":   {"asked", fixedModel{response: pipeline.Response{Model: "asked-2024", Usage: million}}, 2},
		"the name answered is unknown":      {"asked", fixedModel{response: pipeline.Response{Model: "llama.gguf", Usage: million}}, 1},
		"neither is known":                  {"other", fixedModel{response: pipeline.Response{Model: "llama.gguf", Usage: million}}, -1},
		"no usage":                          {"asked", fixedModel{}, -1},
		"a stated cost is kept":             {"asked", fixedModel{response: pipeline.Response{CostUSD: &statedCost, Usage: million}}, 7},
		"an answer with an error was paid":  {"asked", fixedModel{response: pipeline.Response{Usage: million}, err: failure}, 1},
		"an error alone has no known price": {"asked", fixedModel{err: failure}, -1},
		"what was refused costs nothing":    {"asked", fixedModel{err: &pipeline.ModelError{Status: 429}}, 0},
		"nor what did not get there":        {"asked", fixedModel{err: &pipeline.ModelError{Unreached: true}}, 0},
		"nor an error with a good status":   {"asked", fixedModel{err: &pipeline.ModelError{Status: 200, ErrorBody: true}}, 0},
		"unless it was paid for":            {"asked", fixedModel{response: pipeline.Response{Usage: million}, err: &pipeline.ModelError{Status: 400}}, 1},
		"nor is it known without a price":   {"other", fixedModel{err: &pipeline.ModelError{Status: 429}}, -1},
		"what was cut off is not known":     {"asked", fixedModel{err: &pipeline.ModelError{Status: 200}}, -1},
		"nor what was given up":             {"asked", fixedModel{err: &pipeline.ModelError{Status: 504, Failure: outcome.Failure{Class: outcome.Timeout}}}, -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pipeline.Priced(tt.from, tt.name, prices).Generate(t.Context(), pipeline.Request{})
			if err != tt.from.err {
				t.Errorf("error %v, want %v", err, tt.from.err)
			}
			if (got.CostUSD == nil) != (tt.want < 0) || got.CostUSD != nil && *got.CostUSD != tt.want {
				t.Errorf("cost %v, want %v", got.CostUSD, tt.want)
			}
		})
	}
}
