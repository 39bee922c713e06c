// Package experiment runs a task over a dataset, scores every item, stores the outcomes in
// a run file and records them in Langfuse.
//
//	result, err := experiment.Run(ctx, experiment.Config{
//		Header:   outcome.Header{Name: "baseline-v1"},
//		Dataset:  "extraction-eval", // in Langfuse, or a file of items
//		Task:     task,              // what is measured
//		Scorer:   scorer,            // how it is judged
//		Langfuse: lf,                // from Connect; nil keeps the run file only
//	})
//
// The package is not about extraction: input, output and expected output are JSON
// that only task and scorer understand.
//
// Run reserves the name, lists the items into the run file, and gives each to a worker,
// which calls the task and the scorer and commits the outcome. A publisher follows the file
// and carries it into Langfuse; workers never wait for it. When everything is sent, the run
// is summed up from its file alone. A run that was stopped or killed continues with
// Config.Resume: items with an outcome are not run again, and what Langfuse has is not sent
// again.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Folder is where runs are kept, below the current folder.
const Folder = ".experiment"

// Config says what to run. Header.Name, a dataset, a task and a scorer are required.
type Config struct {
	// Header describes the run: its Name, and what else is recorded about it. Run fills in
	// the format, the random id, the time, the project and the dataset. If the Header of a
	// resumed run has the Fingerprint of the dataset, the run must have these items.
	Header outcome.Header
	// Dataset is the name of a dataset in Langfuse, or a file of items.
	Dataset string
	// Source provides the items in place of Dataset; see Source. A *tracking.Dataset is one
	// that was pinned before.
	Source Source
	// Filter narrows the dataset.
	Filter dataset.Filter

	// Task is measured by Scorer. If the task must be opened first, Open returns both, once
	// the name is known to be free.
	Task   Task
	Scorer Scorer
	Open   func(ctx context.Context, resumed bool) (System, error)
	// OpenEarly says that Open has no side effects, so that it may be called while the name
	// is being reserved.
	OpenEarly bool

	// Langfuse is where the run is published; nil is nowhere.
	Langfuse *Langfuse
	// Path is the run file; empty is one below Folder, named after project,
	// dataset and run.
	Path string
	// Resume continues the run of that name, or begins it if it never began. Retry also
	// gives a new attempt to every item whose newest one failed, with one of RetryClasses
	// (none: with any class).
	Resume, Retry bool
	RetryClasses  []outcome.Class
	// Keep says which settings were not given: a resumed run keeps its own.
	Keep Keep
	// Overwrite replaces the run of that name, unless it is published.
	Overwrite bool
	// Verify reads the run back from Langfuse at the end.
	Verify bool

	// Concurrency is the number of items worked on at once; 0 means 4.
	Concurrency int
	// Timeout bounds the task of one item; 0 means 5 minutes.
	Timeout time.Duration
	// Stop, when closed, ends the run gracefully: nothing more is handed out, and what is
	// in flight is finished and committed. Cancelling the context of Run stops at once
	// instead. Nil never stops.
	Stop <-chan struct{}
	// Observer is told of progress.
	Observer Observer
	// Order is that of the scores in the summary; see outcome.SummaryConfig.
	Order []string
	// Log gets what a person need not see; nil discards it.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	siblings []string // the run files of its sweep, whose cost is of the same budget
}

// Keep says which settings a person did not give when resuming a run.
type Keep struct{ Description, Metadata, Environment bool }

// System is what is measured.
type System struct {
	Task   Task
	Scorer Scorer
	Header outcome.System // describes it
	Notes  []string       // what a person should know before it begins
	// Workers, if set, creates the workers that carry out the task in place of a Pool of
	// this process, once the run exists. They observe Config.Timeout, but not Concurrency.
	Workers func(ctx context.Context, h outcome.Header) (Workers, error)
	// Spent is called with every outcome that the run, and its siblings in a sweep, already
	// have, since these count in its budget. Nil ignores them.
	Spent func(outcome.Outcome)
	// Reached reports whether the model or service ever answered in any way; nil if that is
	// not known.
	Reached func() bool
	// Close releases its resources; it may be nil.
	Close func() error
}

