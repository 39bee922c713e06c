package system

import (
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// TestRestoreSpent: a dollar per token of the opened model, two of another, ten of the judge.
func TestRestoreSpent(t *testing.T) {
	prices := func(model string) (pipeline.Price, bool) {
		usd, known := map[string]float64{"opened": 1e6, "other": 2e6, "judge": 10e6}[model]
		return pipeline.Price{Input: usd, CachedInput: usd, Output: usd}, known
	}
	judgement := outcome.Call{Kind: outcome.JudgingKind, Model: "openai/judge", Assumed: outcome.Usage{Input: 1}}
	cached := outcome.Call{Kind: outcome.JudgingKind, Model: "openai/judge", Cached: true, Usage: outcome.Usage{Input: 7}}
	for name, tt := range map[string]struct {
		system outcome.System
		spent  outcome.Outcome
		usd    float64
		tokens int64
	}{
		"assumed":         {outcome.System{Model: "opened"}, outcome.Outcome{Detail: outcome.Detail{Assumed: outcome.Usage{Input: 3}}}, 3, 3},
		"of another":      {outcome.System{Model: "other"}, outcome.Outcome{Detail: outcome.Detail{Assumed: outcome.Usage{Input: 3}}}, 6, 3},
		"without a price": {outcome.System{Model: "own"}, outcome.Outcome{Usage: outcome.Usage{Input: 3}}, 3, 3},
		"reported":        {outcome.System{Model: "other"}, outcome.Outcome{CostUSD: new(0.5), Usage: outcome.Usage{Input: 3}}, 0.5, 3},
		"judged": {outcome.System{Model: "opened"}, outcome.Outcome{CostUSD: new(0.5), Usage: outcome.Usage{Input: 3},
			Detail: outcome.Detail{Calls: []outcome.Call{{Kind: "generation"}, judgement, judgement, cached}}}, 20.5, 5},
		"replayed": {outcome.System{Model: "opened", Pipeline: provider.Recorded}, outcome.Outcome{CostUSD: new(0.5), Usage: outcome.Usage{Input: 3},
			Detail: outcome.Detail{Calls: []outcome.Call{judgement}}}, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			budget, err := pipeline.NewBudget(pipeline.BudgetConfig{USD: 100, Model: "opened", Prices: prices})
			if err != nil {
				t.Fatal(err)
			}
			Model{Budget: budget}.restoreSpent()(outcome.Header{System: tt.system}, tt.spent)
			if usd, tokens := budget.Spent(); usd != tt.usd || tokens != tt.tokens {
				t.Errorf("%g USD and %d tokens, want %g and %d", usd, tokens, tt.usd, tt.tokens)
			}
		})
	}
}
