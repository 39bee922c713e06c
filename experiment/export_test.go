package experiment

import (
	"cmp"
	"context"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RunnerConfig is a run whose file is there, for the tests of what is done to its items.
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

func NewRunner(c RunnerConfig) Runner {
	e := &execution{
		cfg: Config{Concurrency: cmp.Or(c.Concurrency, 4), Timeout: cmp.Or(c.Timeout, 5*time.Minute), Stop: c.Stop,
			Retry: c.Retry, RetryClasses: c.RetryClasses, Observer: c.Observer, Now: time.Now},
		run: c.Run, source: c.Source, system: System{Task: c.Task, Scorer: c.Scorer},
	}
	if c.Workers != nil {
		e.system.Workers = func(context.Context, outcome.Header) (Workers, error) { return c.Workers, nil }
	}
	return Runner{e}
}

func (r Runner) Run(ctx context.Context) (outcome.Footer, error) {
	err := r.run.staff(ctx)
	if err == nil {
		r.run.result.Header, err = r.run.run.Header(context.Background())
	}
	if err != nil {
		return outcome.Footer{}, err
	}
	err = r.run.work(ctx)
	footer, _, failed := r.run.run.Footer(context.Background())
	return footer, cmp.Or(err, failed)
}

// RescoreRun fills a run and returns its footer.
func RescoreRun(ctx context.Context, cfg RescoreConfig, to *runstore.Run, carry []string) (outcome.Footer, error) {
	err := rescore(ctx, cfg, to, carry)
	footer, _, failed := to.Footer(context.Background())
	return footer, cmp.Or(err, failed)
}

var Ahead = ahead
