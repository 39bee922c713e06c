package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Unit is one attempt of an item.
type Unit struct {
	Item                 // what the task gets
	stored runstore.Item // with the expected output; stays in the process of the run file, as scorer
	scorer itemScorer
}

func newUnit(item runstore.Item, trial int) *Unit {
	return &Unit{stored: item, Item: Item{
		ID: item.ID, Input: item.Input, Metadata: item.Metadata, Trial: trial, Attempt: item.Tried + 1,
	}}
}

// Done is the result of the task for a Unit. Workers on other machines send it as JSON.
type Done struct {
	TaskResult
	// Err is the reason why there is no output. It fails the item, see Task.
	Err error `json:"-"`
	// Started is when the task began; Took is its duration, including all waiting.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took_ns"`
	// Worker is the name of the worker on another machine; empty in this process.
	Worker string `json:"worker"`
}

// Queue hands out units to workers and takes their results: from the run file in this process,
// or from the stream of a run on another machine. It is safe for concurrent use.
//
// Every unit that Take returns must be finished with one Deliver or GiveBack. After an error of
// any method, workers must stop.
type Queue interface {
	// Take waits for a unit. The error is io.EOF if there are no more.
	Take(ctx context.Context) (*Unit, error)
	// Deliver hands in the result of a unit.
	Deliver(ctx context.Context, u *Unit, done Done) error
	// GiveBack returns a unit that was not tried. The cause is why no other unit can be tried
	// either, see limit.StopsRun, or ErrInterrupted (or nil) if the run was stopped.
	GiveBack(ctx context.Context, u *Unit, cause error) error
}

// Workers work on a queue until it is empty or ctx is done. If ctx is done, they return its
// error, and give up the units in flight. If they return nil before the queue is empty, or finish
// fewer units than they took, the run ends with ErrInterrupted.
type Workers interface {
	Work(ctx context.Context, q Queue) error
}

// Pool is the Workers of this process. It calls Task from up to Concurrency goroutines at once.
// The context of a call ends after Timeout, not counting time spent waiting for a model's
// limits; an item whose task then returns an error fails with class timeout.
type Pool struct {
	Task        Task
	Concurrency int              // 0 means 4
	Timeout     time.Duration    // 0 means 5 minutes
	Now         func() time.Time // nil means time.Now
}

// The defaults of a Pool, and so of a Config.
const (
	defaultConcurrency = 4
	defaultTimeout     = 5 * time.Minute
)

// maxDelivering is the number of units at most that are delivered while the task works on
// others. It is large enough to share commits, and bounded since each has a goroutine whose
// stack scoring made large.
const maxDelivering = 32

// errGoexit ends a run whose task or scorer ended the goroutine of a worker.
var errGoexit = errors.New("the task or scorer called runtime.Goexit, as testing.T.FailNow does: return an error instead")

// Work takes units from the queue until there are none; see Workers.
func (p Pool) Work(ctx context.Context, q Queue) error {
	p.Concurrency, p.Timeout = cmp.Or(p.Concurrency, defaultConcurrency), cmp.Or(p.Timeout, defaultTimeout)
	if p.Now == nil {
		p.Now = time.Now
	}
	group, workCtx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, p.Concurrency)
	for range p.Concurrency + min(p.Concurrency-1, maxDelivering) {
		group.Go(func() error {
			err := errGoexit // stays if the goroutine ends without a return, of which the group would not know
			defer func() {
				if errors.Is(err, errGoexit) {
					group.Go(func() error { return err })
				}
			}()
			err = p.runWorker(workCtx, q, slots)
			return err
		})
	}
	return group.Wait()
}

// runWorker holds a slot while the task works on its unit, but not while it delivers the
// result.
func (p Pool) runWorker(ctx context.Context, q Queue, slots chan struct{}) error {
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		u, err := q.Take(ctx)
		if err != nil {
			<-slots
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		done := p.runTask(ctx, u)
		stopsRun := ctx.Err() == nil && limit.StopsRun(done.Err)
		if stopsRun { // before another worker takes the slot
			err = q.GiveBack(ctx, u, done.Err)
		}
		<-slots
		runtime.Gosched() // lets workers with a new slot begin their requests first
		if err = cmp.Or(ctx.Err(), err); err == nil && !stopsRun {
			err = q.Deliver(ctx, u, done)
		}
		if err != nil { // if ctx ended, the unit is run again when the run is resumed
			return err
		}
	}
}