func (s System) close() error {
	if s.Close == nil {
		return nil
	}
	return s.Close()
}

// Observer is told what happens in a run, one call at a time. Nil functions are not called.
// The functions must not block for long, since workers wait for them.
type Observer struct {
	// Opened is called when the run file exists; notes are for a person.
	Opened func(path string, begun bool, notes []string)
	// Listed is called while the items are listed, with how many there are.
	Listed func(items int)
	// Planned is called once, when the items are known, with how many outcomes the run will
	// have, and how many a resumed run already has.
	Planned func(total, done int)
	// Working is called when the first item is about to be handed out, and when
	// nothing is in flight any more.
	Working func(bool)
	// Started is called when an item is handed to a worker.
	Started func(item string)
	// Done is called when the item's outcome is committed.
	Done func(outcome.Outcome)
	// Published is told how many outcomes are in Langfuse; Withdrawing, of how many
	// replaced attempts the scores still have to be deleted there.
	Published, Withdrawing func(int)
	// Sending is called when only publishing is left, Ended when publishing has ended.
	Sending, Ended func()
	// Missing is told what a verification has not found yet.
	Missing func(tracking.Verdict)
}

// Result is the result of a run.
type Result struct {
	Header  outcome.Header
	Path    string // of the run file
	Begun   bool   // by this call
	Removed bool   // nothing came of it, for a reason that will stay: its file is gone
	Summary outcome.Summary
	// Reached is false if every connection to the system failed.
	Reached bool
	// Note is what a person should know about the items; "" is nothing.
	Note string
	// Stopped says why some items have no outcome; nil if all have one.
	Stopped error
	// Unpublished says why not everything is in Langfuse.
	Unpublished error
	// Verdict is what Config.Verify found; nil if nothing was verified.
	Verdict *tracking.Verdict
	// Unverified says why the verification failed.
	Unverified error
	// Fault says what else went wrong at the end: summing up, closing.
	Fault error
}

// Err joins what went wrong. Failed items are outcomes, not errors.
func (r Result) Err() error {
	found := []error{r.Stopped, r.Unpublished, r.Unverified, r.Fault}
	if r.Verdict != nil {
		found = append(found, r.Verdict.Err())
	}
	return errors.Join(found...)
}

// Run carries out one run, from its beginning to its summary.
//
// An error before the run file exists leaves nothing behind, and Result.Path is empty. From
// then on everything committed stays, whatever happens, and the error is Result.Err. Errors
// with an ExitCode method say what a command should exit with: 5 is ErrInterrupted, 64 a
// wrong Config, 69 a server that cannot be reached, 74 a file that cannot be written. Run
// may be called for several runs at once, and again for the same run with Resume.
func Run(ctx context.Context, cfg Config) (Result, error) {
	e, err := begin(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	e.carryOut(ctx)
	e.verify(ctx)
	e.finish()
	return e.result, e.result.Err()
}

// execution is a run that is carried out.
type execution struct {
	cfg    Config
	run    *runstore.Run
	source Source
	system System
	added  *outcome.Summariser             // see execution.plan; nil where outcomes are read
	sum    func() (outcome.Summary, error) // what the run came to, once
	result Result

	workers  Workers
	mentions bool // traces show all of an output
	// awaitPublisher says that the workers wait where publishing lags behind: it is done by the
	// processors of this machine, too.
	awaitPublisher bool
	told           sync.Mutex // while an Observer is told something by workers
}

// carryOut runs the items and publishes them at the same time. Publishing ends
// when the run has ended and everything is sent, or cannot be.
func (e *execution) carryOut(ctx context.Context) {
	e.sum = sync.OnceValues(e.summarise)
	obs := e.cfg.Observer
	call(obs.Opened != nil, func() { obs.Opened(e.result.Path, e.result.Begun, e.system.Notes) })
	stopping := limit.WithStop(ctx, e.cfg.Stop)
	checking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	changed := make(chan string, 1)
	go func() { changed <- e.changedSource(checking) }() // a large file takes longer to read than a run to go on
	defer func() {
		if e.result.Stopped != nil { // who resumes it again is told
			giveUp()
		}
		e.result.Note = <-changed
	}()
	if err := e.staff(stopping); err != nil {
		e.result.Stopped = stopped(ctx, err)
		return
	}
	publishing := e.publish(ctx)
	call(obs.Working != nil, func() { obs.Working(true) })
	e.result.Stopped = e.work(stopping)
	call(obs.Working != nil, func() { obs.Working(false) })
	if e.result.Stopped == nil || errors.Is(e.result.Stopped, ErrInterrupted) {
		go e.sum() // while Langfuse takes the rest; finish waits for it
		call(obs.Sending != nil, obs.Sending)
	}
	e.result.Unpublished = publishing()
	call(obs.Ended != nil, obs.Ended)
}

func call(wanted bool, f func()) {
	if wanted {
		f()
	}
}

// publish begins to publish; what it returns waits for the end.
func (e *execution) publish(ctx context.Context) (wait func() error) {
	if e.cfg.Langfuse == nil {
		return func() error { return nil }
	}
	cfg := e.cfg.Langfuse.publishing(e.run, e.cfg.Log, e.cfg.Observer)
	cfg.Summary = e.sum
	finished, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- tracking.Publish(ctx, cfg, finished) }()
	return func() error {
		close(finished)
		return <-sent
	}
}

