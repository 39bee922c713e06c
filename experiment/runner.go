package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// ErrInterrupted is returned by Run when it was stopped before every item had
// an outcome. Its exit code is 5: the run can be resumed.
var ErrInterrupted = cli.Errorf(cli.ExitInterrupted, "the run was stopped before every item was done")

// StoppedError is an ErrInterrupted for a reason that lies in the task: its budget is used
// up, or the provider accepts nothing. Its exit code is that of the reason.
type StoppedError struct{ Cause error }

// Error returns the reason.
func (e *StoppedError) Error() string { return e.Cause.Error() }

// Unwrap returns ErrInterrupted and the reason.
func (e *StoppedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }

// ExitCode is that of the reason, or else 5.
func (e *StoppedError) ExitCode() int {
	return cli.ExitCode(cli.WithCode(cli.ExitInterrupted, e.Cause))
}

// work takes the items of the run through the workers, until every item has an outcome
// in every trial, and with Config.Retry every failed one another attempt:
//
//  1. plan: list the items into the run file and fix the fingerprint;
//  2. hand out: give the items without an outcome to the workers, in order;
//  3. work: call the task and the scorer, never letting one item stop the rest;
//  4. commit every outcome, then tell the observer;
//  5. end: write the footer.
//
// The footer is written also beside ErrInterrupted, which may be a *StoppedError. Failed items are
// outcomes, not errors; an error other than ErrInterrupted means that items could
// not be listed or outcomes not be written. Everything committed before the error
// stays; working again on the same file goes on from there.
func (e *execution) work(ctx context.Context) error {
	planned, err := e.plan(ctx)
	for trial := 1; err == nil && trial <= max(1, e.result.Header.Trials); trial++ {
		if e.cfg.Retry { // first, or what fails now would be tried again at once
			err = e.pass(ctx, trial, e.failed)
		}
		if err == nil {
			err = e.pass(ctx, trial, e.run.Unrun)
		}
	}
	return e.end(planned, err)
}

// end writes the footer, whatever happened, which says whether the run is
// complete. A complete run to which nothing was added stays as it is: nothing was
// left to do, or it was stopped before an item was tried again.
func (e *execution) end(planned int, cause error) error {
	ctx := context.Background()
	if kept, ok, err := e.run.Footer(ctx); err == nil && ok && kept.Status == outcome.Complete {
		return cause
	}
	if planned == 0 { // the plan was not finished: what an earlier process knew
		if counts, err := e.run.Counts(ctx); err == nil {
			planned = int(counts.Planned)
		}
	}
	footer := outcome.Footer{Status: outcome.Complete, Planned: planned, Ended: e.cfg.Now().UTC()}
	if cause != nil {
		footer.Status = outcome.Interrupted
	}
	return errors.Join(cause, e.run.Finish(ctx, footer))
}

// ErrNoItems is returned when there is nothing to run; its exit code is 64.
var ErrNoItems = cli.Usage("no items to run: the dataset is empty, or the filters leave nothing of it")

// plan lists the items into the run file, unless an earlier process finished
// doing so, and returns how many outcomes the run will have. Outcomes are added up as they
// are committed where there are none before and each is the only one of its item: what
// tally would read in the end is known then.
func (e *execution) plan(ctx context.Context) (int, error) {
	var header outcome.Header
	var counts runstore.Counts
	var again int64
	var err error
	if e.result.Header.Dataset.Fingerprint == "" { // not all items are listed
		err = e.list(ctx)
	}
	if err == nil {
		header, err = e.run.Header(ctx)
	}
	if err == nil {
		counts, err = e.run.Counts(ctx)
	}
	if err == nil && e.cfg.Retry {
		again, err = e.run.CountFailed(ctx, e.cfg.RetryClasses)
	}
	if err != nil {
		return 0, stopped(ctx, err)
	}
	if counts.Done == 0 {
		e.added = outcome.NewSummariser(header, outcome.SummaryConfig{Order: e.cfg.Order})
	}
	if planned := e.cfg.Observer.Planned; planned != nil {
		planned(int(counts.Planned), int(counts.Done-again))
	}
	return int(counts.Planned), nil
}

