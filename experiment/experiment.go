// Package experiment runs a task over a dataset, scores every item, stores the outcomes in
// a run file and records them in Langfuse.
//
//	result, err := experiment.Run(ctx, experiment.Config{
//		Header: outcome.Header{Name: "baseline-v1",
//			Scorer: outcome.Scorer{Version: "1", Primary: "correct"}}, // for comparisons
//		Dataset:  "extraction-eval", // in Langfuse, or a file of items
//		Task:     task,              // is measured
//		Scorer:   scorer,            // judges the outputs
//		Langfuse: lf,                // from Connect; nil writes the run file only
//	})
//
// The package is not limited to extraction: input, output and expected output are JSON that
// only task and scorer interpret.
//
// Run reserves the name, lists the items into the run file, and gives each to a worker, which
// calls the task and the scorer and commits the outcome. A publisher follows the file and sends
// it to Langfuse. Workers do not wait for it, except briefly for the embedded server. The
// summary at the end equals what the run file alone comes to. A run that was stopped or killed
// continues with Config.Resume: items with an outcome are not run again, and what Langfuse has
// is not sent again.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Folder is the folder that holds the runs, relative to the current folder.
const Folder = ".experiment"

// Config is the configuration of a run. Header.Name, a dataset, a task and a scorer are
// required.
type Config struct {
	// Header describes the run: its Name and what else is recorded about it. Run fills in the
	// format, the random id, the time, the project, the dataset and what Filter selects. If the
	// Header of a resumed run has a Fingerprint of the dataset, it must equal that of the run.
	Header outcome.Header
	// Dataset is the name of a dataset in Langfuse, or the path of a file of items.
	Dataset string
	// Source, if set, provides the items instead of Dataset, which then only names them. It may be
	// a *tracking.Dataset, which is already pinned to a version.
	Source Source
	// Filter selects items of the dataset.
	Filter dataset.Filter
	// Accepts, if not nil, is called with the run file once the items are listed, before the first
	// is worked on, also of a resumed run. An error ends the run.
	Accepts func(ctx context.Context, path string) error

	// Task is measured with Scorer. If the task must be opened first, set Open instead, which
	// returns both. Run calls it after it has checked that the name is free.
	Task   Task
	Scorer Scorer
	Open   func(ctx context.Context, resumed bool) (System, error)
	// OpenEarly allows Run to call Open while it checks the name, since Open has no side
	// effects.
	OpenEarly bool

	// Langfuse is the server that the run is published to; nil publishes nothing.
	Langfuse *Langfuse
	// Path is the run file. If it is empty, the file is below Folder, named after project,
	// dataset and run.
	Path string
	// Resume continues the run of that name, or begins it if there is none, unless one of a similar
	// name exists, which is probably meant; see CheckResumable. The project must be the one that it
	// began with; without Langfuse, nothing is sent. Retry implies
	// Resume, requires that the run exists, and gives a new attempt to every item whose newest
	// attempt failed with one of RetryClasses (none means any class).
	Resume, Retry bool
	RetryClasses  []outcome.Class
	// Keep names settings that a resumed run keeps, since they were not given.
	Keep Keep
	// Overwrite replaces the run of that name, which is gone when the new one begins, whatever becomes
	// of it. It is an error if that run is published to a server other than the embedded one.
	Overwrite bool
	// Verify reads the run back from Langfuse after it is published.
	Verify bool

	// Concurrency is the number of items that the task works on at once; 0 means 4.
	Concurrency int
	// Timeout is the time limit of the task for one item, see Pool; 0 means 5 minutes.
	Timeout time.Duration
	// Stop, when closed, ends the run gracefully: no more items are handed out, and those in
	// flight are finished and committed. Cancelling the context of Run gives up the items in
	// flight. Nil never stops.
	Stop <-chan struct{}
	// Observer is called with the progress of the run.
	Observer Observer
	// Order is the order of the scores in the summary; see outcome.SummaryConfig.
	Order []string
	// Log receives messages that are not for the user; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	sweepPaths []string // the run files of the sweep, which share its budget
}

// Keep marks the settings that were not given when a run was resumed.
type Keep struct{ Description, Metadata, Environment bool }

