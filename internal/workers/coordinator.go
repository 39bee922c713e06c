package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// Bounds of what a coordinator keeps on the server at once.
const (
	maxUnits     = 4096
	maxUnitBytes = 64 << 20
	// publishers is the number of units published at once, receivers that of results handled at
	// once.
	publishers, receivers = 8, 64
	// maxPresenceBytes bounds the Presence message of a worker.
	maxPresenceBytes = 64 << 10
)

// Coordinator hands the units of one run to workers and delivers their results to the engine. It
// implements experiment.Workers: the engine calls Work once for each trial, one after the other.
// Call Close at the end.
type Coordinator struct {
	conn       *Conn
	run        Run
	results    jetstream.Consumer
	subs       []*nats.Subscription
	permits    *PermitServer // nil without limits
	background sync.WaitGroup
	cancel     context.CancelFunc
	takenOver  chan struct{} // closed when another coordinator has taken over the run
	stopping   chan struct{}

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced when something changes that mu guards
	workers     map[string]workerState
	redelivered int  // deliveries of a unit beyond its first
	interrupted bool // Work ended early
}

// workerState is the last Presence of a worker and when it arrived.
type workerState struct {
	Presence
	at time.Time
}

// Coordinate announces the run to the workers, and receives the results that arrived while the
// run had no coordinator. admit makes the pipeline.Admission of a LimitGroup for the
// PermitServer; without it, the run has no limits.
//
// If another process coordinates the run, the error has exit code 64. If the last coordinator
// died, Coordinate takes over after five seconds without a heartbeat. Errors of the server have
// exit code 69. The end of Work or of ctx does not end the coordination; Close does.
func (c *Conn) Coordinate(ctx context.Context, run Run, admit func(group string) pipeline.Admission) (*Coordinator, error) {
	if !validID().MatchString(run.ID) {
		return nil, fmt.Errorf("workers: the id %q of a run cannot be part of a subject", run.ID)
	}
	run.Protocol, run.Version, run.Lease = protocol, c.cfg.Version, c.cfg.Lease
	o := &Coordinator{
		conn: c, run: run, takenOver: make(chan struct{}), stopping: make(chan struct{}), changed: make(chan struct{}),
		workers: map[string]workerState{},
	}
	revision, err := o.reserve(ctx)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUnavailable, err)
	}
	// The server would hold back results that a dead coordinator had fetched.
	if err = c.removeConsumer(ctx, resultStream, run.ID); err == nil {
		err = o.announce(ctx)
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitUnavailable, "announcing the run to the workers: %w", err)
	}
	listen := func(subject string, handle nats.MsgHandler) {
		sub, failed := c.nats.Subscribe(subject, handle)
		if err = errors.Join(err, failed); failed == nil {
			o.subs = append(o.subs, sub)
		}
	}
	listen(workerSubject+"*", func(msg *nats.Msg) { o.recordPresence(msg.Data) })
	listen(helloSubject+run.ID, func(msg *nats.Msg) {
		var h hello
		if decode(msg.Data, &h) == nil {
			answer, _ := json.Marshal(h.answer(run.Version, time.Now()))
			_ = msg.Respond(answer)
		}
	})
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	if admit != nil {
		o.permits = NewPermitServer(ctx, admit)
		listen(permitSubject+run.ID, func(msg *nats.Msg) {
			go func() { _ = msg.Respond(o.permits.Answer(inner, msg.Data)) }() // waits until a permit is granted
		})
	}
	o.background.Go(func() { o.sendBeats(inner, revision) })
	if err != nil {
		return nil, cli.WithCode(cli.ExitUnavailable, errors.Join(err, o.Close()))
	}
	return o, nil
}

// reserve creates the heartbeat entry of the run. If there is one, it takes the entry over once
// it has not changed for Config.lostAfter.
func (c *Coordinator) reserve(ctx context.Context) (revision uint64, err error) {
	name, value := beatPrefix+c.run.ID, c.beatValue(0)
	for began, old := time.Now(), uint64(0); ; {
		revision, err = c.conn.runs.Create(ctx, name, value)
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return revision, err
		}
		entry, err := c.conn.runs.Get(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			continue
		case err != nil:
			return 0, err
		case old != 0 && entry.Revision() != old:
			var other beat
			_ = decode(entry.Value(), &other)
			return 0, cli.Usage("the run %q is coordinated by another process (%s): wait for its end, or stop it and resume the run", c.run.Name, other.Coordinator)
		case time.Since(began) >= c.conn.cfg.lostAfter():
			revision, err = c.conn.runs.Update(ctx, name, value, old)
			if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // otherwise the other coordinator has just sent a heartbeat
				return revision, err
			}
		}
		if old == 0 {
			c.conn.cfg.Note(fmt.Sprintf("the run already has a coordinator: checking for %s whether it is alive",
				c.conn.cfg.lostAfter()))
		}
		old = entry.Revision()
		if sleep(ctx, c.conn.cfg.beatInterval*3/2); ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func (c *Coordinator) beatValue(count int) []byte {
	value, _ := json.Marshal(beat{c.conn.id, count}) // cannot fail
	return value
}

