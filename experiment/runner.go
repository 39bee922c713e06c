package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// ErrInterrupted is returned by Run if it was stopped before every item had an outcome. Its
// exit code is 5; the run can be resumed. If the context ended, the error wraps its error too.
var ErrInterrupted = cli.Errorf(cli.ExitInterrupted, "the run was stopped before every item was done")

// StoppedError is an ErrInterrupted with a reason that lies in the task: its budget is used up,
// or the provider accepts nothing.
type StoppedError struct{ Cause error }

// Error returns the reason.
func (e *StoppedError) Error() string { return e.Cause.Error() }

// Unwrap returns ErrInterrupted and the reason.
func (e *StoppedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }

// ExitCode returns the exit code of the reason, or 5 if it has none.
func (e *StoppedError) ExitCode() int {
	return cli.ExitCode(cli.WithCode(cli.ExitInterrupted, e.Cause))
}

// runItems takes the items of the run through the workers, until every item has an outcome in
// every trial, and with Config.Retry every failed one another attempt:
//
//  1. plan: list the items into the run file and fix the fingerprint;
//  2. hand out: give the items without an outcome to the workers, in order;
//  3. work: call the task and the scorer; a failing item does not stop the others;
//  4. commit every outcome, then call the observer;
//  5. end: write the footer.
//
// The footer is also written after ErrInterrupted, which may be a *StoppedError. Failed items
// are outcomes, not errors; an error other than ErrInterrupted means that items could not be
// listed or outcomes not be written. Everything committed before the error stays; calling
// runItems again for the same file continues there.
func (e *execution) runItems(ctx context.Context) error {
	failed := func(ctx context.Context, trial int, after int64, limit int) ([]runstore.Item, error) {
		return e.run.Failed(ctx, trial, e.cfg.RetryClasses, after, limit)
	}
	err := e.plan(ctx)
	for trial := 1; err == nil && trial <= max(1, e.result.Header.Trials); trial++ {
		if e.cfg.Retry { // before items without an outcome, whose failures would be retried at once
			err = e.runPass(ctx, trial, failed)
		}
		if err == nil {
			err = e.runPass(ctx, trial, e.run.WithoutOutcome)
		}
	}
	return e.writeFooter(err)
}

// writeFooter writes the footer, which says whether the run is complete, and returns cause, joined
// with an error of writing. Without a cause, it is ErrInterrupted if outcomes are missing, whatever the
// workers said. A footer of a complete run to which nothing was added stays: nothing was left to do, or
// the run was stopped before an item was tried again.
func (e *execution) writeFooter(cause error) error {
	ctx := context.Background()
	if footer, ok, err := e.run.Footer(ctx); err == nil && ok && footer.Status == outcome.Complete {
		return cause
	}
	counts, err := e.run.Counts(ctx)
	if cause == nil && err == nil && counts.Done < counts.Planned {
		cause = ErrInterrupted
	}
	footer := outcome.Footer{Status: outcome.Complete, Planned: int(counts.Planned), Ended: e.cfg.Now().UTC()}
	if cause = cmp.Or(cause, err); cause != nil {
		footer.Status = outcome.Interrupted
	}
	return cli.JoinDistinct(cause, e.run.Finish(ctx, footer))
}

// ErrNoItems is returned if there are no items to run. Its exit code is 64.
var ErrNoItems = cli.Usage("no items to run: the dataset is empty, or the filters leave nothing of it")

// plan lists the items into the run file, unless an earlier process finished that. If the run has
// no outcomes, the summary is added up while outcomes are committed, which saves reading them at the
// end.
func (e *execution) plan(ctx context.Context) error {
	var header outcome.Header
	var counts runstore.Counts
	var retries int64
	var err error
	if e.result.Header.Dataset.Fingerprint == "" {
		err = e.listItems(ctx)
	}
	if err == nil && e.cfg.Accepts != nil {
		err = e.cfg.Accepts(ctx, e.result.Path)
	}
	if err == nil {
		header, err = e.run.Header(ctx)
	}
	if err == nil {
		counts, err = e.run.Counts(ctx)
	}
	if err == nil && e.cfg.Retry {
		retries, err = e.run.CountFailed(ctx, e.cfg.RetryClasses)
	}
	if err != nil {
		return asInterrupted(ctx, err)
	}
	if counts.Done == 0 {
		e.summariser = outcome.NewSummariser(header, outcome.SummaryConfig{Order: e.cfg.Order})
	}
	if planned := e.cfg.Observer.Planned; planned != nil {
		planned(int(counts.Planned), int(counts.Done-retries))
	}
	return nil
}