// verify reads the run back, if that was asked for and everything is in Langfuse.
func (e *execution) verify(ctx context.Context) {
	lf := e.cfg.Langfuse
	if !e.cfg.Verify || lf == nil || e.result.Stopped != nil || e.result.Unpublished != nil {
		return
	}
	verdict, err := lf.verify(ctx, e.run.Reader, VerifyConfig{Looked: e.cfg.Observer.Missing})
	if err != nil {
		e.result.Unverified = fmt.Errorf("verifying the run: %w", err)
		return
	}
	e.result.Verdict = &verdict
}

// finish sums the run up and closes it. A run of which
// nothing came, for a reason that will stay, is removed, so that its name stays free.
func (e *execution) finish() {
	r := &e.result
	r.Reached = e.system.Reached == nil || e.system.Reached()
	if r.Stopped != nil && e.unbegun() {
		r.Removed = true
		r.Fault = errors.Join(e.run.Close(), os.Remove(r.Path), e.system.close())
		return
	}
	summary, err := e.sum()
	if err == nil {
		err = publicationState(context.Background(), e.run.Reader, &summary)
	}
	r.Summary = summary
	r.Fault = errors.Join(err, e.run.Close(), e.system.close())
}

// unbegun reports whether this process made the run and nothing came of it for
// a reason that will stay. After an interruption, or when the disk is full, the
// run is kept to be resumed.
func (e *execution) unbegun() bool {
	if code := cli.ExitCode(e.result.Stopped); !e.result.Begun || code == cli.ExitInterrupted || code == cli.ExitIO {
		return false
	}
	counts, err := e.run.Counts(context.Background())
	return err == nil && counts.Done == 0
}

// staff finds who carries out the task, and what the run file keeps for the publisher.
func (e *execution) staff(ctx context.Context) (err error) {
	e.mentions = e.result.Header.Publication.ShowsAll()
	e.awaitPublisher = e.cfg.Langfuse != nil && e.cfg.Langfuse.Embedded
	e.workers = Pool{Task: e.system.Task, Concurrency: e.cfg.Concurrency, Timeout: e.cfg.Timeout, Now: e.cfg.Now}
	if e.system.Workers != nil {
		e.workers, err = e.system.Workers(ctx, e.result.Header)
	}
	return err
}

// tell is call of one function at a time.
func (e *execution) tell(wanted bool, f func()) {
	if wanted {
		e.told.Lock()
		defer e.told.Unlock()
		f()
	}
}
