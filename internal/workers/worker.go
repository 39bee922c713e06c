package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// WorkerConfig says what a worker does. Open is needed.
type WorkerConfig struct {
	Name        string // for people; it is in outcomes
	Concurrency int    // units at once, of all runs together; 0 means 4
	Run         string // the name or id of the only run to work for; empty is any
	Systems     []string
	// Open opens what a run measures; an error refuses the run. admit makes the admission of
	// a LimitGroup, which the coordinator of the run has.
	Open func(ctx context.Context, run Run, admit func(group string) pipeline.Admission) (Opened, error)
	// Stop, when closed, ends the work softly: what is in hand is finished.
	Stop <-chan struct{}
	Log  *slog.Logger
}

// Opened is the system of a run on a worker.
type Opened struct {
	Task  experiment.Task
	Close func() error
}

// worker works for the runs that there are.
type worker struct {
	cfg   WorkerConfig
	conn  *Conn
	slots chan struct{} // one for each unit in hand
	began time.Time
	soft  context.Context // ends when the worker is told to stop

	mu      sync.Mutex
	jobs    map[string]*job // by run
	refused map[string]string
	done    int64
}

// job is a run that a worker works for. It is the queue of its pool.
type job struct {
	*worker
	run   Run
	units jetstream.Consumer
	pulls chan struct{} // one for each request for a unit under way
	turn  chan struct{} // of the only such request while there are other runs

	wanted context.Context // ends with the run, or when the worker is told to stop
	end    context.CancelFunc

	// Under the mutex of the worker.
	inHand map[string]jetstream.Msg // by the key of the unit
	heard  time.Time                // of the coordinator
	count  int                      // of its last beat
}

// Work works for the runs on the server until Stop is closed or ctx is done; the error
// of ctx says that units were given up, which others get. Lost connections are made again.
func (c *Conn) Work(ctx context.Context, cfg WorkerConfig) error {
	cfg.Concurrency = max(1, cfg.Concurrency)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &worker{
		cfg: cfg, conn: c, slots: make(chan struct{}, cfg.Concurrency), began: time.Now(),
		jobs: map[string]*job{}, refused: map[string]string{},
	}
	var working sync.WaitGroup
	tick := time.Tick(c.cfg.beat)
	soft, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-cfg.Stop:
			stop()
		case <-soft.Done():
		}
	}()
	for w.soft = soft; soft.Err() == nil; {
		w.look(ctx, &working)
		w.announce()
		select {
		case <-tick:
		case <-soft.Done():
		}
	}
	ended := make(chan struct{})
	go func() {
		working.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			w.announce()
			return ctx.Err()
		case <-tick:
			w.announce()
		}
	}
}

// look finds the runs that have a coordinator, and begins to work for the new ones.
func (w *worker) look(outer context.Context, working *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(outer, beatEvery)
	defer cancel()
	beats, err := entries[beat](ctx, w.conn, beatOf)
	if err != nil {
		return // the server is away
	}
	w.mu.Lock()
	maps.DeleteFunc(w.refused, func(id, _ string) bool { return beats[id] == beat{} })
	for id, j := range w.jobs {
		if b, there := beats[id]; there && b.Count != j.count {
			j.count, j.heard = b.Count, time.Now()
		} else if !there {
			j.end()
		}
	}
	maps.DeleteFunc(beats, func(id string, _ beat) bool { return w.jobs[id] != nil || w.refused[id] != "" })
	w.mu.Unlock()
	for id := range beats {
		var run Run
		entry, err := w.conn.runs.Get(ctx, announcementOf+id)
		if err != nil || decode(entry.Value(), &run) != nil || run.ID != id || run.Timeout <= 0 || run.Lease <= 0 ||
			w.cfg.Run != "" && w.cfg.Run != run.Name && w.cfg.Run != id {
			continue
		}
		j, err := w.join(ctx, run)
		w.mu.Lock()
		switch {
		case err != nil:
			w.refuse(run, err)
		case j != nil:
			w.jobs[id] = j
			working.Go(func() { w.carryOut(outer, j) })
		}
		w.mu.Unlock()
	}
}

// refuse notes why the worker does not work for a run. The mutex is held.
func (w *worker) refuse(run Run, why error) {
	w.refused[run.ID] = why.Error()
	w.cfg.Log.Warn("does not work for a run", "run", run.Name, "reason", why.Error())
}