// System is the system that a run measures, with its scorer.
type System struct {
	Task   Task
	Scorer Scorer
	Header outcome.System // describes the system
	Notes  []string       // for the user, before the run begins
	// Workers, if set, creates the workers that call the task, instead of a Pool in this
	// process. Run calls it once the run file exists. The workers apply Config.Timeout, but not
	// Concurrency.
	Workers func(ctx context.Context, h outcome.Header) (Workers, error)
	// Spent, if not nil, is called with the header and every outcome that the run and the other
	// runs of its sweep already have; these count in its budget, which Open makes anew each time, or
	// they would count twice. Calls are read with evaluators.
	Spent func(outcome.Header, outcome.Outcome)
	// Reached reports whether the model or service ever gave any response, errors included; nil
	// if that is unknown.
	Reached func() bool
	// Close releases the resources of the system; it may be nil.
	Close func() error
}

func (s System) close() error {
	if s.Close == nil {
		return nil
	}
	return s.Close()
}

// Observer is called with the events of a run. Functions may be nil. They must not block for
// long, since workers wait for them. They are called one at a time, except that Published may be
// called at the same time as others.
type Observer struct {
	// Opened is called when the run file exists; notes are for the user.
	Opened func(path string, begun bool, notes []string)
	// Listed is called while the items are listed, with their number so far.
	Listed func(items int)
	// Planned is called once, when the items are known, with the number of outcomes that the
	// run will have, and the number of those that a resumed run already has and does not retry.
	Planned func(total, done int)
	// Working is called with true before the first item is handed out, and with false after the
	// last one.
	Working func(bool)
	// Started is called when an item is handed to a worker, Answered when the worker has a result.
	Started, Answered func(item string)
	// Done is called when the item's outcome is committed.
	Done func(outcome.Outcome)
	// Published is called with the number of outcomes that this call of Run or Publish has sent,
	// without those that Langfuse had before.
	Published func(int)
	// Sending is called when only publishing is left, Ended when publishing has ended.
	Sending, Ended func()
	// Missing is called with what a verification has not found yet.
	Missing func(tracking.Verification)
}

// Result is the result of a run.
type Result struct {
	Header  outcome.Header
	Path    string // of the run file
	Begun   bool   // this call began the run
	Removed bool   // the run has no outcome, for a permanent reason: its file was removed
	Summary outcome.Summary
	// Reached is false if every connection to the system failed.
	Reached bool
	// Note is a message for the user about the items; it may be empty.
	Note string
	// Stopped is the reason why some items have no outcome; nil if all have one.
	Stopped error
	// Unpublished is the reason why outcomes are missing in Langfuse; nil if none are.
	Unpublished error
	// Verification is the result of Config.Verify; nil if the run was not verified.
	Verification *tracking.Verification
	// Unverified is the reason why the verification failed.
	Unverified error
	// Fault is any other error at the end: of the summary, or of closing files.
	Fault error
}

// Err joins the errors of the result, including differences that a verification found. Failed
// items are outcomes, not errors.
func (r Result) Err() error {
	problems := []error{r.Stopped, r.Unpublished, r.Unverified, r.Fault}
	if r.Verification != nil {
		problems = append(problems, r.Verification.Err())
	}
	return errors.Join(problems...)
}

// Run carries out one run, from reserving its name to its summary.
//
// An error before the run file exists leaves nothing behind, and Result.Path is empty. From
// then on, everything that was committed stays, whatever happens, and the error is Result.Err.
// Errors with an ExitCode method say what a command should exit with: 5 for ErrInterrupted, 64
// for a wrong Config, 69 for a server that cannot be reached, 74 for a file that cannot be
// written. Run may be called for several runs at once, and again for the same run with Resume.
func Run(ctx context.Context, cfg Config) (Result, error) {
	e, err := begin(ctx, cfg)
	if err != nil {
		return Result{}, asInterrupted(ctx, err)
	}
	e.carryOut(ctx)
	e.verify(ctx)
	e.finish()
	return e.result, e.result.Err()
}

// execution is the state of one call of Run.
type execution struct {
	cfg    Config
	run    *runstore.Run
	source Source
	system System
	// summariser adds up outcomes as they are committed, see plan; nil if the summary is read
	// from the file.
	summariser *outcome.Summariser
	summary    func() (outcome.Summary, error) // the summary at the end, computed once
	result     Result

	workers Workers
	// awaitPublisher makes workers wait if publishing lags behind, since the embedded server
	// shares the processors of this machine.
	awaitPublisher bool
	observerMu     sync.Mutex // held during calls of the Observer by workers
}

