package experiment

import (
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
	Item
	from  runstore.Item
	judge Judge // what is expected, which stays where the run file is
}

func newUnit(from runstore.Item, trial int) *Unit {
	return &Unit{from: from, Item: Item{
		ID: from.ID, Input: from.Input, Metadata: from.Metadata, Trial: trial, Attempt: from.Tried + 1,
	}}
}

// Done is the result of a Unit.
type Done struct {
	TaskResult
	// Err is why there is no output: it fails the item, see Task.
	Err error
	// Started is when the task began, and Took how long it took, including all waiting.
	Started time.Time
	Took    time.Duration
	// Worker is the name of the worker on another machine; empty in this process.
	Worker string
}

// Queue is where workers take units and deliver their results: the run file of a run in
// this process, or the stream of a run on another machine. It is used by many goroutines at
// once.
//
// Every unit that Take returns is finished by one Deliver or GiveBack. An error of any
// method ends the work.
type Queue interface {
	// Take waits for a unit; io.EOF means that there are no more.
	Take(ctx context.Context) (*Unit, error)
	// Deliver hands in the result of a unit.
	Deliver(ctx context.Context, u *Unit, done Done) error
	// GiveBack returns a unit that was not tried. A cause says that no other unit can be
	// tried either, see limit.StopsRun; nil says only that this worker ends.
	GiveBack(ctx context.Context, u *Unit, cause error) error
}

// Workers work on a queue until it is empty or ctx is done. In that case they return its
// error, and give up what is in flight.
type Workers interface {
	Work(ctx context.Context, q Queue) error
}

// Pool is the Workers of this process. Its task is called by as many goroutines as
// Concurrency says. An item that takes longer than Timeout fails; time spent waiting for a
// model's limits does not count.
type Pool struct {
	Task        Task
	Concurrency int
	Timeout     time.Duration
	Now         func() time.Time
}

// delivering is of how many units at most what came of them is delivered while the task is
// at others already: enough to share a commit, and each has a stack that scoring made large.
const delivering = 32

// Work takes units from the queue until there are none.
func (p Pool) Work(ctx context.Context, q Queue) error {
	group, inner := errgroup.WithContext(ctx)
	places := make(chan struct{}, p.Concurrency)
	for range p.Concurrency + min(p.Concurrency-1, delivering) {
		group.Go(func() error { return p.work(inner, q, places) })
	}
	return group.Wait()
}

// work holds a place while it has a unit that is not done.
func (p Pool) work(ctx context.Context, q Queue, places chan struct{}) error {
	for {
		places <- struct{}{}
		u, err := q.Take(ctx)
		if err != nil {
			<-places
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		done := p.do(ctx, u)
		stops := ctx.Err() == nil && limit.StopsRun(done.Err)
		if stops { // before another takes its place
			err = q.GiveBack(ctx, u, done.Err)
		}
		<-places
		runtime.Gosched() // what others have to send goes before
		switch {
		case ctx.Err() != nil: // its unit is run again
			return ctx.Err()
		case !stops:
			err = q.Deliver(ctx, u, done)
		}
		if err != nil {
			return err
		}
	}
}

// do calls the task within the time that an item has.
func (p Pool) do(ctx context.Context, u *Unit) Done {
	inner, cancel := limit.WithTimeout(ctx, p.Timeout)
	defer cancel()
	began := p.Now()
	result, err := guard(func() (TaskResult, error) { return p.Task.Do(inner, u.Item) })
	if err != nil && errors.Is(inner.Err(), context.DeadlineExceeded) && ctx.Err() == nil && !limit.StopsRun(err) {
		message := fmt.Sprintf("no result within %s (--timeout)", p.Timeout)
		if program, ok := errors.AsType[*proc.Error](err); ok {
			message += ": " + program.Error()
		}
		err = &outcome.Failure{Class: outcome.Timeout, Message: message}
	}
	return Done{TaskResult: result, Err: err, Started: began, Took: p.Now().Sub(began)}
}

// fileQueue is the queue of one trial of a run in its run file: what is handed out of
// it is judged and committed when it comes back.
type fileQueue struct {
	*execution
	units <-chan *Unit
	halt  context.CancelCauseFunc
}

// Take returns the next unit whose expected output can be read; of others the outcome
// is committed at once.
func (q *fileQueue) Take(ctx context.Context) (*Unit, error) {
	for {
		var u *Unit
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case next, open := <-q.units:
			if !open {
				return nil, io.EOF
			}
			u = next
		}
		q.tell(q.cfg.Observer.Started != nil, func() { q.cfg.Observer.Started(u.ID) })
		o := u.outcome(q.cfg.Now())
		judge, err := guard(func() (Judge, error) { return q.system.Scorer.Judge(u.from.Item) })
		if err == nil {
			u.judge, u.Decoded = judge, decoded(judge)
			q.run.Expect(1)
			return u, nil
		}
		o.Ended = q.cfg.Now().UTC()
		if err := q.commit(ctx, u, fail(o, nil, outcome.FailureOf(err, outcome.Item)), nil); err != nil {
			return nil, err
		}
	}
}

// Deliver judges what came of a unit and commits it.
func (q *fileQueue) Deliver(ctx context.Context, u *Unit, done Done) error {
	o, stop := outcomeOf(ctx, u, done)
	if stop != nil && ctx.Err() == nil {
		return q.GiveBack(ctx, u, stop)
	}
	defer q.run.Expect(-1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return q.commit(ctx, u, o, done.Brief)
}

// GiveBack leaves the unit to the next session of the run. A cause ends this one softly.
func (q *fileQueue) GiveBack(_ context.Context, _ *Unit, cause error) error {
	q.run.Expect(-1)
	if cause != nil {
		q.halt(cause)
	}
	return nil
}

// commit writes an outcome, also when the time to work is over: it is paid for.
func (q *fileQueue) commit(ctx context.Context, u *Unit, o outcome.Outcome, brief json.RawMessage) error {
	if q.mentions || o.Failed() {
		brief = nil
	}
	if err := q.run.CommitItem(context.WithoutCancel(ctx), u.from.Item, o, brief); err != nil {
		return err
	}
	q.tell(true, func() {
		if q.added != nil {
			q.added.Add(o)
		}
		call(q.cfg.Observer.Done != nil, func() { q.cfg.Observer.Done(o) })
	})
	return nil
}