// announce publishes the run and creates its consumers. It is safe to repeat.
func (c *Coordinator) announce(ctx context.Context) error {
	announcement, err := json.Marshal(c.run)
	if err != nil {
		return err
	}
	if _, err = c.conn.runs.Put(ctx, announcementPrefix+c.run.ID, announcement); err != nil {
		return err
	}
	consumer := func(stream, subject string) (jetstream.Consumer, error) {
		return c.conn.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: c.run.ID, FilterSubject: subject + c.run.ID + ".*", AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: c.run.Lease, MaxAckPending: -1, MaxWaiting: 1 << 16,
		})
	}
	if _, err = consumer(unitStream, unitSubject); err != nil {
		return err
	}
	results, err := consumer(resultStream, resultSubject) // handleResult ignores duplicates
	if c.results == nil {                                 // later calls recreate the consumer under its name
		c.results = results
	}
	return err
}

// sendBeats sends a heartbeat once a second until ctx is done. If the server has lost its data, it
// announces the run again.
func (c *Coordinator) sendBeats(ctx context.Context, revision uint64) {
	tick := time.Tick(c.conn.cfg.beatInterval)
	for count := 1; ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if count%30 == 5 {
			c.warnIfNoWorker()
		}
		once, cancel := context.WithTimeout(ctx, c.conn.cfg.lostAfter()) // the server may have gone with the request
		next, err := c.conn.runs.Update(once, beatPrefix+c.run.ID, c.beatValue(count), revision)
		cancel()
		if err == nil {
			revision = next
			continue
		}
		entry, failed := c.conn.runs.Get(ctx, beatPrefix+c.run.ID)
		switch {
		case failed == nil && strings.Contains(string(entry.Value()), c.conn.id): // our own update, whose reply was lost
			revision = entry.Revision()
		case failed == nil:
			close(c.takenOver)
			return
		case errors.Is(failed, jetstream.ErrKeyNotFound), errors.Is(failed, jetstream.ErrBucketNotFound), errors.Is(failed, nats.ErrNoResponders), errors.Is(failed, jetstream.ErrStreamNotFound):
			if c.conn.prepare(ctx) == nil && c.announce(ctx) == nil {
				revision, _ = c.conn.runs.Create(ctx, beatPrefix+c.run.ID, c.beatValue(count))
			}
		}
	}
}

// recordPresence records a worker's Presence message.
func (c *Coordinator) recordPresence(raw []byte) {
	var p Presence
	if len(raw) > maxPresenceBytes || decode(raw, &p) != nil || p.Concurrency < 0 || p.Concurrency > 1<<20 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.workers) < 1<<14 {
		c.workers[p.ID] = workerState{p, time.Now()}
	}
	maps.DeleteFunc(c.workers, func(_ string, s workerState) bool { return time.Since(s.at) > time.Minute })
}

// activeWorkers returns the number of live workers of the run, the units that they can hold and
// those that they hold. quiet is the time of the oldest of their last messages. The mutex is
// held.
func (c *Coordinator) activeWorkers() (workers, capacity, inHand int, quiet time.Time) {
	quiet = time.Now()
	for _, s := range c.workers {
		units, works := s.InHand[c.run.ID]
		if !works || time.Since(s.at) > c.conn.cfg.lostAfter() {
			continue
		}
		workers, capacity, inHand = workers+1, capacity+s.Concurrency, inHand+units
		if s.at.Before(quiet) {
			quiet = s.at
		}
	}
	return workers, capacity, inHand, quiet
}

