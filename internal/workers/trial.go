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
	inner, done := context.WithCancel(ctx)
	defer done()
	o.change(func() {
		o.queue, o.done, o.waiting, o.bytes, o.all = queue, done, map[string]*waiting{}, 0, false
	})
	group, inner := errgroup.WithContext(inner)
	for tries := 1; ; tries++ { // the server may be away: it comes back
		err := o.lookThere(inner)
		if err == nil {
			break
		}
		if tries == 5 {
			o.conn.cfg.Note("waiting for the workers' server, which does not say what it has of the run: " + err.Error())
		}
		if sleep(inner, o.conn.cfg.beat); inner.Err() != nil || o.halted(ctx) {
			o.cut = true
			return cmp.Or(ctx.Err(), away("asking for what is on the server", err))
		}
	}
	for _, f := range []func(context.Context) error{o.publishAll, o.receiveAll, o.keepAsking, o.finish} {
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
func (o *Coordinator) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// wait returns when the condition holds; it looks at it again on every change and every second.
func (o *Coordinator) wait(ctx context.Context, holds func() bool) error {
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
		case <-o.taken:
			return cli.Errorf(cli.ExitInterrupted, "another process has taken the run over: this one had given no sign for %s", o.conn.cfg.lost())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// halted reports whether nothing more is handed out.
func (o *Coordinator) halted(ctx context.Context) bool {
	return limit.Closed(limit.Stop(ctx)) || limit.Closed(o.stopping)
}

// away says that a run that was stopped could not be ended as it should, as the server is away.
func away(doing string, err error) error {
	return &experiment.StoppedError{Cause: fmt.Errorf("%s: %w", doing, err)}
}

// lookThere asks what is on the server before anything is published. The units are looked at
// first: a worker stores its result before it acknowledges the unit, so that what is in
// neither is nowhere.
func (o *Coordinator) lookThere(ctx context.Context) (err error) {
	o.there, err = o.conn.stored(ctx, unitStream, unitSubject+o.run.ID+".*")
	if err == nil {
		o.old, err = o.conn.stored(ctx, resultStream, resultSubject+o.run.ID+".*")
	}
	if err != nil {
		return err
	}
	maps.Copy(o.there, o.old)
	return nil
}

func keyOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// publishAll publishes units, several at once, until the engine has no more.
func (o *Coordinator) publishAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range publishers {
		group.Go(func() error { return o.publish(ctx) })
	}
	err := group.Wait()
	o.change(func() { o.all = true })
	return err
}

// publish publishes units while the workers can take more.
func (o *Coordinator) publish(ctx context.Context) error {
	for {
		err := o.wait(ctx, func() bool {
			_, capacity, _, _ := o.working()
			room := min(2*capacity+len(o.old), mostUnits) // to meet those whose results are there
			return o.halted(ctx) || len(o.waiting) < room && o.bytes < mostBytes
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
		name, w := key(u.Trial, u.ID, u.Attempt), &waiting{Unit: u, size: len(u.Input) + len(u.Metadata), onWay: true}
		if w.size > maxPayload*3/4 {
			failure := &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("its input and metadata have %d bytes: more than %d do not travel to workers", w.size, maxPayload*3/4)}
			if err := o.queue.Deliver(ctx, u, experiment.Done{Err: failure, Started: time.Now()}); err != nil {
				return err
			}
			continue
		}
		there := false
		o.change(func() {
			o.waiting[name], o.bytes, there = w, o.bytes+w.size, o.there[name]
			if there { // and its result comes, or keepAsking finds that it was lost
				w.onWay, w.sent = false, time.Now()
			}
		})
		if !there && !o.halted(ctx) {
			o.send(ctx, name, w)
		}
	}
}

// send publishes a unit. What fails is tried again by keepAsking.
func (o *Coordinator) send(ctx context.Context, name string, w *waiting) {
	subject := unitSubject + o.run.ID + "." + name
	err := o.conn.publish(ctx, subject, unit{w.ID, w.Trial, w.Attempt, w.Input, w.Metadata})
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.onWay = false; err == nil || errors.Is(err, errThere) {
		w.sent = time.Now()
	}
}

// keepAsking publishes again what the server has lost.
func (o *Coordinator) keepAsking(ctx context.Context) error {
	for tick := time.Tick(o.run.Lease / 4); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if o.halted(ctx) || len(o.silent()) == 0 {
			continue
		}
		// A worker stores its result before it acknowledges the unit: what is in neither
		// stream, looked at in this order, was lost or has come home meanwhile.
		units, err := o.conn.stored(ctx, unitStream, unitSubject+o.run.ID+".*")
		results, failed := o.conn.stored(ctx, resultStream, resultSubject+o.run.ID+".*")
		if err != nil || failed != nil {
			continue
		}
		for name, w := range o.silent() {
			if !units[name] && !results[name] {
				o.send(ctx, name, w)
			}
		}
	}
}

// silent returns the units that were sent a while ago and of which no result is there.
func (o *Coordinator) silent() map[string]*waiting {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[string]*waiting{}
	for name, w := range o.waiting {
		if !w.judged && !w.onWay && time.Since(w.sent) >= o.run.Lease {
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
func (o *Coordinator) receiveAll(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(judges)
	for inner.Err() == nil {
		batch, err := o.results.Fetch(2*judges, jetstream.FetchMaxWait(o.conn.cfg.beat/4))
		if err != nil { // the server is away: the connection comes back by itself
			sleep(inner, o.conn.cfg.beat)
			continue
		}
		for msg := range batch.Messages() {
			group.Go(func() error { return o.take(inner, msg) })
		}
	}
	return group.Wait()
}

// take hands a result to the engine, and acknowledges it when that has committed it. An
// old one came while nobody coordinated the run: what stopped it then may be gone.
func (o *Coordinator) take(ctx context.Context, msg jetstream.Msg) error {
	name := keyOf(msg.Subject())
	o.mu.Lock()
	w, old, there := o.waiting[name], o.old[name], o.there[name]
	mine := w != nil && !w.judged
	if mine {
		w.judged, w.onWay = true, false
		delete(o.old, name)
		delete(o.there, name)
	}
	o.mu.Unlock()
	if !mine { // it came twice, or the engine has not handed out its unit yet
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
	case err != nil && !errors.Is(err, errDamaged): // the server is away: the result comes again
		o.change(func() { w.judged = false })
		return nil
	case err != nil || old && r.Stop != nil: // it is asked again, but not forever
		_ = msg.DoubleAck(ctx)
		if w.again++; w.again < mostDeliveries {
			o.change(func() { w.judged, w.onWay = false, true })
			o.send(ctx, name, w)
			return nil
		}
		failure := &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf("what workers sent of it could not be read %d times: %v", w.again, err)}
		err = o.queue.Deliver(ctx, w.Unit, experiment.Done{Err: failure, Started: time.Now()})
	case r.Stop != nil:
		o.change(func() { // in this and the next trials
			if !limit.Closed(o.stopping) {
				close(o.stopping)
			}
		})
		err = o.queue.GiveBack(ctx, w.Unit, r.Stop.err())
	default:
		err = o.queue.Deliver(ctx, w.Unit, r.done())
	}
	if err != nil {
		return err
	}
	_ = msg.Ack() // a lost one costs a look at it
	if large {
		_ = o.conn.big.Delete(ctx, objectName(msg.Subject()))
	}
	if int64(w.size) > o.conn.nats.MaxPayload()/2 {
		_ = o.conn.big.Delete(ctx, objectName(unitSubject+o.run.ID+"."+name))
	}
	o.change(func() {
		o.again += max(0, r.Deliveries-1)
		delete(o.waiting, name)
		o.bytes -= w.size
	})
	return nil
}

// finish ends all when every unit has come home, or was taken back after a stop.
func (o *Coordinator) finish(ctx context.Context) error {
	home := func() bool { return o.all && len(o.waiting) == 0 }
	err := o.wait(ctx, func() bool { return home() || o.halted(ctx) })
	if err == nil && o.halted(ctx) {
		err = o.takeBack(ctx, home)
	}
	if err == nil {
		o.done()
	}
	return err
}

// takeBack takes what no worker has begun off the server, waits for what is in their
// hands, and gives back the rest.
func (o *Coordinator) takeBack(ctx context.Context, home func() bool) error {
	purge := func(ctx context.Context) error { return o.conn.purge(ctx, unitStream, unitSubject+o.run.ID+".*") }
	if err := o.insist(ctx, o.conn.cfg.comesBack(), purge); err != nil {
		return away("taking back what no worker has begun", err)
	}
	for taken := time.Now(); ; {
		err := o.wait(ctx, func() bool {
			_, _, inHand, quiet := o.working()
			// Who took a unit just before has said so once a second has passed.
			return home() || o.all && inHand == 0 && quiet.After(taken.Add(2*o.conn.cfg.beat))
		})
		if err != nil {
			return err
		}
		results, err := o.conn.stored(ctx, resultStream, resultSubject+o.run.ID+".*")
		o.mu.Lock()
		maps.DeleteFunc(results, func(name string, _ bool) bool { return o.waiting[name] == nil })
		o.mu.Unlock()
		if err != nil || len(results) == 0 {
			break
		}
		sleep(ctx, o.conn.cfg.beat/10)
	}
	var left []*waiting
	o.change(func() {
		for name, w := range o.waiting {
			if !w.judged {
				left = append(left, w)
				delete(o.waiting, name)
				o.bytes -= w.size
			}
		}
	})
	for _, w := range left {
		if err := o.queue.GiveBack(ctx, w.Unit, nil); err != nil {
			return err
		}
	}
	return o.wait(ctx, home)
}
