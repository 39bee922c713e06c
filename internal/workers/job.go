package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// job is the work for one run. It is the experiment.Queue of its pool.
type job struct {
	*worker
	run        Run
	units      jetstream.Consumer
	pullSlots  chan struct{} // one for each pull request in flight
	sharedPull chan struct{} // one slot, used instead of pullSlots while the worker has other runs

	takeCtx    context.Context // ends with the run, or when the worker is told to stop
	stopTaking context.CancelFunc
	stopLogged sync.Once // one line for all units in hand

	// Guarded by the mutex of the worker.
	inHand    map[string]jetstream.Msg // by unit key
	permits   []*Permits
	beatCount int           // the number of the coordinator's last heartbeat
	silence   time.Duration // since it arrived, not counting the time that the server was away
}

// coordinatorLost reports whether the coordinator has not sent a heartbeat for a while.
func (j *job) coordinatorLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.silence > j.conn.cfg.lostAfter()
}

// exchange sends a request for a permit to the coordinator. While the server is away, it fails: NATS
// would keep each try and send all of them when nobody waits for their answers.
func (j *job) exchange(ctx context.Context, request []byte) ([]byte, error) {
	if !j.conn.nats.IsConnected() {
		return nil, nats.ErrDisconnected
	}
	reply, err := j.conn.nats.RequestWithContext(ctx, permitSubject+j.run.ID, request)
	if err != nil {
		return nil, err
	}
	return reply.Data, nil
}

// Take waits for a free slot and takes a unit from the server, until the run ends or the worker
// is told to stop. It takes none while the coordinator is lost.
func (j *job) Take(ctx context.Context) (*experiment.Unit, error) {
	for ctx.Err() == nil && j.takeCtx.Err() == nil {
		if msg := j.fetch(ctx); msg != nil {
			if u := j.decodeUnit(ctx, msg); u != nil {
				return u, nil
			}
			<-j.slots
		}
	}
	return nil, cmp.Or(ctx.Err(), io.EOF)
}

// maxPulls bounds the pull requests in flight. Idle slots repeat theirs all the time.
const maxPulls = 16

// fetch returns the next unit that arrives within a moment, with a slot taken; nil if none did.
// It holds a slot during the request: a run without units keeps at most one slot from others.
func (j *job) fetch(ctx context.Context) jetstream.Msg {
	wait, pulls := j.conn.cfg.beatInterval, j.pullSlots
	j.mu.Lock()
	if len(j.jobs) > 1 {
		wait, pulls = wait/10, j.sharedPull
	}
	j.mu.Unlock()
	select {
	case pulls <- struct{}{}:
		defer func() { <-pulls }()
	case <-j.takeCtx.Done():
		return nil
	}
	if j.coordinatorLost() {
		sleep(ctx, wait/4)
		return nil
	}
	select {
	case j.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	case <-j.takeCtx.Done():
		return nil
	}
	msg, err := j.units.Next(jetstream.FetchMaxWait(wait))
	if err != nil && !errors.Is(err, nats.ErrTimeout) { // the server is away, or has lost its data
		sleep(ctx, wait/4)
	}
	if msg == nil {
		<-j.slots
	}
	return msg
}

// decodeUnit reads a unit; nil means that the worker must not work on it.
func (j *job) decodeUnit(ctx context.Context, msg jetstream.Msg) *experiment.Unit {
	u := new(experiment.Unit)
	if _, err := receive(ctx, j.conn, msg, &u.Item); err != nil || key(u.Trial, u.ID, u.Attempt) != keyOf(msg.Subject()) {
		_ = msg.Ack() // damaged, or not all here: it is published again after a lease
		return nil
	}
	j.mu.Lock()
	held := j.inHand[keyOf(msg.Subject())]
	if held == nil {
		j.inHand[keyOf(msg.Subject())] = msg
	}
	j.mu.Unlock()
	if held != nil { // the first delivery's result ends this one too
		j.cfg.Log.Info("has an item in hand that is handed out again: its lease ended while the connection was lost", "item", u.ID)
		return nil
	}
	if deliveries(msg) <= maxDeliveries {
		return u
	}
	failure := &outcome.Failure{Class: outcome.Provider, Message: fmt.Sprintf("%d workers ended, or said nothing for %s, while they worked on it", maxDeliveries, j.run.Lease)}
	_ = j.deliver(ctx, u, resultOf(experiment.Done{Err: failure, Started: time.Now(), Worker: j.cfg.Name}))
	return nil
}

func deliveries(msg jetstream.Msg) int {
	if data, err := msg.Metadata(); err == nil {
		return int(min(data.NumDelivered, 1<<20))
	}
	return 1
}

// extendLeases extends the leases of all units in hand, until ctx is done. A lost extension
// costs at most a second try of the unit.
func (j *job) extendLeases(ctx context.Context) {
	for ticker := time.Tick(j.run.Lease / 3); ; {
		select {
		case <-ticker:
		case <-ctx.Done():
			return
		}
		j.mu.Lock()
		for _, msg := range j.inHand {
			_ = msg.InProgress()
		}
		j.mu.Unlock()
	}
}

// message returns the message of a unit in hand.
func (j *job) message(u *experiment.Unit) jetstream.Msg {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inHand[key(u.Trial, u.ID, u.Attempt)]
}

// Deliver stores the result of a unit, retrying while the server is away, and acknowledges the
// unit.
func (j *job) Deliver(ctx context.Context, u *experiment.Unit, done experiment.Done) error {
	defer func() { <-j.slots }()
	done.Worker = j.cfg.Name
	return j.deliver(ctx, u, resultOf(done))
}

// GiveBack stores the cause why the unit was not tried.
func (j *job) GiveBack(ctx context.Context, u *experiment.Unit, cause error) error {
	defer func() { <-j.slots }()
	if !errors.Is(cause, limit.ErrStopped) {
		j.stopLogged.Do(func() { j.cfg.Log.Error("stops a run", "run", j.run.Name, "reason", cause.Error()) })
	}
	return j.deliver(ctx, u, result{Done: experiment.Done{Worker: j.cfg.Name}, Stop: newRefusal(cause)})
}

func (j *job) deliver(ctx context.Context, u *experiment.Unit, r result) error {
	msg := j.message(u)
	r.Deliveries = deliveries(msg)
	subject := resultSubject + j.run.ID + "." + keyOf(msg.Subject())
	for {
		err := j.conn.publish(ctx, subject, r)
		if errors.Is(err, errUnsendable) {
			failure := outcome.FailureOf(fmt.Errorf("its result: %w", err), outcome.InvalidOutput)
			if r.Output == nil {
				r.Calls, r.Warnings = nil, nil
			}
			r.Output, r.Failure = nil, &failure
			continue
		}
		if err == nil || errors.Is(err, errExists) {
			break
		}
		j.cfg.Log.Warn("a result waits for the NATS server", "run", j.run.Name, "item", u.ID, "reason", err.Error())
		if sleep(ctx, j.conn.cfg.beatInterval); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	// If this fails, the server hands the unit out again, which costs a second try.
	once, cancel := context.WithTimeout(ctx, j.conn.cfg.lostAfter())
	defer cancel()
	_ = msg.DoubleAck(once)
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inHand, keyOf(msg.Subject()))
	j.done++
	return nil
}
