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
	discarded  int  // number of its results that could not be read, or that reported a stop that is over
}

// Work publishes the units of the queue as fast as the workers can take them, and delivers their
// results. If limit.Stop of ctx is closed, or a worker reports that no unit can be tried, Work
// withdraws the units that no worker has begun and waits for the others. If another coordinator
// has taken over the run, Work returns an error.
func (c *Coordinator) Work(ctx context.Context, queue experiment.Queue) error {
	inner, done := context.WithCancel(ctx)
	defer done()
	c.update(func() {
		c.queue, c.stopWork, c.pending, c.pendingBytes, c.drained = queue, done, map[string]*pendingUnit{}, 0, false
	})
	group, inner := errgroup.WithContext(inner)
	for { // the server may be away for a while, which sendBeats says
		units, results, err := c.serverState(inner)
		if err == nil {
			maps.Copy(units, results)
			c.onServer, c.earlyResults = units, results
			break
		}
		if sleep(inner, c.conn.cfg.beatInterval); inner.Err() != nil || c.stopped(ctx) {
			c.interrupted = true
			return cmp.Or(ctx.Err(), serverAwayError("listing the units on the server", err))
		}
	}
	for _, f := range []func(context.Context) error{c.publishUnits, c.receiveResults, c.republishLost, c.finish} {
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
	c.interrupted = c.interrupted || err != nil
	return err
}

// update calls f under the lock and wakes everyone in waitUntil.
func (c *Coordinator) update(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitUntil returns when holds reports true. It checks at each update and once a second.
func (c *Coordinator) waitUntil(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := holds(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(c.conn.cfg.beatInterval):
		case <-c.takenOver:
			return cli.Errorf(cli.ExitInterrupted, "another process has taken the run over: this one had given no sign for %s", c.conn.cfg.lostAfter())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopped reports whether no more units are handed out.
func (c *Coordinator) stopped(ctx context.Context) bool {
	return limit.Closed(limit.Stop(ctx)) || limit.Closed(c.stopping)
}

// serverAwayError is the error of a stop that could not be completed because the server is away.
func serverAwayError(doing string, err error) error {
	return &experiment.StoppedError{Cause: fmt.Errorf("%s: %w", doing, err)}
}

// serverState lists the units and results on the server. It lists units first: a worker stores
// the result before it acknowledges the unit, so that a unit in neither list was lost, or its
// result was delivered meanwhile.
func (c *Coordinator) serverState(ctx context.Context) (units, results map[string]bool, err error) {
	if units, err = c.conn.storedKeys(ctx, unitStream, unitSubject+c.run.ID+".*"); err == nil {
		results, err = c.conn.storedKeys(ctx, resultStream, resultSubject+c.run.ID+".*")
	}
	return units, results, err
}

func keyOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// publishUnits publishes units, several at once, until the engine has no more.
func (c *Coordinator) publishUnits(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range publishers {
		group.Go(func() error { return c.publishLoop(ctx) })
	}
	err := group.Wait()
	c.update(func() { c.drained = true })
	return err
}

// publishLoop publishes units while the workers can take more.
func (c *Coordinator) publishLoop(ctx context.Context) error {
	for {
		err := c.waitUntil(ctx, func() bool {
			_, capacity, _, _ := c.activeWorkers()
			room := min(2*capacity+len(c.earlyResults), maxUnits) // room to reach the units whose results have arrived already
			return c.stopped(ctx) || len(c.pending) < room && c.pendingBytes < maxUnitBytes
		})
		if err != nil {
			return err
		}
		u, err := c.queue.Take(ctx)
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
			if err := c.queue.Deliver(ctx, u, experiment.Done{Err: failure, Started: time.Now()}); err != nil {
				return err
			}
			continue
		}
		there := false
		c.update(func() {
			c.pending[name], c.pendingBytes, there = w, c.pendingBytes+w.size, c.onServer[name]
			if there { // its result will arrive, or republishLost will find that the server lost it
				w.publishing, w.sent = false, time.Now()
			}
		})
		if !there && !c.stopped(ctx) {
			c.publishUnit(ctx, name, w)
		}
	}
}

// publishUnit publishes a unit. If that fails, republishLost publishes it later.
func (c *Coordinator) publishUnit(ctx context.Context, name string, w *pendingUnit) {
	subject := unitSubject + c.run.ID + "." + name
	err := c.conn.publish(ctx, subject, w.Item)
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.publishing = false; err == nil || errors.Is(err, errExists) {
		w.sent = time.Now()
	}
}

// republishLost publishes units again that the server has lost.
func (c *Coordinator) republishLost(ctx context.Context) error {
	for tick := time.Tick(c.run.Lease / 4); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if c.stopped(ctx) || len(c.overdue()) == 0 {
			continue
		}
		units, results, err := c.serverState(ctx)
		if err != nil {
			continue
		}
		for name, w := range c.overdue() {
			if !units[name] && !results[name] {
				c.publishUnit(ctx, name, w)
			}
		}
	}
}

// overdue returns the units that were published at least a lease ago and have no result.
func (c *Coordinator) overdue() map[string]*pendingUnit {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]*pendingUnit{}
	for name, w := range c.pending {
		if !w.handled && !w.publishing && time.Since(w.sent) >= c.run.Lease {
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
func (c *Coordinator) receiveResults(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(receivers)
	for inner.Err() == nil {
		batch, err := c.results.Fetch(2*receivers, jetstream.FetchMaxWait(c.conn.cfg.beatInterval/4))
		if err == nil {
			for msg := range batch.Messages() {
				group.Go(func() error { return c.handleResult(inner, msg) })
			}
			err = batch.Error()
		}
		if err != nil { // the server is away, or has lost its data; both are restored in the background
			sleep(inner, c.conn.cfg.beatInterval)
		}
	}
	return group.Wait()
}

// handleResult delivers a result to the engine, and acknowledges it after the engine has
// committed it. A result from before this call of Work may hold a stop whose cause is gone, and a
// worker may have taken the coordinator for dead: then the unit is published again.
func (c *Coordinator) handleResult(ctx context.Context, msg jetstream.Msg) error {
	name := keyOf(msg.Subject())
	c.mu.Lock()
	w, old, there := c.pending[name], c.earlyResults[name], c.onServer[name]
	accepted := w != nil && !w.handled
	if accepted {
		w.handled, w.publishing = true, false
		delete(c.earlyResults, name)
		delete(c.onServer, name)
	}
	c.mu.Unlock()
	if !accepted { // a duplicate, or the engine has not handed out the unit yet
		if w == nil && there {
			_ = msg.NakWithDelay(c.conn.cfg.beatInterval)
		}
		return nil
	}
	var r result
	large, err := receive(ctx, c.conn, msg, &r)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, errDamaged): // the server is away and will deliver the result again
		c.update(func() { w.handled = false })
		return nil
	case err != nil || r.Stop != nil && (old || r.Stop.Stopped && !c.stopped(ctx)):
		// Publish the unit again, a limited number of times.
		_ = msg.DoubleAck(ctx)
		if w.discarded++; w.discarded < maxDeliveries {
			c.update(func() { w.handled, w.publishing = false, true })
			c.publishUnit(ctx, name, w)
			return nil
		}
		if err == nil {
			err = r.stopCause()
		}
		failure := &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf(
			"the results of workers could not be used %d times: %v", w.discarded, err)}
		err = c.queue.Deliver(ctx, w.Unit, experiment.Done{Err: failure, Started: time.Now()})
	case r.Stop != nil:
		c.update(func() { // for this trial and the next ones
			if !limit.Closed(c.stopping) {
				close(c.stopping)
			}
		})
		err = c.queue.GiveBack(ctx, w.Unit, r.stopCause())
	default:
		err = c.queue.Deliver(ctx, w.Unit, r.toDone())
	}
	if err != nil {
		return err
	}
	_ = msg.Ack() // if the acknowledgement is lost, the result comes again and is ignored
	if large {
		_ = c.conn.big.Delete(ctx, objectName(msg.Subject()))
	}
	if int64(w.size) > c.conn.nats.MaxPayload()/2 {
		_ = c.conn.big.Delete(ctx, objectName(unitSubject+c.run.ID+"."+name))
	}
	c.update(func() {
		c.redelivered += max(0, r.Deliveries-1)
		delete(c.pending, name)
		c.pendingBytes -= w.size
	})
	return nil
}

// finish ends Work when every unit was delivered, or given back after a stop.
func (c *Coordinator) finish(ctx context.Context) error {
	complete := func() bool { return c.drained && len(c.pending) == 0 }
	err := c.waitUntil(ctx, func() bool { return complete() || c.stopped(ctx) })
	if err == nil && c.stopped(ctx) {
		err = c.recallUnits(ctx, complete)
	}
	if err == nil {
		c.stopWork()
	}
	return err
}

// recallUnits withdraws the units that no worker has begun, waits for the units that workers
// hold, and gives the rest back to the engine.
func (c *Coordinator) recallUnits(ctx context.Context, home func() bool) error {
	purge := func(ctx context.Context) error { return c.conn.purge(ctx, unitStream, unitSubject+c.run.ID+".*") }
	if err := c.retry(ctx, c.conn.cfg.maxOutage(), purge); err != nil {
		return serverAwayError("withdrawing the units that no worker has begun", err)
	}
	report := 2 * c.conn.cfg.beatInterval // within which a worker has reported the units that it holds
	for taken, checked := time.Now(), time.Now(); ; {
		err := c.waitUntil(ctx, func() bool {
			// A worker may have taken a unit just before the purge, and none was heard while this process
			// was suspended.
			if time.Since(checked) > report {
				taken = time.Now()
			}
			checked = time.Now()
			_, _, inHand, quiet := c.activeWorkers()
			return home() || c.drained && inHand == 0 && quiet.After(taken.Add(report))
		})
		if err != nil {
			return err
		}
		results, err := c.conn.storedKeys(ctx, resultStream, resultSubject+c.run.ID+".*")
		c.mu.Lock()
		maps.DeleteFunc(results, func(name string, _ bool) bool { return c.pending[name] == nil })
		c.mu.Unlock()
		if err != nil || len(results) == 0 {
			break
		}
		sleep(ctx, c.conn.cfg.beatInterval/10)
	}
	var left []*pendingUnit
	c.update(func() {
		for name, w := range c.pending {
			if !w.handled {
				left = append(left, w)
				delete(c.pending, name)
				c.pendingBytes -= w.size
			}
		}
	})
	for _, w := range left {
		if err := c.queue.GiveBack(ctx, w.Unit, experiment.ErrInterrupted); err != nil {
			return err
		}
	}
	return c.waitUntil(ctx, home)
}