// list writes the items of the source into the run file, and then their fingerprint: the
// listing is complete.
func (e *execution) list(ctx context.Context) error {
	listed := 0
	for page, err := range ahead(e.source.Pages(ctx)) {
		if err == nil && listed == 0 {
			err = accepts(e.system.Task, page)
		}
		if err == nil {
			err = e.run.AddItems(ctx, page, dataset.Hash)
		}
		if err != nil {
			return fmt.Errorf("listing the items: %w", err)
		}
		listed += len(page)
		call(e.cfg.Observer.Listed != nil, func() { e.cfg.Observer.Listed(listed) })
		if limit.Closed(e.cfg.Stop) {
			return ErrInterrupted
		}
	}
	print, err := fingerprintOf(ctx, e.run.Reader)
	if err != nil {
		return err
	}
	return e.run.CompleteListing(ctx, print)
}

// fingerprintOf is that of the items that a run has listed; ErrNoItems without any.
func fingerprintOf(ctx context.Context, run *runstore.Reader) (string, error) {
	var print dataset.Fingerprint
	for item, err := range run.Hashes(ctx) {
		if err == nil {
			err = print.Add(item.ID, item.Hash)
		}
		if err != nil {
			return "", err
		}
	}
	if print == (dataset.Fingerprint{}) {
		return "", ErrNoItems
	}
	return print.Sum(), nil
}

// stopped turns an error that only says that the context ended into
// ErrInterrupted.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ErrInterrupted
	}
	return err
}

// handOut is how many items are read at once: fewer where they are large, see
// Reader.Unrun. Two pages at most wait in memory for a worker.
const handOut = 64

// upcoming returns the next items of a trial, in order of arrival, beginning
// after the one with that seq; none says that there are no more.
type upcoming func(ctx context.Context, trial int, after int64, limit int) ([]runstore.Item, error)

// failed are the items that failed before and are to be tried again.
func (e *execution) failed(ctx context.Context, trial int, after int64, limit int) ([]runstore.Item, error) {
	return e.run.Failed(ctx, trial, e.cfg.RetryClasses, after, limit)
}

// pass takes what is to come in this trial through the workers. A soft stop is
// no error to the group: it would cancel what is in flight.
func (e *execution) pass(ctx context.Context, trial int, next upcoming) error {
	group, inner := errgroup.WithContext(ctx)
	jobs := make(chan *Unit)
	halting, halt := context.WithCancelCause(context.Background()) // softly, because nothing more can be tried
	defer halt(nil)
	var all bool
	group.Go(func() (err error) {
		defer close(jobs)
		all, err = e.handOut(inner, trial, next, jobs, halting.Done())
		return err
	})
	group.Go(func() error { return e.workers.Work(inner, &fileQueue{e, jobs, halt}) })
	if err := group.Wait(); err != nil {
		return stopped(ctx, err)
	}
	if cause := context.Cause(halting); cause != nil {
		return &StoppedError{cause}
	}
	if !all {
		return ErrInterrupted
	}
	return nil
}

// handOut reads what is to come in order of arrival and gives it to the
// workers, and reports whether it gave out all of it or was stopped softly.
func (e *execution) handOut(ctx context.Context, trial int, next upcoming, jobs chan<- *Unit, halting <-chan struct{}) (all bool, err error) {
	page := func(last runstore.Item) ([]runstore.Item, error) { return next(ctx, trial, last.Seq, handOut) }
	for item, err := range runstore.Ahead(page) {
		if err != nil {
			return false, err
		}
		e.letPublish(ctx, halting)
		if limit.Closed(halting) || limit.Closed(e.cfg.Stop) { // also where somebody waits for a unit
			return false, nil
		}
		select {
		case jobs <- newUnit(item, trial):
		case <-e.cfg.Stop:
			return false, nil
		case <-halting:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// catchUp is how long publishing may take to catch up before nobody waits for it any more.
const catchUp = 5 * time.Second

// letPublish waits until what is published has caught up so far that all of it is in memory:
// to read it back would cost more than the wait.
func (e *execution) letPublish(ctx context.Context, halting <-chan struct{}) {
	room := e.run.Room()
	if room == nil || !e.awaitPublisher {
		return
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
		e.awaitPublisher = false
	case <-e.cfg.Stop:
	case <-halting:
	case <-ctx.Done():
	}
}
