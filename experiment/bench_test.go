package experiment_test

import (
	"context"
	"iter"
	"path/filepath"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// pagedList is the Source list with pages of 64 items, like those of Langfuse and files.
type pagedList int

func (n pagedList) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		var page []dataset.Item
		for one, err := range list(n).Pages(ctx) {
			if page = append(page, one...); err == nil && len(page) < 64 {
				continue
			}
			if !yield(page, err) {
				return
			}
			page = nil
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// BenchmarkRun measures the cost of the runner alone, from listing to footer: task and scorer
// take no time, and each outcome is durable.
func BenchmarkRun(b *testing.B) {
	const items = 2000
	for b.Loop() {
		run, err := runstore.Create(filepath.Join(b.TempDir(), "r.run"), outcome.Header{RunUID: "a", Name: "r", Trials: 1})
		noError(b, err)
		r := experiment.NewRunner(experiment.RunnerConfig{Run: run, Source: pagedList(items), Task: task(echo), Scorer: half{}, Concurrency: 8})
		if _, err := r.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := run.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(items*b.N)/b.Elapsed().Seconds(), "outcomes/s")
}
