package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// trial is one call of Work.
type trial struct {
	*Coordinator
	queue experiment.Queue
	done  func()          // ends what goes on beside
	there map[string]bool // units that a coordinator before this one has published

	mu      sync.Mutex
	waiting map[string]*waiting
	bytes   int
	all     bool          // the engine has no more units
	changed chan struct{} // closed and replaced
}

// waiting is a unit on the server or in the hands of a worker.
type waiting struct {
	*experiment.Unit
	sent   time.Time // when it was published or last asked for; zero: not yet
	onWay  bool      // it is being published
	size   int
	judged bool // its result is there
	again  int  // results of it that could not be read
}

// Work publishes what is in the queue as workers can take it, and hands back what comes
// home. Where limit.Stop of ctx is closed, or a worker says that nothing more can be tried,
// what no worker has begun is taken back, and what is in their hands is waited for. It ends
// with an error where another coordinator has taken the run.
func (o *Coordinator) Work(ctx context.Context, queue experiment.Queue) error {
	t := &trial{Coordinator: o, queue: queue, waiting: map[string]*waiting{}, changed: make(chan struct{})}
	inner, done := context.WithCancel(ctx)
	defer done()
	t.done = done
	group, inner := errgroup.WithContext(inner)
	if err := t.takeEarly(inner); err != nil {
		return err
	}
	for _, f := range []func(context.Context) error{t.publishAll, t.receiveAll, t.keepAsking, t.finish} {
		group.Go(func() error {
			if err := f(inner); inner.Err() == nil { // else it was told to end
				return err
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	o.cut = o.cut || err != nil
	return err
}

// change changes what is waited for under the lock, and wakes who waits.
func (t *trial) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

// wait returns when the condition holds; it looks at it again on every change and every second.
func (t *trial) wait(ctx context.Context, holds func() bool) error {
	for {
		t.mu.Lock()
		ok, changed := holds(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(t.conn.cfg.beat):
		case <-t.taken:
			return cli.Errorf(cli.ExitInterrupted, "another process has taken the run over: this one had given no sign for %s", t.conn.cfg.lost())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// halted reports whether nothing more is handed out.
func (t *trial) halted(ctx context.Context) bool {
	return limit.Closed(limit.Stop(ctx)) || limit.Closed(t.stopping)
}

// takeEarly takes the results that are on the server before anything is published. The units
// are looked at first: a worker stores its result before it acknowledges the unit, so that
// what is in neither is nowhere.
func (t *trial) takeEarly(ctx context.Context) (err error) {
	if t.there, err = t.conn.stored(ctx, unitStream, unitSubject+t.run.ID+".*"); err != nil {
		return fmt.Errorf("asking for units: %w", err)
	}
	info, err := t.results.Info(ctx)
	if err != nil {
		return fmt.Errorf("asking for results: %w", err)
	}
	if info.NumPending == 0 {
		return nil
	}
	batch, err := t.results.FetchNoWait(int(min(info.NumPending, mostUnits)))
	if err != nil {
		return fmt.Errorf("asking for results: %w", err)
	}
	for msg := range batch.Messages() {
		t.keep(msg)
	}
	return batch.Error()
}

// keep keeps a result until the engine hands out its unit.
func (o *Coordinator) keep(msg jetstream.Msg) {
	name := keyOf(msg.Subject())
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.early) >= mostUnits {
		_ = msg.Ack() // more than are waited for
		return
	}
	o.early[name] = msg
}

// unkeep returns the result that was kept of a unit, nil without one.
func (o *Coordinator) unkeep(name string) jetstream.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	msg := o.early[name]
	delete(o.early, name)
	return msg
}

// unclaimed is how many results are kept.
func (o *Coordinator) unclaimed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.early)
}

func keyOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// publishAll publishes units, several at once, until the engine has no more.
func (t *trial) publishAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range publishers {
		group.Go(func() error { return t.publish(ctx) })
	}
	err := group.Wait()
	t.change(func() { t.all = true })
	return err
}

// publish publishes units while the workers can take more.
func (t *trial) publish(ctx context.Context) error {
	for {
		err := t.wait(ctx, func() bool {
			_, capacity, _, _ := t.working()
			room := min(2*capacity+t.unclaimed(), mostUnits) // to meet those whose results are there
			return t.halted(ctx) || len(t.waiting) < room && t.bytes < mostBytes
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
		name, w := key(u.Trial, u.ID, u.Attempt), &waiting{Unit: u, size: len(u.Input) + len(u.Metadata), onWay: true}
		if w.size > maxPayload*3/4 {
			failure := &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("its input and metadata have %d bytes: more than %d do not travel to workers", w.size, maxPayload*3/4)}
			if err := t.queue.Deliver(ctx, u, experiment.Done{Err: failure, Started: t.conn.cfg.Now()}); err != nil {
				return err
			}
			continue
		}
		var msg jetstream.Msg
		t.change(func() { t.waiting[name], t.bytes, msg = w, t.bytes+w.size, t.unkeep(name) })
		switch {
		case msg != nil:
			if err := t.take(ctx, msg, true); err != nil {
				return err
			}
		case t.halted(ctx):
		case t.there[name]: // and its result comes, or keepAsking finds that it was lost
			t.change(func() { w.onWay, w.sent = false, time.Now() })
		default:
			t.send(ctx, name, w)
		}
	}
}

// send publishes a unit. What fails is tried again by keepAsking.
func (t *trial) send(ctx context.Context, name string, w *waiting) {
	subject := unitSubject + t.run.ID + "." + name
	err := t.conn.publish(ctx, subject, unit{w.ID, w.Trial, w.Attempt, w.Input, w.Metadata})
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.onWay = false; err == nil || errors.Is(err, errThere) {
		w.sent = time.Now()
	}
}

// keepAsking publishes again what the server has lost.
func (t *trial) keepAsking(ctx context.Context) error {
	ticker := time.NewTicker(t.run.Lease / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		old := t.silent()
		if t.halted(ctx) || len(old) == 0 {
			continue
		}
		// A worker stores its result before it acknowledges the unit: what is in neither
		// stream, looked at in this order, was lost or has come home meanwhile.
		units, err := t.conn.stored(ctx, unitStream, unitSubject+t.run.ID+".*")
		results, failed := t.conn.stored(ctx, resultStream, resultSubject+t.run.ID+".*")
		if err != nil || failed != nil {
			continue
		}
		for name, w := range t.silent() {
			if old[name] == w && !units[name] && !results[name] {
				t.send(ctx, name, w)
			}
		}
	}
}

// silent returns the units that were sent a while ago and of which no result is there.
func (t *trial) silent() map[string]*waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[string]*waiting{}
	for name, w := range t.waiting {
		if !w.judged && !w.onWay && time.Since(w.sent) >= t.run.Lease {
			found[name] = w
		}
	}
	return found
}

// stored returns the keys of what a stream has under a subject.
func (c *Conn) stored(ctx context.Context, stream, subject string) (map[string]bool, error) {
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

// receiveAll takes results as they come.
func (t *trial) receiveAll(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(judges)
	for inner.Err() == nil {
		batch, err := t.results.Fetch(2*judges, jetstream.FetchMaxWait(t.conn.cfg.beat/4))
		if err != nil { // the server is away: the connection comes back by itself
			sleep(inner, t.conn.cfg.beat)
			continue
		}
		for msg := range batch.Messages() {
			group.Go(func() error { return t.take(inner, msg, false) })
		}
	}
	return group.Wait()
}

// take hands a result to the engine, and acknowledges it when that has committed it. An
// early one came while nobody coordinated the run: what stopped it then may be gone.
func (t *trial) take(ctx context.Context, msg jetstream.Msg, early bool) error {
	name := keyOf(msg.Subject())
	t.mu.Lock()
	w := t.waiting[name]
	mine := w != nil && !w.judged
	if mine {
		w.judged, w.onWay = true, false
	} else if w == nil {
		t.keep(msg)
	}
	t.mu.Unlock()
	if !mine { // kept, or given to this process twice
		return nil
	}
	var r result
	large, err := receive(ctx, t.conn, msg, &r)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, errDamaged): // the server is away: the result comes again
		t.change(func() { w.judged = false })
		return nil
	case err != nil || early && r.Stop != nil: // it is asked again, but not for ever
		_ = msg.DoubleAck(ctx)
		if w.again++; w.again < mostDeliveries {
			t.change(func() { w.judged, w.onWay = false, true })
			t.send(ctx, name, w)
			return nil
		}
		failure := &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf("what workers sent of it could not be read %d times: %v", w.again, err)}
		err = t.queue.Deliver(ctx, w.Unit, experiment.Done{Err: failure, Started: t.conn.cfg.Now()})
	case r.Stop != nil:
		t.halt()
		err = t.queue.GiveBack(ctx, w.Unit, r.Stop.err())
	default:
		err = t.queue.Deliver(ctx, w.Unit, r.done())
	}
	if err != nil {
		return err
	}
	_ = msg.Ack() // a lost one costs a look at it
	if large {
		_ = t.conn.big.Delete(ctx, objectName(msg.Subject()))
	}
	if int64(w.size) > t.conn.nats.MaxPayload()/2 {
		_ = t.conn.big.Delete(ctx, objectName(unitSubject+t.run.ID+"."+name))
	}
	t.Coordinator.mu.Lock()
	t.again += max(0, r.Deliveries-1)
	t.Coordinator.mu.Unlock()
	t.change(func() {
		delete(t.waiting, name)
		t.bytes -= w.size
	})
	return nil
}

