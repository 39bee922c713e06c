package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// pendingUnit is a unit that was taken from the engine and not yet delivered.
type pendingUnit struct {
	*experiment.Unit
	sent       time.Time // when it was last published, or last confirmed to be on the server; zero: never
	publishing bool
	size       int
	handled    bool // its result has arrived
	unreadable int  // number of its results that could not be read
}

// Work publishes the units of the queue as fast as the workers can take them, and delivers their
// results. If limit.Stop of ctx is closed, or a worker reports that no unit can be tried, Work
// withdraws the units that no worker has begun and waits for the others. If another coordinator
// has taken over the run, Work returns an error.
func (o *Coordinator) Work(ctx context.Context, queue experiment.Queue) error {
	inner, done := context.WithCancel(ctx)
	defer done()
	o.update(func() {
		o.queue, o.stopWork, o.pending, o.pendingBytes, o.drained = queue, done, map[string]*pendingUnit{}, 0, false
	})
	group, inner := errgroup.WithContext(inner)
	for { // the server may be away for a while, which beat says
		units, results, err := o.serverState(inner)
		if err == nil {
			maps.Copy(units, results)
			o.onServer, o.earlyResults = units, results
			break
		}
		if sleep(inner, o.conn.cfg.beat); inner.Err() != nil || o.stopped(ctx) {
			o.interrupted = true
			return cmp.Or(ctx.Err(), serverAwayError("listing the units on the server", err))
		}
	}
	for _, f := range []func(context.Context) error{o.publishUnits, o.receiveResults, o.republishLost, o.finish} {
		group.Go(func() error {
			if err := f(inner); inner.Err() == nil { // otherwise the error only says that inner was cancelled
				return err
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	o.interrupted = o.interrupted || err != nil
	return err
}

// update calls f under the lock and wakes everyone in waitUntil.
func (o *Coordinator) update(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// waitUntil returns when holds reports true. It checks at each update and once a second.
func (o *Coordinator) waitUntil(ctx context.Context, holds func() bool) error {
	for {
		o.mu.Lock()
		ok, changed := holds(), o.changed
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(o.conn.cfg.beat):
		case <-o.takenOver:
			return cli.Errorf(cli.ExitInterrupted, "another process has taken the run over: this one had given no sign for %s", o.conn.cfg.lostAfter())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopped reports whether no more units are handed out.
func (o *Coordinator) stopped(ctx context.Context) bool {
	return limit.Closed(limit.Stop(ctx)) || limit.Closed(o.stopping)
}

// serverAwayError is the error of a stop that could not be completed because the server is away.
func serverAwayError(doing string, err error) error {
	return &experiment.StoppedError{Cause: fmt.Errorf("%s: %w", doing, err)}
}

// serverState lists the units and results on the server. It lists units first: a worker stores
// the result before it acknowledges the unit, so that a unit in neither list was lost, or its
// result was delivered meanwhile.
func (o *Coordinator) serverState(ctx context.Context) (units, results map[string]bool, err error) {
	if units, err = o.conn.storedKeys(ctx, unitStream, unitSubject+o.run.ID+".*"); err == nil {
		results, err = o.conn.storedKeys(ctx, resultStream, resultSubject+o.run.ID+".*")
	}
	return units, results, err
}

func keyOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// publishUnits publishes units, several at once, until the engine has no more.
func (o *Coordinator) publishUnits(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range publishers {
		group.Go(func() error { return o.publishLoop(ctx) })
	}
	err := group.Wait()
	o.update(func() { o.drained = true })
	return err
}

// publishLoop publishes units while the workers can take more.
func (o *Coordinator) publishLoop(ctx context.Context) error {
	for {
		err := o.waitUntil(ctx, func() bool {
			_, capacity, _, _ := o.activeWorkers()
			room := min(2*capacity+len(o.earlyResults), maxUnits) // room to reach the units whose results have arrived already
			return o.stopped(ctx) || len(o.pending) < room && o.pendingBytes < maxUnitBytes
		})
		if err != nil {
			return err
		}
		u, err := o.queue.Take(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		name, w := key(u.Trial, u.ID, u.Attempt), &pendingUnit{Unit: u, size: len(u.Input) + len(u.Metadata),
			publishing: true}
		if w.size > maxPayload*3/4 {
			failure := &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("its input and metadata have %d bytes: more than %d do not travel to workers", w.size, maxPayload*3/4)}
			if err := o.queue.Deliver(ctx, u, experiment.Done{Err: failure, Started: time.Now()}); err != nil {
				return err
			}
			continue
		}
		there := false
		o.update(func() {
			o.pending[name], o.pendingBytes, there = w, o.pendingBytes+w.size, o.onServer[name]
			if there { // its result will arrive, or republishLost will find that the server lost it
				w.publishing, w.sent = false, time.Now()
			}
		})
		if !there && !o.stopped(ctx) {
			o.publishUnit(ctx, name, w)
		}
	}
}

// publishUnit publishes a unit. If that fails, republishLost publishes it later.
func (o *Coordinator) publishUnit(ctx context.Context, name string, w *pendingUnit) {
	subject := unitSubject + o.run.ID + "." + name
	err := o.conn.publish(ctx, subject, w.Item)
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.publishing = false; err == nil || errors.Is(err, errExists) {
		w.sent = time.Now()
	}
}

// republishLost publishes units again that the server has lost.
func (o *Coordinator) republishLost(ctx context.Context) error {
	for tick := time.Tick(o.run.Lease / 4); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if o.stopped(ctx) || len(o.overdue()) == 0 {
			continue
		}
		units, results, err := o.serverState(ctx)
		if err != nil {
			continue
		}
		for name, w := range o.overdue() {
			if !units[name] && !results[name] {
				o.publishUnit(ctx, name, w)
			}
		}
	}
}

// overdue returns the units that were published at least a lease ago and have no result.
func (o *Coordinator) overdue() map[string]*pendingUnit {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[string]*pendingUnit{}
	for name, w := range o.pending {
		if !w.handled && !w.publishing && time.Since(w.sent) >= o.run.Lease {
			found[name] = w
		}
	}
	return found
}

// storedKeys returns the unit keys of the messages that a stream holds under a subject.
func (c *Conn) storedKeys(ctx context.Context, stream, subject string) (map[string]bool, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return nil, err
	}
	keys := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		keys[keyOf(subject)] = true
	}
	return keys, nil
}

// receiveResults handles results as they arrive.
func (o *Coordinator) receiveResults(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(receivers)
	for inner.Err() == nil {
		batch, err := o.results.Fetch(2*receivers, jetstream.FetchMaxWait(o.conn.cfg.beat/4))
		if err == nil {
			for msg := range batch.Messages() {
				group.Go(func() error { return o.handleResult(inner, msg) })
			}
			err = batch.Error()
		}
		if err != nil { // the server is away, or has lost its data; both are restored in the background
			sleep(inner, o.conn.cfg.beat)
		}
	}
	return group.Wait()
}

// handleResult delivers a result to the engine, and acknowledges it after the engine has
// committed it. A result from before this call of Work may hold a stop whose cause is gone: its
// unit is published again.
func (o *Coordinator) handleResult(ctx context.Context, msg jetstream.Msg) error {
	name := keyOf(msg.Subject())
	o.mu.Lock()
	w, old, there := o.pending[name], o.earlyResults[name], o.onServer[name]
	accepted := w != nil && !w.handled
	if accepted {
		w.handled, w.publishing = true, false
		delete(o.earlyResults, name)
		delete(o.onServer, name)
	}
	o.mu.Unlock()
	if !accepted { // a duplicate, or the engine has not handed out the unit yet
		if w == nil && there {
			_ = msg.NakWithDelay(o.conn.cfg.beat)
		}
		return nil
	}
	var r result
	large, err := receive(ctx, o.conn, msg, &r)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, errDamaged): // the server is away and will deliver the result again
		o.update(func() { w.handled = false })
		return nil
	case err != nil || old && r.Stop != nil: // publish the unit again, a limited number of times
		_ = msg.DoubleAck(ctx)
		if w.unreadable++; w.unreadable < maxDeliveries {
			o.update(func() { w.handled, w.publishing = false, true })
			o.publishUnit(ctx, name, w)
			return nil
		}
		failure := &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf("the results of workers could not be read %d times: %v", w.unreadable, err)}
		err = o.queue.Deliver(ctx, w.Unit, experiment.Done{Err: failure, Started: time.Now()})
	case r.Stop != nil:
		o.update(func() { // for this trial and the next ones
			if !limit.Closed(o.stopping) {
				close(o.stopping)
			}
		})
		err = o.queue.GiveBack(ctx, w.Unit, r.stopCause())
	default:
		err = o.queue.Deliver(ctx, w.Unit, r.toDone())
	}
	if err != nil {
		return err
	}
	_ = msg.Ack() // if the acknowledgement is lost, the result comes again and is ignored
	if large {
		_ = o.conn.big.Delete(ctx, objectName(msg.Subject()))
	}
	if int64(w.size) > o.conn.nats.MaxPayload()/2 {
		_ = o.conn.big.Delete(ctx, objectName(unitSubject+o.run.ID+"."+name))
	}
	o.update(func() {
		o.redelivered += max(0, r.Deliveries-1)
		delete(o.pending, name)
		o.pendingBytes -= w.size
	})
	return nil
}

// finish ends Work when every unit was delivered, or given back after a stop.
func (o *Coordinator) finish(ctx context.Context) error {
	complete := func() bool { return o.drained && len(o.pending) == 0 }
	err := o.waitUntil(ctx, func() bool { return complete() || o.stopped(ctx) })
	if err == nil && o.stopped(ctx) {
		err = o.recallUnits(ctx, complete)
	}
	if err == nil {
		o.stopWork()
	}
	return err
}

// recallUnits withdraws the units that no worker has begun, waits for the units that workers
// hold, and gives the rest back to the engine.
func (o *Coordinator) recallUnits(ctx context.Context, home func() bool) error {
	purge := func(ctx context.Context) error { return o.conn.purge(ctx, unitStream, unitSubject+o.run.ID+".*") }
	if err := o.retry(ctx, o.conn.cfg.maxOutage(), purge); err != nil {
		return serverAwayError("withdrawing the units that no worker has begun", err)
	}
	for taken := time.Now(); ; {
		err := o.waitUntil(ctx, func() bool {
			_, _, inHand, quiet := o.activeWorkers()
			// A worker that took a unit just before the purge has reported it within a second.
			return home() || o.drained && inHand == 0 && quiet.After(taken.Add(2*o.conn.cfg.beat))
		})
		if err != nil {
			return err
		}
		results, err := o.conn.storedKeys(ctx, resultStream, resultSubject+o.run.ID+".*")
		o.mu.Lock()
		maps.DeleteFunc(results, func(name string, _ bool) bool { return o.pending[name] == nil })
		o.mu.Unlock()
		if err != nil || len(results) == 0 {
			break
		}
		sleep(ctx, o.conn.cfg.beat/10)
	}
	var left []*pendingUnit
	o.update(func() {
		for name, w := range o.pending {
			if !w.handled {
				left = append(left, w)
				delete(o.pending, name)
				o.pendingBytes -= w.size
			}
		}
	})
	for _, w := range left {
		if err := o.queue.GiveBack(ctx, w.Unit, nil); err != nil {
			return err
		}
	}
	return o.waitUntil(ctx, home)
}