// listItems writes the items of the source into the run file, and then their fingerprint, which
// marks the listing as complete.
func (e *execution) listItems(ctx context.Context) error {
	listed := 0
	for page, err := range prefetch(e.source.Pages(ctx)) {
		if err == nil && listed == 0 {
			err = checkAccepts(e.system.Task, page)
		}
		if err == nil {
			err = e.run.AddItems(ctx, page)
		}
		if err != nil {
			return fmt.Errorf("listing the items: %w", err)
		}
		listed += len(page)
		callIf(e.cfg.Observer.Listed != nil, func() { e.cfg.Observer.Listed(listed) })
		if limit.Closed(e.cfg.Stop) {
			return ErrInterrupted
		}
	}
	fingerprint, err := fingerprintOf(e.run.Hashes(ctx))
	if err != nil {
		return err
	}
	return e.run.CompleteListing(ctx, fingerprint)
}

// asInterrupted turns an error that only says that ctx ended into an ErrInterrupted.
func asInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &textutil.Reworded{Text: ErrInterrupted.Error(), Err: errors.Join(ErrInterrupted, ctx.Err())}
	}
	return err
}

// pageUnits is the number of items that are read at once; fewer if they are large, see
// Reader.WithoutOutcome. At most two pages wait in memory for a worker.
const pageUnits = 64

// nextItems returns the next items of a trial, in order of arrival, beginning after the item
// with that seq. An empty result means that there are no more.
type nextItems func(ctx context.Context, trial int, after int64, limit int) ([]runstore.Item, error)

// runPass takes the items of a trial that next returns through the workers. A graceful stop is
// not an error of the group, which would cancel the items in flight.
func (e *execution) runPass(ctx context.Context, trial int, next nextItems) error {
	group, workCtx := errgroup.WithContext(ctx)
	units := make(chan *Unit)
	haltCtx, halt := context.WithCancelCause(context.Background()) // graceful stop: nothing more can be tried
	defer halt(nil)
	unfinished := e.run.Expect(0)                                 // what an earlier session over this Run has lost
	worked := fmt.Errorf("the workers ended: %w", ErrInterrupted) // as they do at the end of the queue
	var complete bool
	group.Go(func() (err error) {
		defer close(units)
		complete, err = e.handOut(workCtx, trial, next, units, haltCtx.Done())
		return err
	})
	group.Go(func() error {
		defer halt(worked) // nobody takes a unit any more
		return e.workers.Work(workCtx, &fileQueue{e, units, halt})
	})
	if err := group.Wait(); err != nil {
		return asInterrupted(ctx, err)
	}
	cause := context.Cause(haltCtx)
	switch {
	case cause == worked && complete && e.run.Expect(0) == unfinished: // the workers lost no unit
		return nil
	case errors.Is(cause, ErrInterrupted): // a unit that was handed out may have been given back
		return ErrInterrupted
	}
	return &StoppedError{cause}
}

// handOut gives the items that next returns to the workers, and reports whether it gave out all
// of them, or was stopped gracefully.
func (e *execution) handOut(
	ctx context.Context, trial int, next nextItems, units chan<- *Unit, halted <-chan struct{},
) (complete bool, err error) {
	page := func(last runstore.Item) ([]runstore.Item, error) { return next(ctx, trial, last.Seq, pageUnits) }
	for item, err := range runstore.Paged(page) {
		if err != nil {
			return false, err
		}
		e.waitForPublisher(ctx, halted)
		if limit.Closed(halted) || limit.Closed(e.cfg.Stop) { // even if a worker is ready for a unit
			return false, nil
		}
		select {
		case units <- newUnit(item, trial):
		case <-e.cfg.Stop:
			return false, nil
		case <-halted:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// maxPublishWait is how long workers wait for the publisher once, before they stop waiting for
// the rest of the run.
const maxPublishWait = 5 * time.Second

// waitForPublisher waits until the publisher has caught up so far that all unpublished outcomes
// fit in memory: reading them back would cost more than the wait.
func (e *execution) waitForPublisher(ctx context.Context, halted <-chan struct{}) {
	room := e.run.Room()
	if room == nil || !e.awaitPublisher {
		return
	}
	timer := time.NewTimer(maxPublishWait)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
		e.awaitPublisher = false
	case <-e.cfg.Stop:
	case <-halted:
	case <-ctx.Done():
	}
}