// halt has nothing more handed out in this and the next trials.
func (o *Coordinator) halt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !limit.Closed(o.stopping) {
		close(o.stopping)
	}
}

// finish ends all when every unit has come home, or was taken back after a stop.
func (t *trial) finish(ctx context.Context) error {
	home := func() bool { return t.all && len(t.waiting) == 0 }
	err := t.wait(ctx, func() bool { return home() || t.halted(ctx) })
	if err == nil && t.halted(ctx) {
		err = t.takeBack(ctx, home)
	}
	if err == nil {
		t.done()
	}
	return err
}

// takeBack takes what no worker has begun off the server, waits for what is in their
// hands, and gives back the rest.
func (t *trial) takeBack(ctx context.Context, home func() bool) error {
	if err := t.conn.purge(ctx, unitStream, unitSubject+t.run.ID+".*"); err != nil {
		return fmt.Errorf("taking back what no worker has begun: %w", err)
	}
	for taken := time.Now(); ; {
		err := t.wait(ctx, func() bool {
			_, _, inHand, quiet := t.working()
			// Who took a unit just before has said so once a second has passed.
			return home() || t.all && inHand == 0 && quiet.After(taken.Add(2*t.conn.cfg.beat))
		})
		if err != nil {
			return err
		}
		if info, err := t.results.Info(ctx); err != nil || info.NumPending == 0 && info.NumAckPending <= t.unclaimed() {
			break
		}
		sleep(ctx, t.conn.cfg.beat/10)
	}
	var left []*waiting
	t.change(func() {
		for name, w := range t.waiting {
			if !w.judged {
				left = append(left, w)
				delete(t.waiting, name)
				t.bytes -= w.size
			}
		}
	})
	for _, w := range left {
		if err := t.queue.GiveBack(ctx, w.Unit, nil); err != nil {
			return err
		}
	}
	return t.wait(ctx, home)
}