// carryOut runs the items and publishes them at the same time. Publishing ends when the run has
// ended and everything is sent, or cannot be sent.
func (e *execution) carryOut(ctx context.Context) {
	e.summary = sync.OnceValues(e.summarise)
	obs := e.cfg.Observer
	callIf(obs.Opened != nil, func() { obs.Opened(e.result.Path, e.result.Begun, e.system.Notes) })
	stopCtx := limit.WithStop(ctx, e.cfg.Stop)
	checkCtx, cancelCheck := context.WithCancel(ctx)
	defer cancelCheck()
	note := make(chan string, 1)
	// A large file takes longer to read than the rest of a resumed run.
	go func() { note <- e.sourceNote(checkCtx) }()
	defer func() {
		if e.result.Stopped != nil { // the next resume repeats the check
			cancelCheck()
		}
		e.result.Note = <-note
	}()
	if err := e.openWorkers(stopCtx); err != nil {
		e.result.Stopped = asInterrupted(ctx, err)
		return
	}
	waitPublished := e.publish(ctx)
	callIf(obs.Working != nil, func() { obs.Working(true) })
	e.result.Stopped = e.runItems(stopCtx)
	callIf(obs.Working != nil, func() { obs.Working(false) })
	if e.result.Stopped == nil || errors.Is(e.result.Stopped, ErrInterrupted) {
		go e.summary() // while the rest is sent; finish waits for the summary
	}
	callIf(obs.Sending != nil, obs.Sending)
	e.result.Unpublished = waitPublished()
	callIf(obs.Ended != nil, obs.Ended)
}

func callIf(condition bool, f func()) {
	if condition {
		f()
	}
}

// publish starts publishing. The function that it returns waits for the end.
func (e *execution) publish(ctx context.Context) (wait func() error) {
	if e.cfg.Langfuse == nil {
		return func() error { return nil }
	}
	cfg := e.cfg.Langfuse.publishConfig(e.run, e.cfg.Log, e.cfg.Observer)
	cfg.Summary = e.summary
	runEnded, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- tracking.Publish(ctx, cfg, runEnded) }()
	return func() error {
		close(runEnded)
		return <-result
	}
}

// verify reads the run back if Config.Verify is set and everything is in Langfuse.
func (e *execution) verify(ctx context.Context) {
	lf := e.cfg.Langfuse
	if !e.cfg.Verify || lf == nil || e.result.Stopped != nil || e.result.Unpublished != nil {
		return
	}
	verification, err := lf.verify(ctx, e.run.Reader, VerifyConfig{OnVerification: e.cfg.Observer.Missing})
	if err != nil {
		e.result.Unverified = fmt.Errorf("verifying the run: %w", err)
		return
	}
	e.result.Verification = &verification
}

// finish sums the run up and closes it. If removable allows it, the file is removed, so that
// the name of the run is free again.
func (e *execution) finish() {
	r := &e.result
	r.Reached = e.system.Reached == nil || e.system.Reached()
	if r.Stopped != nil && e.removable() {
		r.Removed = true
		_, _ = e.summary() // it may be reading the file
		r.Fault = errors.Join(e.run.Remove(), e.system.close())
		return
	}
	var err error
	if r.Summary, err = e.summary(); err == nil {
		err = fillPublication(context.Background(), e.run.Reader, &r.Summary)
	}
	r.Fault = errors.Join(err, e.run.Close(), e.system.close())
}

// removable reports whether this process created the run and it has no outcome, for a permanent
// reason. After an interruption, or if the disk is full, the run is kept, so that it can be
// resumed.
func (e *execution) removable() bool {
	if code := cli.ExitCode(e.result.Stopped); !e.result.Begun || code == cli.ExitInterrupted || code == cli.ExitIO {
		return false
	}
	counts, err := e.run.Counts(context.Background())
	return err == nil && counts.Done == 0
}

// openWorkers sets the workers, and whether they wait for the publisher.
func (e *execution) openWorkers(ctx context.Context) (err error) {
	e.awaitPublisher = e.cfg.Langfuse != nil && e.cfg.Langfuse.Embedded
	e.workers = Pool{Task: e.system.Task, Concurrency: e.cfg.Concurrency, Timeout: e.cfg.Timeout, Now: e.cfg.Now}
	if e.system.Workers != nil {
		e.workers, err = e.system.Workers(ctx, e.result.Header)
	}
	return err
}

// notify is callIf with a lock, for functions that several workers call.
func (e *execution) notify(condition bool, f func()) {
	if condition {
		e.observerMu.Lock()
		defer e.observerMu.Unlock()
		f()
	}
}