// warnIfNoWorker notes that the server is away or that the run has no worker.
func (c *Coordinator) warnIfNoWorker() {
	if !c.conn.nats.IsConnected() {
		c.conn.cfg.Note(serverAway + ": the run waits for it")
		return
	}
	c.mu.Lock()
	workers, _, _, _ := c.activeWorkers()
	c.mu.Unlock()
	if workers == 0 {
		start := "experiment worker " + c.conn.cfg.Address + " --model MODEL, or --pipeline"
		c.conn.cfg.Note(c.State() + "; start one with: " + start)
	}
}

const serverAway = "the NATS server is away"

// State describes the workers of the run for a person.
func (c *Coordinator) State() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	workers, _, inHand, _ := c.activeWorkers()
	text := fmt.Sprintf("%s, %d in hand", textutil.Counted(workers, "worker"), inHand)
	if !c.conn.nats.IsConnected() {
		text = serverAway
	} else if workers == 0 {
		text = "no worker is there"
		var reasons []string
		for _, s := range c.workers {
			if why := s.Refused[c.run.ID]; why != "" && time.Since(s.at) <= c.conn.cfg.lostAfter() {
				reasons = append(reasons, why)
			}
		}
		if len(reasons) > 0 {
			text += ": " + textutil.Line(textutil.Cut(slices.Min(reasons), 300))
		}
	}
	if c.redelivered > 0 {
		text += fmt.Sprintf(", units handed out again %s", textutil.Counted(c.redelivered, "time"))
	}
	return text
}

// Close ends the coordination and removes the run from the server; if that fails, the error has
// exit code 69. If Work ended early, results stay on the server for the process that resumes the
// run.
func (c *Coordinator) Close() error {
	c.cancel()
	if c.permits != nil {
		defer c.permits.Close()
	}
	if c.redelivered > 0 { // no worker holds a unit any more
		c.conn.cfg.Note("units were handed out again " + textutil.Counted(c.redelivered, "time") +
			": what their earlier tries cost is not in the summary")
	}
	c.background.Wait()
	var problems []error
	for _, sub := range c.subs {
		problems = append(problems, sub.Unsubscribe())
	}
	if limit.Closed(c.takenOver) { // the run belongs to the other coordinator
		return errors.Join(problems...)
	}
	patience := c.conn.cfg.maxOutage()
	if c.interrupted {
		patience = 0
	}
	if err := c.retry(context.Background(), patience, c.removeRun); err != nil {
		problems = append(problems, fmt.Errorf("removing the run from the NATS server: %w; the server removes it after two weeks", err))
	}
	return cli.WithCode(cli.ExitUnavailable, errors.Join(problems...))
}

// retry calls try until it succeeds or the server has been away for patience, at least once.
// Each call has a time limit: a server that is being replaced may leave a request unanswered.
func (c *Coordinator) retry(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	for began := time.Now(); ; sleep(ctx, c.conn.cfg.beatInterval) {
		once, cancel := context.WithTimeout(ctx, c.conn.cfg.lostAfter())
		err := try(once)
		cancel()
		if err == nil || ctx.Err() != nil || time.Since(began) >= patience {
			return err
		}
	}
}

// removeRun removes the run's data from the server. A server that was emptied has none. It is safe
// to repeat.
func (c *Coordinator) removeRun(ctx context.Context) error {
	problems := []error{c.conn.purge(ctx, runStream, runSubject+beatPrefix+c.run.ID)}
	if c.interrupted { // keep the announcement, so that workers keep their results
		return errors.Join(append(problems, c.conn.purge(ctx, unitStream, unitSubject+c.run.ID+".*"))...)
	}
	problems = append(problems, c.conn.purge(ctx, runStream, runSubject+announcementPrefix+c.run.ID))
	for stream, subject := range map[string]string{unitStream: unitSubject, resultStream: resultSubject} {
		problems = append(problems, c.conn.purge(ctx, stream, subject+c.run.ID+".*"), c.conn.removeConsumer(ctx, stream, c.run.ID))
	}
	objects, err := c.conn.big.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) && !errors.Is(err, nats.ErrStreamNotFound) {
		problems = append(problems, err)
	}
	for _, object := range objects {
		if strings.Contains(object.Name, "."+c.run.ID+".") {
			problems = append(problems, c.conn.big.Delete(ctx, object.Name))
		}
	}
	return errors.Join(problems...)
}

// removeConsumer removes a consumer if it exists.
func (c *Conn) removeConsumer(ctx context.Context, stream, name string) error {
	err := c.js.DeleteConsumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// purge removes the messages of a stream under a subject, if the stream exists.
func (c *Conn) purge(ctx context.Context, stream, subject string) error {
	s, err := c.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
