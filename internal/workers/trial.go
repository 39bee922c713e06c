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

// trial is one call of Work. The mutex of the Coordinator guards the fields below queue.
type trial struct {
	*Coordinator
	queue experiment.Queue

	onServer     map[string]bool // units that an earlier coordinator published and that have not been delivered
	earlyResults map[string]bool // those of onServer that had a result when Work began
	pending      map[string]*pendingUnit
	pendingBytes int
	drained      bool // the engine has no more units
}

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
	t := &trial{Coordinator: c, queue: queue, pending: map[string]*pendingUnit{}}
	err := t.work(ctx)
	c.interrupted = c.interrupted || err != nil
	return err
}

func (t *trial) work(ctx context.Context) error {
	for { // the server may be away for a while, which sendBeats says
		units, results, err := t.serverState(ctx)
		if err == nil {
			maps.Copy(units, results)
			t.onServer, t.earlyResults = units, results
			break
		}
		if sleep(ctx, t.conn.cfg.beatInterval); ctx.Err() != nil || t.stopped(ctx) {
			return cmp.Or(ctx.Err(), serverAwayError("listing the units on the server", err))
		}
	}
	group, inner := errgroup.WithContext(ctx)
	inner, done := context.WithCancel(inner)
	for _, f := range []func(context.Context) error{t.publishUnits, t.receiveResults, t.republishLost} {
		group.Go(func() error {
			if err := f(inner); inner.Err() == nil { // otherwise the error only says that inner was cancelled
				return err
			}
			return nil
		})
	}
	unfinished := t.finish(inner)
	done() // ends the others
	err := group.Wait()
	return cmp.Or(ctx.Err(), err, unfinished)
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
func (t *trial) publishUnits(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range publishers {
		group.Go(func() error { return t.publishLoop(ctx) })
	}
	err := group.Wait()
	if err == nil { // otherwise finish could end Work before the error is known
		t.update(func() { t.drained = true })
	}
	return err
}

// publishLoop publishes units while the workers can take more.
func (t *trial) publishLoop(ctx context.Context) error {
	for {
		err := t.waitUntil(ctx, func() bool {
			_, capacity, _, _ := t.activeWorkers()
			room := min(2*capacity+len(t.earlyResults), maxUnits) // room to reach the units whose results have arrived already
			return t.stopped(ctx) || len(t.pending) < room && t.pendingBytes < maxUnitBytes
		})
		if err != nil {
			return err
		}
		u, err := t.queue.Take(ctx)
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
			if err := t.queue.Deliver(ctx, u, experiment.Done{Err: failure, Started: time.Now()}); err != nil {
				return err
			}
			continue
		}
		there := false
		t.update(func() {
			t.pending[name], t.pendingBytes, there = w, t.pendingBytes+w.size, t.onServer[name]
			if there { // its result will arrive, or republishLost will find that the server lost it
				w.publishing, w.sent = false, time.Now()
			}
		})
		if !there && !t.stopped(ctx) {
			t.publishUnit(ctx, name, w)
		}
	}
}

// publishUnit publishes a unit. If that fails, republishLost publishes it later.
func (t *trial) publishUnit(ctx context.Context, name string, w *pendingUnit) {
	subject := unitSubject + t.run.ID + "." + name
	err := t.conn.publish(ctx, subject, w.Item)
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.publishing = false; err == nil || errors.Is(err, errExists) {
		w.sent = time.Now()
	}
}

// republishLost publishes units again that the server has lost.
func (t *trial) republishLost(ctx context.Context) error {
	for tick := time.Tick(t.run.Lease / 4); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if t.stopped(ctx) || len(t.overdue()) == 0 {
			continue
		}
		units, results, err := t.serverState(ctx)
		if err != nil {
			continue
		}
		for name, w := range t.overdue() {
			if !units[name] && !results[name] {
				t.publishUnit(ctx, name, w)
			}
		}
	}
}

