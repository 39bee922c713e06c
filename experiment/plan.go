package experiment

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/dataset"
	"extraction-experiment/runstore"
)

// ErrNoItems is returned when there is nothing to run; its exit code is 64.
var ErrNoItems error = noItems{}

type noItems struct{}

func (noItems) Error() string {
	return "no items to run: the dataset is empty, or the filters leave nothing of it"
}

// ExitCode returns 64.
func (noItems) ExitCode() int { return 64 }

// plan lists the items into the run file, unless an earlier process finished
// doing so, and returns how many outcomes the run will have.
func (r *Runner) plan(ctx context.Context) (int, error) {
	listed, err := r.cfg.Run.Listed(ctx)
	if err == nil && !listed {
		err = r.list(ctx)
	}
	if err != nil {
		return 0, r.stopped(ctx, err)
	}
	counts, err := r.cfg.Run.Counts(ctx)
	if err != nil {
		return 0, r.stopped(ctx, err)
	}
	if counts.Items == 0 {
		return 0, ErrNoItems
	}
	again := int64(0)
	if r.cfg.Retry {
		if again, err = r.cfg.Run.CountFailed(ctx, r.cfg.RetryClasses); err != nil {
			return 0, r.stopped(ctx, err)
		}
	}
	r.obs.planned(int(counts.Planned), int(counts.Done-again))
	return int(counts.Planned), nil
}

// list reads the source and writes what is new of it.
func (r *Runner) list(ctx context.Context) error {
	earlier, err := r.cfg.Run.CountItems(ctx)
	if err != nil {
		return err
	}
	listed := int(earlier)
	for page, err := range r.cfg.Source.Pages(ctx) {
		if err != nil {
			return fmt.Errorf("listing the items: %w", err)
		}
		if earlier > 0 {
			if page, err = r.unlisted(ctx, page); err != nil {
				return err
			}
		}
		if err := r.cfg.Run.AddItems(ctx, page, dataset.Hash); err != nil {
			return fmt.Errorf("listing the items: %w", err)
		}
		listed += len(page)
		r.obs.listed(listed)
		if r.stopping() {
			return ErrInterrupted
		}
	}
	return r.fingerprint(ctx)
}

// unlisted returns the items of a page that an interrupted listing did not
// write yet.
func (r *Runner) unlisted(ctx context.Context, page []dataset.Item) ([]dataset.Item, error) {
	var fresh []dataset.Item
	for _, item := range page {
		_, err := r.cfg.Run.Item(ctx, item.ID)
		switch {
		case errors.Is(err, runstore.ErrUnknown):
			fresh = append(fresh, item)
		case err != nil:
			return nil, err
		}
	}
	return fresh, nil
}

// fingerprint marks the listing as complete.
func (r *Runner) fingerprint(ctx context.Context) error {
	var print dataset.Fingerprint
	for item, err := range r.cfg.Run.Hashes(ctx) {
		if err != nil {
			return err
		}
		if err := print.Add(item.ID, item.Hash); err != nil {
			return err
		}
	}
	if print.Items() == 0 {
		return ErrNoItems
	}
	return r.cfg.Run.CompleteListing(ctx, print.Sum())
}

// stopped turns an error that only says that the context ended into
// ErrInterrupted.
func (r *Runner) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ErrInterrupted
	}
	return err
}

// stopping reports whether a soft stop was asked for.
func (r *Runner) stopping() bool {
	select {
	case <-r.cfg.Stop:
		return true
	default:
		return false
	}
}