// join asks the coordinator and opens the system. An error refuses the run; neither
// says that nobody answered.
func (w *worker) join(ctx context.Context, run Run) (*job, error) {
	question, err := json.Marshal(hello{w.cfg.Name, protocol, w.conn.cfg.Version, time.Now()})
	if err != nil {
		return nil, err
	}
	reply, err := w.conn.nats.RequestWithContext(ctx, helloSubject+run.ID, question)
	var said welcome
	if err != nil || decode(reply.Data, &said) != nil {
		return nil, nil
	}
	if said.Refused != "" {
		return nil, errors.New(said.Refused)
	}
	units, err := w.conn.js.Consumer(ctx, unitStream, run.ID)
	if err != nil {
		return nil, nil
	}
	j := &job{worker: w, run: run, units: units, inHand: map[string]jetstream.Msg{}, heard: time.Now()}
	j.pulls, j.turn = make(chan struct{}, mostPulls), make(chan struct{}, 1)
	j.wanted, j.end = context.WithCancel(w.soft)
	return j, nil
}

// carryOut works for a run until it is over.
func (w *worker) carryOut(ctx context.Context, j *job) {
	defer j.end()
	leave := func(refused error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.jobs, j.run.ID)
		if refused != nil {
			w.refuse(j.run, refused)
		}
	}
	exchange := func(ctx context.Context, request []byte) ([]byte, error) { // with the coordinator
		reply, err := w.conn.nats.RequestWithContext(ctx, permitSubject+j.run.ID, request)
		if err != nil {
			return nil, err
		}
		return reply.Data, nil
	}
	var permits []*Permits
	opened, err := w.cfg.Open(ctx, j.run, func(group string) pipeline.Admission {
		permits = append(permits, NewPermits(exchange, group, w.cfg.Name))
		return permits[len(permits)-1]
	})
	defer func() {
		for _, p := range permits {
			p.Close()
		}
	}()
	if err != nil {
		leave(err)
		return
	}
	w.cfg.Log.Info("works for a run", "run", j.run.Name, "dataset", j.run.Dataset)
	pool := experiment.Pool{Task: opened.Task, Concurrency: w.cfg.Concurrency, Timeout: j.run.Timeout, Now: time.Now}
	inner, done := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { j.extend(inner) })
	err = pool.Work(ctx, j)
	j.end()
	done()
	beside.Wait()
	if opened.Close != nil {
		err = errors.Join(err, opened.Close())
	}
	w.tidy(j.run.ID)
	w.cfg.Log.Info("has ended working for a run", "run", j.run.Name, "error", err)
	leave(nil)
}

// tidy removes results that came when the run was complete: second ones, of units that were
// handed out again.
func (w *worker) tidy(run string) {
	ctx, cancel := context.WithTimeout(context.Background(), w.conn.cfg.lost())
	defer cancel()
	if _, err := w.conn.runs.Get(ctx, announcementOf+run); errors.Is(err, jetstream.ErrKeyNotFound) {
		_ = w.conn.purge(ctx, resultStream, resultSubject+run+".*") // what stays goes after two weeks
	}
}

// announce says who is there and what is in hand.
func (w *worker) announce() {
	host, _ := os.Hostname()
	w.mu.Lock()
	p := Presence{
		ID: w.conn.id, Name: w.cfg.Name, Host: host, PID: os.Getpid(), Protocol: protocol, Version: w.conn.cfg.Version,
		Concurrency: w.cfg.Concurrency, Systems: w.cfg.Systems, InHand: map[string]int{}, Refused: maps.Clone(w.refused),
		Done: w.done, PerSecond: float64(w.done) / max(1, time.Since(w.began).Seconds()), Clock: time.Now(),
	}
	for id, j := range w.jobs {
		p.InHand[id] = len(j.inHand)
	}
	w.mu.Unlock()
	if data, err := json.Marshal(p); err == nil {
		_ = w.conn.nats.Publish(workerSubject+w.conn.id, data) // the next second says it again
	}
}

// alone reports whether the coordinator has said nothing for a while.
func (j *job) alone() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.heard) > j.conn.cfg.lost()
}

// Take takes a unit off the server, when there is a free slot for it, until the run is over
// or the worker is to end. While the coordinator is lost it takes none.
func (j *job) Take(ctx context.Context) (*experiment.Unit, error) {
	for ctx.Err() == nil && j.wanted.Err() == nil {
		if msg := j.next(ctx); msg != nil {
			if u := j.read(ctx, msg); u != nil {
				return u, nil
			}
			<-j.slots
		}
	}
	return nil, cmp.Or(ctx.Err(), io.EOF)
}

// mostPulls is how many places ask for a unit at once: those that have nothing to do ask again
// and again.
const mostPulls = 16