// overdue returns the units that were published at least a lease ago and have no result.
func (t *trial) overdue() map[string]*pendingUnit {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[string]*pendingUnit{}
	for name, w := range t.pending {
		if !w.handled && !w.publishing && time.Since(w.sent) >= t.run.Lease {
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
func (t *trial) receiveResults(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(receivers)
	for inner.Err() == nil {
		batch, err := t.results.Fetch(2*receivers, jetstream.FetchMaxWait(t.conn.cfg.beatInterval/4))
		if err == nil {
			for msg := range batch.Messages() {
				group.Go(func() error { return t.handleResult(inner, msg) })
			}
			err = batch.Error()
		}
		if err != nil { // the server is away, or has lost its data; both are restored in the background
			sleep(inner, t.conn.cfg.beatInterval)
		}
	}
	return group.Wait()
}

// handleResult delivers a result to the engine, and acknowledges it after the engine has
// committed it.
func (t *trial) handleResult(ctx context.Context, msg jetstream.Msg) error {
	name := keyOf(msg.Subject())
	t.mu.Lock()
	w, old, there := t.pending[name], t.earlyResults[name], t.onServer[name]
	accepted := w != nil && !w.handled
	if accepted {
		w.handled, w.publishing = true, false
		delete(t.earlyResults, name)
		delete(t.onServer, name)
	}
	t.mu.Unlock()
	if !accepted { // a duplicate, or the engine has not handed out the unit yet
		if w == nil && there {
			_ = msg.NakWithDelay(t.conn.cfg.beatInterval)
		}
		return nil
	}
	var r result
	large, err := receive(ctx, t.conn, msg, &r)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, errDamaged): // the server is away and will deliver the result again
		t.update(func() { w.handled = false })
		return nil
	case err == nil && r.Stop != nil && (old || r.Stop.Stopped && !t.stopped(ctx)):
		// The cause of a stop from before this call of Work is gone, or a worker took this coordinator for dead.
		err = r.stopCause()
	}
	if err != nil { // publish the unit again, a limited number of times
		_ = msg.DoubleAck(ctx)
		if w.discarded++; w.discarded < maxDeliveries {
			t.update(func() { w.handled, w.publishing = false, true })
			t.publishUnit(ctx, name, w)
			return nil
		}
		r.Done, r.Stop = experiment.Done{Started: time.Now()}, nil
		r.Failure = &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf(
			"the results of workers could not be used %d times: %v", w.discarded, err)}
	}
	if err := t.hand(ctx, w, r); err != nil {
		return err
	}
	_ = msg.Ack() // if the acknowledgement is lost, the result comes again and is ignored
	if large {
		_ = t.conn.big.Delete(ctx, objectName(msg.Subject()))
	}
	if int64(w.size) > t.conn.nats.MaxPayload()/2 {
		_ = t.conn.big.Delete(ctx, objectName(unitSubject+t.run.ID+"."+name))
	}
	t.update(func() {
		t.redelivered += max(0, r.Deliveries-1)
		delete(t.pending, name)
		t.pendingBytes -= w.size
	})
	return nil
}

// hand hands a result to the engine. If it says that no unit can be tried, that holds for this trial and
// the next ones.
func (t *trial) hand(ctx context.Context, w *pendingUnit, r result) error {
	if r.Stop == nil {
		return t.queue.Deliver(ctx, w.Unit, r.toDone())
	}
	t.update(func() {
		if !limit.Closed(t.stopping) {
			close(t.stopping)
		}
	})
	return t.queue.GiveBack(ctx, w.Unit, r.stopCause())
}

// finish waits until every unit was delivered, or given back after a stop.
func (t *trial) finish(ctx context.Context) error {
	complete := func() bool { return t.drained && len(t.pending) == 0 }
	err := t.waitUntil(ctx, func() bool { return complete() || t.stopped(ctx) })
	if err == nil && t.stopped(ctx) {
		err = t.recallUnits(ctx, complete)
	}
	return err
}

// recallUnits withdraws the units that no worker has begun, waits for the units that workers
// hold, and gives the rest back to the engine.
func (t *trial) recallUnits(ctx context.Context, home func() bool) error {
	purge := func(ctx context.Context) error { return t.conn.purge(ctx, unitStream, unitSubject+t.run.ID+".*") }
	if err := t.retry(ctx, t.conn.cfg.maxOutage(), purge); err != nil {
		return serverAwayError("withdrawing the units that no worker has begun", err)
	}
	report := 2 * t.conn.cfg.beatInterval // within which a worker has reported the units that it holds
	for taken, checked := time.Now(), time.Now(); ; {
		err := t.waitUntil(ctx, func() bool {
			// A worker may have taken a unit just before the purge, and none was heard while this process
			// was suspended.
			if time.Since(checked) > t.conn.cfg.lostAfter()/2 {
				taken = time.Now()
			}
			checked = time.Now()
			_, _, inHand, quiet := t.activeWorkers()
			return home() || t.drained && inHand == 0 && quiet.After(taken.Add(report))
		})
		if err != nil {
			return err
		}
		results, err := t.conn.storedKeys(ctx, resultStream, resultSubject+t.run.ID+".*")
		t.mu.Lock()
		maps.DeleteFunc(results, func(name string, _ bool) bool { return t.pending[name] == nil })
		t.mu.Unlock()
		if err != nil || len(results) == 0 {
			break
		}
		sleep(ctx, t.conn.cfg.beatInterval/10)
	}
	var left []*pendingUnit
	t.update(func() {
		for name, w := range t.pending {
			if !w.handled {
				left = append(left, w)
				delete(t.pending, name)
				t.pendingBytes -= w.size
			}
		}
	})
	for _, w := range left {
		if err := t.queue.GiveBack(ctx, w.Unit, experiment.ErrInterrupted); err != nil {
			return err
		}
	}
	return t.waitUntil(ctx, home)
}
