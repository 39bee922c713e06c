package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestRunner_retry runs 12 items, of which 3 time out and 3 fail with the provider, and then
// retries some of them.
func TestRunner_retry(t *testing.T) {
	run := create(t)
	var calls atomic.Int32
	broken := true
	flaky := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		n := calls.Add(1)
		var i int
		if _, err := fmt.Sscanf(item.ID, "i%d", &i); err != nil {
			return experiment.TaskResult{}, err
		}
		switch {
		case broken && i%4 == 0:
			return experiment.TaskResult{}, &outcome.Failure{Class: outcome.Timeout, Message: fmt.Sprint("call ", n)}
		case broken && i%4 == 1:
			return experiment.TaskResult{}, errors.New("refused")
		}
		return echo(ctx, item)
	}
	do := func(cfg experiment.RunnerConfig) map[outcome.Class]int {
		t.Helper()
		cfg.Run, cfg.Source, cfg.Task, cfg.Scorer = run, list(12), task(flaky), half{}
		r := experiment.NewRunner(cfg)
		if footer, err := r.Run(t.Context()); err != nil || footer.Status != outcome.Complete || footer.Planned != 12 {
			t.Fatalf("%v, %+v", err, footer)
		}
		newest := map[outcome.Class]int{}
		for o, err := range run.Outcomes(t.Context(), runstore.Query{Newest: true}) {
			noError(t, err)
			newest[o.Class]++
		}
		return newest
	}
	check := func(found map[outcome.Class]int, timeouts, provider, total int32) {
		t.Helper()
		if found[outcome.Timeout] != int(timeouts) || found[outcome.Provider] != int(provider) || calls.Load() != total {
			t.Errorf("%v after %d calls; want %d timeouts, %d of the provider, %d calls", found, calls.Load(), timeouts, provider, total)
		}
	}
	check(do(experiment.RunnerConfig{}), 3, 3, 12)
	check(do(experiment.RunnerConfig{}), 3, 3, 12)            // nothing is left to do
	check(do(experiment.RunnerConfig{Retry: true}), 3, 3, 18) // each once, however they end
	broken = false
	check(do(experiment.RunnerConfig{Retry: true, RetryClasses: []outcome.Class{outcome.Timeout}}), 0, 3, 21)
	check(do(experiment.RunnerConfig{Retry: true}), 0, 0, 24)
	var attempts []int
	for o, err := range run.Outcomes(t.Context(), runstore.Query{Item: "i01"}) {
		noError(t, err)
		attempts = append(attempts, o.Attempt)
	}
	if !slices.Equal(attempts, []int{1, 2, 3}) {
		t.Errorf("attempts of i01: %v", attempts)
	}
}

// TestRunner_retryStopped checks that a complete run stays complete if it is stopped before an
// item was tried again.
func TestRunner_retryStopped(t *testing.T) {
	run := create(t)
	refuses := func(context.Context, experiment.Item) (experiment.TaskResult, error) {
		return experiment.TaskResult{}, errors.New("refused")
	}
	cfg := experiment.RunnerConfig{Run: run, Source: list(3), Task: task(refuses), Scorer: half{}}
	_, footer, err := carryOut(t, t.Context(), cfg)
	if err != nil || footer.Status != outcome.Complete {
		t.Fatalf("%v, %+v", err, footer)
	}
	stop := make(chan struct{})
	close(stop)
	cfg.Retry, cfg.Stop = true, stop
	_, again, err := carryOut(t, t.Context(), cfg)
	if !errors.Is(err, experiment.ErrInterrupted) || again != footer {
		t.Errorf("%v, %+v; want %+v", err, again, footer)
	}
	if kept, ok, err := run.Footer(t.Context()); err != nil || !ok || kept != footer {
		t.Errorf("in the file: %+v, %v, %v", kept, ok, err)
	}
}
