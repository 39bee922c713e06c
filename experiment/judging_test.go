package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// judgingScorer is a Scorer that asks a model, at 0.25 a call. After the given number of calls
// its budget is used up.
type judgingScorer struct {
	half
	calls *int
}

func (j judgingScorer) ForItem(dataset.Item) (experiment.ItemScorer, error) { return j, nil }

func (j judgingScorer) ScoreContext(context.Context, json.RawMessage, any) (experiment.Scored, error) {
	if *j.calls--; *j.calls < 0 {
		return experiment.Scored{}, &pipeline.BudgetError{Bound: "1.00 USD", Spent: "1.00 USD"}
	}
	usd := 0.25
	return experiment.Scored{
		Scores: []outcome.Score{{Name: "judge", Value: &usd}},
		Calls:  []outcome.Call{{Name: "judge", Kind: outcome.JudgingKind, Usage: outcome.Usage{Input: 7, Output: 3}, CostUSD: &usd}},
	}, nil
}

// TestRunner_judgingInvalid: the cost of a judge is kept when the outcome cannot be stored.
func TestRunner_judgingInvalid(t *testing.T) {
	calls := 1
	broken := func(context.Context, experiment.Item) (experiment.TaskResult, error) {
		return experiment.TaskResult{Output: json.RawMessage("{}"), Calls: []outcome.Call{{Usage: outcome.Usage{Input: -1}}}}, nil
	}
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(1), Task: task(broken), Scorer: judgingScorer{calls: &calls}, Concurrency: 1}
	found, _, err := carryOut(t, t.Context(), cfg)
	noError(t, err)
	for _, o := range found {
		if o.Class != outcome.Internal || o.Judging == nil || *o.Judging.CostUSD != 0.25 {
			t.Errorf("%+v", o)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d outcomes", len(found))
	}
}

// TestRunner_judging checks that the usage of a judging model is stored with the outcome, apart
// from that of the task, and that the run stops when the model's budget is used up.
func TestRunner_judging(t *testing.T) {
	run, calls := create(t), 3
	cfg := experiment.RunnerConfig{Run: run, Source: list(5), Task: task(echo), Scorer: judgingScorer{calls: &calls}, Concurrency: 1}
	found, footer, err := carryOut(t, t.Context(), cfg)
	var used *pipeline.BudgetError
	if !errors.As(err, &used) || !errors.Is(err, experiment.ErrInterrupted) || len(found) != 3 || footer.Status != outcome.Interrupted {
		t.Fatalf("%d outcomes, %v", len(found), err)
	}
	header, err := run.Header(t.Context())
	noError(t, err)
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	for _, o := range found {
		if j := o.Judging; j == nil || j.Calls != 1 || *j.CostUSD != 0.25 || j.Usage.Input != 7 || o.Usage.Total() != 0 || o.Calls[len(o.Calls)-1].Name != "judge" {
			t.Errorf("%+v", o)
		}
		sum.Add(o)
	}
	s := sum.Summary()
	if j := s.Judging; j == nil || j.Calls != 3 || *j.CostUSD != 0.75 || j.Usage.Total() != 30 || s.Usage.Total != 0 {
		t.Errorf("%+v, %+v", s.Judging, s.Usage)
	}
	calls = 2
	if found, footer, err = carryOut(t, t.Context(), cfg); err != nil || len(found) != 5 || footer.Status != outcome.Complete {
		t.Errorf("resumed: %d outcomes, %v", len(found), err)
	}
}
