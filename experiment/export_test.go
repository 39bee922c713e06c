package experiment

import (
	"cmp"
	"context"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RunnerConfig is a run with an existing file, for tests of how its items are run.
type RunnerConfig struct {
	Run          *runstore.Run
	Source       Source
	Task         Task
	Scorer       Scorer
	Workers      Workers
	Concurrency  int
	Timeout      time.Duration
	Stop         <-chan struct{}
	Retry        bool
	RetryClasses []outcome.Class
	Observer     Observer
}

// Runner takes the items of a run through its workers.
type Runner struct{ run *execution }

func NewRunner(cfg RunnerConfig) Runner {
	e := &execution{
		cfg: Config{Concurrency: cmp.Or(cfg.Concurrency, 4), Timeout: cmp.Or(cfg.Timeout, 5*time.Minute), Stop: cfg.Stop,
			Retry: cfg.Retry, RetryClasses: cfg.RetryClasses, Observer: cfg.Observer, Now: time.Now},
		run: cfg.Run, source: cfg.Source, system: System{Task: cfg.Task, Scorer: cfg.Scorer},
	}
	if cfg.Workers != nil {
		e.system.Workers = func(context.Context, outcome.Header) (Workers, error) { return cfg.Workers, nil }
	}
	return Runner{e}
}

func (r Runner) Run(ctx context.Context) (outcome.Footer, error) {
	err := r.run.openWorkers(ctx)
	if err == nil {
		r.run.result.Header, err = r.run.run.Header(context.Background())
	}
	if err != nil {
		return outcome.Footer{}, err
	}
	err = r.run.runItems(ctx)
	footer, _, footerErr := r.run.run.Footer(context.Background())
	return footer, cmp.Or(err, footerErr)
}

// RescoreRun scores into an existing run and returns its footer.
func RescoreRun(ctx context.Context, cfg RescoreConfig, to *runstore.Run, carry []string) (outcome.Footer, error) {
	err := (&rescorer{RescoreConfig: cfg, carry: carry}).fill(ctx, to)
	footer, _, footerErr := to.Footer(context.Background())
	return footer, cmp.Or(err, footerErr)
}

var Prefetch = prefetch
