package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// runnerConfig is what the worker pool needs of a Config; the run is open.
type runnerConfig struct {
	Run          *runstore.Run
	Source       Source
	Task         Task
	Scorer       Scorer
	Workers      Workers // nil is a Pool of the task
	Concurrency  int
	Timeout      time.Duration
	Stop         <-chan struct{}
	Retry        bool
	RetryClasses []outcome.Class
	Observer     Observer
	Now          func() time.Time
	// Mentions says that traces show all of an output.
	Mentions bool
	// AwaitPublisher says that the workers wait where publishing lags behind: it is done by the
	// processors of this machine, too.
	AwaitPublisher bool
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

// runner takes the items of one run through the workers:
//
//  1. plan: list the items into the run file and fix the fingerprint;
//  2. hand out: give the items without an outcome to the workers, in order;
//  3. work: call the task and the scorer, never letting one item stop the rest;
//  4. commit every outcome, then tell the observer;
//  5. finish: write the footer.
//
// It is used once.
type runner struct {
	cfg runnerConfig
	obs *serialObserver
}

// newRunner fills in what may be left out.
func newRunner(cfg runnerConfig) *runner {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 4)
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Workers == nil {
		cfg.Workers = Pool{Task: cfg.Task, Concurrency: cfg.Concurrency, Timeout: cfg.Timeout, Now: cfg.Now}
	}
	return &runner{cfg: cfg, obs: &serialObserver{to: cfg.Observer}}
}

// Run works until every item of the run file has an outcome in every trial,
// and with Config.Retry every failed one another attempt.
//
// The footer is that of the run file, and valid whenever that could be written,
// also beside ErrInterrupted, which may be a *StoppedError. Failed items are
// outcomes, not errors; an error other than ErrInterrupted means that items could
// not be listed or outcomes not be written. Everything committed before the error
// stays; running again on the same file goes on from there.
func (r *runner) Run(ctx context.Context) (outcome.Footer, error) {
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
func (r *runner) finish(planned int, cause error) (outcome.Footer, error) {
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
func (r *runner) plan(ctx context.Context) (int, error) {
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
func (r *runner) list(ctx context.Context) error {
	earlier, err := r.cfg.Run.CountItems(ctx)
	if err != nil {
		return err
	}
	listed := int(earlier)
	for page, err := range ahead(r.cfg.Source.Pages(ctx)) {
		if err != nil {
			return fmt.Errorf("listing the items: %w", err)
		}
		if listed == 0 && len(page) > 0 {
			if err := accepts(r.cfg.Task, page); err != nil {
				return fmt.Errorf("listing the items: %w", err)
			}
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
func (r *runner) unlisted(ctx context.Context, page []dataset.Item) ([]dataset.Item, error) {
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
func (r *runner) fingerprint(ctx context.Context) error {
	print, err := fingerprintOf(ctx, r.cfg.Run.Reader)
	if err != nil {
		return err
	}
	return r.cfg.Run.CompleteListing(ctx, print)
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
func (r *runner) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ErrInterrupted
	}
	return err
}

// stopping reports whether a soft stop was asked for.
func (r *runner) stopping() bool {
	select {
	case <-r.cfg.Stop:
		return true
	default:
		return false
	}
}

// handOut is how many items are read at once: fewer where they are large, see
// Reader.Unrun. Two pages at most wait in memory for a worker.
const handOut = 64

// unit is an item to be worked on, for the attempt of that number.
type unit struct {
	runstore.Item
	attempt int
}

// upcoming returns the next units of a trial, in order of arrival, beginning
// after the item with that seq; none says that there are no more.
type upcoming func(ctx context.Context, trial int, after int64) ([]unit, error)

// unrun finds the items that have no outcome in the trial.
func (r *runner) unrun(ctx context.Context, trial int, after int64) ([]unit, error) {
	page, err := r.cfg.Run.Unrun(ctx, trial, after, handOut)
	units := make([]unit, len(page))
	for i, item := range page {
		units[i] = unit{item, 1}
	}
	return units, err
}

// failed finds the items that failed before and are to be tried again.
func (r *runner) failed(ctx context.Context, trial int, after int64) ([]unit, error) {
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
func (r *runner) pass(ctx context.Context, trial int, next upcoming) error {
	group, inner := errgroup.WithContext(ctx)
	jobs := make(chan unit)
	halt := &halt{signal: make(chan struct{})}
	var all bool
	group.Go(func() (err error) {
		defer close(jobs)
		all, err = r.handOut(inner, trial, next, jobs, halt)
		return err
	})
	group.Go(func() error { return r.cfg.Workers.Work(inner, &fileQueue{r, trial, jobs, halt}) })
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
func (r *runner) handOut(ctx context.Context, trial int, next upcoming, jobs chan<- unit, halt *halt) (all bool, err error) {
	for u, err := range runstore.Ahead(func(last unit) ([]unit, error) { return next(ctx, trial, last.Seq) }) {
		if err != nil {
			return false, err
		}
		r.letPublish(ctx, halt)
		select {
		case <-halt.signal: // also where somebody waits for a unit
			return false, nil
		default:
		}
		if r.stopping() {
			return false, nil
		}
		select {
		case jobs <- u:
		case <-r.cfg.Stop:
			return false, nil
		case <-halt.signal:
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
func (r *runner) letPublish(ctx context.Context, halt *halt) {
	room := r.cfg.Run.Room()
	if room == nil || !r.cfg.AwaitPublisher {
		return
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
		r.cfg.AwaitPublisher = false
	case <-r.cfg.Stop:
	case <-halt.signal:
	case <-ctx.Done():
	}
}