// next is a unit that comes within a moment, with a slot; nil says that there is none. A slot is
// held while the server is asked: a run without units holds no more than one that others need.
func (j *job) next(ctx context.Context) jetstream.Msg {
	wait, pulls := j.conn.cfg.beat, j.pulls
	j.mu.Lock()
	if len(j.jobs) > 1 {
		wait, pulls = wait/10, j.turn
	}
	j.mu.Unlock()
	select {
	case pulls <- struct{}{}:
		defer func() { <-pulls }()
	case <-j.wanted.Done():
		return nil
	}
	if j.alone() {
		sleep(ctx, wait/4)
		return nil
	}
	select {
	case j.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	case <-j.wanted.Done():
		return nil
	}
	msg, err := j.units.Next(jetstream.FetchMaxWait(wait))
	if err != nil && !errors.Is(err, nats.ErrTimeout) { // the server is away, or was emptied
		sleep(ctx, wait/4)
	}
	if msg == nil {
		<-j.slots
	}
	return msg
}

// read reads a unit; nil says that it is not to be worked on.
func (j *job) read(ctx context.Context, msg jetstream.Msg) *experiment.Unit {
	var body unit
	if _, err := receive(ctx, j.conn, msg, &body); err != nil || key(body.Trial, body.ID, body.Attempt) != keyOf(msg.Subject()) {
		_ = msg.Ack() // damaged: the coordinator asks again
		return nil
	}
	u := &experiment.Unit{Item: experiment.Item{ID: body.ID, Input: body.Input, Metadata: body.Metadata, Trial: body.Trial, Attempt: body.Attempt}}
	j.mu.Lock()
	held := j.inHand[keyOf(msg.Subject())]
	if held == nil {
		j.inHand[keyOf(msg.Subject())] = msg
	}
	j.mu.Unlock()
	if held != nil { // its lease ran out while the connection was lost: what comes of it ends this delivery too
		return nil
	}
	if deliveries(msg) <= mostDeliveries {
		return u
	}
	failure := &outcome.Failure{Class: outcome.Provider, Message: fmt.Sprintf("%d workers ended, or said nothing for %s, while they worked on it", mostDeliveries, j.run.Lease)}
	_ = j.deliver(ctx, u, resultOf(experiment.Done{Err: failure, Started: time.Now(), Worker: j.cfg.Name}))
	return nil
}

func deliveries(msg jetstream.Msg) int {
	if data, err := msg.Metadata(); err == nil {
		return int(min(data.NumDelivered, 1<<20))
	}
	return 1
}

// extend keeps the server from handing what is in hand to another worker, until what came of
// it is stored. What is lost of that may cost a second try, and harms nothing.
func (j *job) extend(ctx context.Context) {
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

// held is a unit in hand as it came.
func (j *job) held(u *experiment.Unit) jetstream.Msg {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inHand[key(u.Trial, u.ID, u.Attempt)]
}

// Deliver stores what came of a unit, however long the server is away, and acknowledges
// the unit.
func (j *job) Deliver(ctx context.Context, u *experiment.Unit, done experiment.Done) error {
	defer func() { <-j.slots }()
	done.Worker = j.cfg.Name
	return j.deliver(ctx, u, resultOf(done))
}

// GiveBack says that no unit can be tried, or puts the unit back.
func (j *job) GiveBack(ctx context.Context, u *experiment.Unit, cause error) error {
	defer func() { <-j.slots }()
	if cause != nil {
		return j.deliver(ctx, u, result{Worker: j.cfg.Name, Stop: newRefusal(cause)})
	}
	j.release(j.held(u), jetstream.Msg.Nak)
	return nil
}

func (j *job) deliver(ctx context.Context, u *experiment.Unit, r result) error {
	msg := j.held(u)
	r.Deliveries = deliveries(msg)
	subject := resultSubject + j.run.ID + "." + keyOf(msg.Subject())
	for {
		err := j.conn.publish(ctx, subject, r)
		if errors.Is(err, errLarge) {
			failure := outcome.FailureOf(fmt.Errorf("its result: %w", err), outcome.InvalidOutput)
			if r.Output == nil {
				r.Calls, r.Warnings = nil, nil
			}
			r.Output, r.Failure = nil, &failure
			continue
		}
		if err == nil || errors.Is(err, errThere) {
			break
		}
		j.cfg.Log.Warn("a result waits for the NATS server", "run", j.run.Name, "item", u.ID, "reason", err.Error())
		if sleep(ctx, j.conn.cfg.beat); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	j.release(msg, func(msg jetstream.Msg) error {
		ctx, cancel := context.WithTimeout(ctx, j.conn.cfg.lost())
		defer cancel()
		return msg.DoubleAck(ctx)
	})
	return nil
}

// release ends a unit on the server. Where that fails, it is handed out again, which costs
// a try and harms nothing.
func (j *job) release(msg jetstream.Msg, how func(jetstream.Msg) error) {
	_ = how(msg)
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inHand, keyOf(msg.Subject()))
	j.done++
}
