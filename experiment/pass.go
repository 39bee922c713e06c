package experiment

import (
	"context"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/runstore"
)

// handOut is how many items wait in memory for a worker, beside those that
// are worked on: items may be megabytes.
const handOut = 8

// pass takes every item that has no outcome in this trial through the workers.
// A soft stop is no error to the group: it would cancel what is in flight.
func (r *Runner) pass(ctx context.Context, trial int) error {
	group, inner := errgroup.WithContext(ctx)
	jobs := make(chan runstore.Item)
	var all bool
	group.Go(func() (err error) {
		defer close(jobs)
		all, err = r.handOut(inner, trial, jobs)
		return err
	})
	for range r.cfg.Concurrency {
		group.Go(func() error { return r.work(inner, trial, jobs) })
	}
	if err := group.Wait(); err != nil {
		return r.stopped(ctx, err)
	}
	if !all {
		return ErrInterrupted
	}
	return nil
}

// handOut reads the items without an outcome in order of arrival and gives
// them to the workers, and reports whether it gave out all of them or was
// stopped softly.
func (r *Runner) handOut(ctx context.Context, trial int, jobs chan<- runstore.Item) (all bool, err error) {
	var after int64
	for {
		page, err := r.cfg.Run.Unrun(ctx, trial, after, handOut)
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			return true, nil
		}
		for _, item := range page {
			if r.stopping() {
				return false, nil
			}
			select {
			case jobs <- item:
				after = item.Seq
			case <-r.cfg.Stop:
				return false, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
	}
}

// work takes items until there are none. A soft stop closes jobs, so that what
// is in flight is still committed; only when the context ends is an item given
// up, and then nothing of it is recorded: it will be run again.
func (r *Runner) work(ctx context.Context, trial int, jobs <-chan runstore.Item) error {
	for item := range jobs {
		r.obs.started(item.ID)
		o := r.attempt(ctx, item, trial)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.cfg.Run.Commit(context.WithoutCancel(ctx), o); err != nil {
			return err
		}
		r.obs.done(o)
	}
	return nil
}
