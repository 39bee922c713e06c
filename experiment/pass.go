package experiment

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/runstore"
)

// handOut is how many items wait in memory for a worker, beside those that
// are worked on: items may be megabytes.
const handOut = 8

// unit is an item to be worked on, for the attempt of that number.
type unit struct {
	runstore.Item
	attempt int
}

// upcoming returns the next units of a trial, in order of arrival, beginning
// after the item with that seq; none says that there are no more.
type upcoming func(ctx context.Context, trial int, after int64) ([]unit, error)

// unrun finds the items that have no outcome in the trial.
func (r *Runner) unrun(ctx context.Context, trial int, after int64) ([]unit, error) {
	page, err := r.cfg.Run.Unrun(ctx, trial, after, handOut)
	units := make([]unit, len(page))
	for i, item := range page {
		units[i] = unit{item, 1}
	}
	return units, err
}

// failed finds the items that failed before and are to be tried again.
func (r *Runner) failed(ctx context.Context, trial int, after int64) ([]unit, error) {
	page, err := r.cfg.Run.Failed(ctx, trial, r.cfg.RetryClasses, after, handOut)
	if err != nil {
		return nil, err
	}
	units := make([]unit, len(page))
	for i, f := range page {
		item, err := r.cfg.Run.Item(ctx, f.ID)
		if err != nil {
			return nil, err
		}
		units[i] = unit{item, f.Attempt + 1}
	}
	return units, nil
}

// pass takes what is to come in this trial through the workers. A soft stop is
// no error to the group: it would cancel what is in flight.
func (r *Runner) pass(ctx context.Context, trial int, next upcoming) error {
	group, inner := errgroup.WithContext(ctx)
	jobs := make(chan unit)
	halt := &halt{signal: make(chan struct{})}
	var all bool
	group.Go(func() (err error) {
		defer close(jobs)
		all, err = r.handOut(inner, trial, next, jobs, halt)
		return err
	})
	for range r.cfg.Concurrency {
		group.Go(func() error { return r.work(inner, trial, jobs, halt) })
	}
	if err := group.Wait(); err != nil {
		return r.stopped(ctx, err)
	}
	if halt.cause != nil {
		return &StoppedError{halt.cause}
	}
	if !all {
		return ErrInterrupted
	}
	return nil
}

// halt ends a pass softly because nothing more can be tried.
type halt struct {
	once   sync.Once
	signal chan struct{}
	cause  error
}

func (h *halt) begin(cause error) {
	h.once.Do(func() {
		h.cause = cause
		close(h.signal)
	})
}

// handOut reads what is to come in order of arrival and gives it to the
// workers, and reports whether it gave out all of it or was stopped softly.
func (r *Runner) handOut(ctx context.Context, trial int, next upcoming, jobs chan<- unit, halt *halt) (all bool, err error) {
	var after int64
	for {
		page, err := next(ctx, trial, after)
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			return true, nil
		}
		for _, u := range page {
			if r.stopping() {
				return false, nil
			}
			select {
			case jobs <- u:
				after = u.Seq
			case <-r.cfg.Stop:
				return false, nil
			case <-halt.signal:
				return false, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
	}
}

// work takes items until there are none. A soft stop closes jobs, so that what
// is in flight is still committed; only when the context ends is an item given
// up, and then nothing of it is recorded: it will be run again. Nor is an item
// that could not be tried, which halts the pass.
func (r *Runner) work(ctx context.Context, trial int, jobs <-chan unit, halt *halt) error {
	for u := range jobs {
		r.obs.started(u.ID)
		o, stop := r.attempt(ctx, u, trial)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop != nil {
			halt.begin(stop)
			continue
		}
		if err := r.cfg.Run.Commit(context.WithoutCancel(ctx), o); err != nil {
			return err
		}
		r.obs.done(o)
	}
	return nil
}
