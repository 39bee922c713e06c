package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Config says what to run. Run, Source, Task and Scorer are required.
type Config struct {
	Run    *runstore.Run // open for writing; new, or to be resumed
	Source Source
	Task   Task
	Scorer Scorer

	// Concurrency is how many items are worked on at once; 0 means 4.
	Concurrency int
	// Timeout bounds the task of one item; 0 means 5 minutes.
	Timeout time.Duration
	// Stop, when closed, ends the run softly: nothing more is handed out, what
	// is in flight is finished and committed. Cancelling the context of Run
	// stops at once instead. Nil never stops.
	Stop <-chan struct{}
	// Retry also gives every item a new attempt whose newest one failed, before
	// this Run, with one of RetryClasses (none: with any class).
	Retry        bool
	RetryClasses []outcome.Class
	// Observer is told of progress, one call at a time; nil is told nothing.
	Observer Observer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Observer follows the progress of a run. It is called by one goroutine at a
// time and must not block for long: workers wait for it.
type Observer interface {
	// Listed is called while the items are listed, with how many there are.
	Listed(items int)
	// Planned is called once, when the items are known: how many outcomes the
	// run will have, and how many it has already because it was resumed.
	Planned(total, done int)
	// Started is called when an item is handed to a worker.
	Started(item string)
	// Done is called when its outcome is committed.
	Done(o outcome.Outcome)
}

// ErrInterrupted is returned by Run when it was stopped before every item had
// an outcome. Its exit code is 5: the run can be resumed.
var ErrInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "the run was stopped before every item was done" }

// ExitCode returns 5.
func (interrupted) ExitCode() int { return 5 }

// StoppedError is an ErrInterrupted for a reason of the task's own: its budget
// is used up, or the provider accepts nothing. Its exit code is that of the
// reason.
type StoppedError struct{ Cause error }

// Error returns the reason.
func (e *StoppedError) Error() string { return e.Cause.Error() }

// Unwrap returns ErrInterrupted and the reason.
func (e *StoppedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }

// ExitCode is that of the reason, else 5.
func (e *StoppedError) ExitCode() int {
	var coded interface{ ExitCode() int }
	if errors.As(e.Cause, &coded) {
		return coded.ExitCode()
	}
	return 5
}

// Runner carries out one run. It is used once.
type Runner struct {
	cfg Config
	obs *serialObserver
}

// New checks the configuration and returns every problem of it at once.
func New(cfg Config) (*Runner, error) {
	var problems []error
	need := func(missing bool, field string) {
		if missing {
			problems = append(problems, fmt.Errorf("experiment: Config.%s is missing", field))
		}
	}
	need(cfg.Run == nil, "Run")
	need(cfg.Source == nil, "Source")
	need(cfg.Task == nil, "Task")
	need(cfg.Scorer == nil, "Scorer")
	if cfg.Concurrency < 0 {
		problems = append(problems, fmt.Errorf("experiment: a concurrency of %d is impossible", cfg.Concurrency))
	}
	if cfg.Timeout < 0 {
		problems = append(problems, fmt.Errorf("experiment: a timeout of %s is impossible", cfg.Timeout))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 4
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Runner{cfg: cfg, obs: &serialObserver{to: cfg.Observer}}, nil
}

// Run works until every item of the run file has an outcome in every trial,
// and with Config.Retry every failed one another attempt.
//
// The footer is that of the run file, and valid whenever that could be written,
// also beside ErrInterrupted, which may be a *StoppedError. Failed items are
// outcomes, not errors; an error other than ErrInterrupted means that items could
// not be listed or outcomes not be written. Everything committed before the error
// stays; running again on the same file goes on from there.
func (r *Runner) Run(ctx context.Context) (outcome.Footer, error) {
	header, err := r.cfg.Run.Header(ctx)
	if err != nil {
		return outcome.Footer{}, r.stopped(ctx, err)
	}
	planned, err := r.plan(ctx)
	for trial := 1; err == nil && trial <= max(1, header.Trials); trial++ {
		if r.cfg.Retry { // first, or what fails now would be tried again at once
			err = r.pass(ctx, trial, r.failed)
		}
		if err == nil {
			err = r.pass(ctx, trial, r.unrun)
		}
	}
	return r.finish(planned, err)
}

// finish writes the footer, whatever happened, and says whether the run is
// complete. A complete run to which nothing was added stays as it is: nothing was
// left to do, or it was stopped before an item was tried again.
func (r *Runner) finish(planned int, cause error) (outcome.Footer, error) {
	if kept, ok, err := r.cfg.Run.Footer(context.Background()); err == nil && ok && kept.Status == outcome.Complete {
		return kept, cause
	}
	if planned == 0 { // the plan was not finished: what an earlier process knew
		if counts, err := r.cfg.Run.Counts(context.Background()); err == nil {
			planned = int(counts.Planned)
		}
	}
	footer := outcome.Footer{Status: outcome.Complete, Planned: planned, Ended: r.cfg.Now().UTC()}
	if cause != nil {
		footer.Status = outcome.Interrupted
	}
	if err := r.cfg.Run.Finish(context.Background(), footer); err != nil {
		return footer, errors.Join(cause, err)
	}
	return footer, cause
}