// runTask calls the task with the time limit of an item.
func (p Pool) runTask(ctx context.Context, u *Unit) Done {
	taskCtx, cancel := limit.WithTimeout(ctx, p.Timeout)
	defer cancel()
	started := p.Now()
	result, err := recoverPanic(func() (TaskResult, error) { // a panic after the time limit is one still
		result, err := p.Task.Do(taskCtx, u.Item)
		if err != nil && errors.Is(taskCtx.Err(), context.DeadlineExceeded) && ctx.Err() == nil && !limit.StopsRun(err) {
			message := fmt.Sprintf("no result within %s (--timeout)", p.Timeout)
			if program, ok := errors.AsType[*proc.Error](err); ok {
				message += ": " + program.Error()
			}
			err = &outcome.Failure{Class: outcome.Timeout, Message: message}
		}
		return result, err
	})
	return Done{TaskResult: result, Err: err, Started: started, Took: p.Now().Sub(started)}
}

// fileQueue is the queue of one trial of a run in its run file. It judges and commits the
// results that workers deliver.
type fileQueue struct {
	*execution
	units <-chan *Unit
	halt  context.CancelCauseFunc
}

// Take returns the next unit whose expected output can be read. Other units fail, and their
// outcomes are committed at once.
func (q *fileQueue) Take(ctx context.Context) (*Unit, error) {
	for {
		var u *Unit
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case u = <-q.units:
		}
		if u == nil { // the channel is closed
			return nil, io.EOF
		}
		o := u.newOutcome(q.cfg.Now())
		scorer, err := itemScorerOf(q.system.Scorer, u.stored.Item)
		if err == nil {
			u.scorer, u.Decoded = scorer, scorer.decoded
			q.notify(q.cfg.Observer.Started != nil, func() { q.cfg.Observer.Started(u.ID) })
			q.run.Expect(1)
			return u, nil
		}
		o.Ended = q.cfg.Now().UTC()
		if err := q.commit(ctx, u, withFailure(o, nil, outcome.FailureOf(err, outcome.Item)), nil); err != nil {
			return nil, err
		}
	}
}

// Deliver judges the result of a unit and commits the outcome.
func (q *fileQueue) Deliver(ctx context.Context, u *Unit, done Done) error {
	q.notify(q.cfg.Observer.Answered != nil, func() { q.cfg.Observer.Answered(u.ID) })
	o, stopErr := outcomeOf(ctx, u, done)
	if stopErr != nil && ctx.Err() == nil {
		return q.GiveBack(ctx, u, stopErr)
	}
	defer q.run.Expect(-1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return q.commit(ctx, u, o, done.Brief)
}

// GiveBack leaves the unit to the next session of the run, and stops this session gracefully.
func (q *fileQueue) GiveBack(_ context.Context, _ *Unit, cause error) error {
	q.run.Expect(-1)
	q.halt(cmp.Or(cause, ErrInterrupted))
	return nil
}

// commit writes an outcome, even if ctx is done: the outcome is paid for.
func (q *fileQueue) commit(ctx context.Context, u *Unit, o outcome.Outcome, brief json.RawMessage) error {
	if q.result.Header.Publication.ShowsAll() || o.Failed() { // traces show the whole output
		brief = nil
	}
	ctx = context.WithoutCancel(ctx)
	err := q.run.CommitItem(ctx, u.stored.Item, o, brief)
	if invalid, ok := errors.AsType[*runstore.InvalidOutcomeError](err); ok {
		o = replaceInvalid(o, u.scorer.ItemScorer, invalid)
		err = q.run.CommitItem(ctx, u.stored.Item, o, nil)
	}
	if err != nil {
		return err
	}
	q.notify(true, func() {
		if q.summariser != nil {
			q.summariser.Add(o)
		}
		callIf(q.cfg.Observer.Done != nil, func() { q.cfg.Observer.Done(o) })
	})
	return nil
}
