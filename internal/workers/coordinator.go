package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// Bounds of what a coordinator has on the server at once.
const (
	mostUnits = 4096
	mostBytes = 64 << 20
	// publishers and judges are how many units are published, and results judged, at once.
	publishers, judges = 8, 64
	// mostPresence bounds what a worker says of itself.
	mostPresence = 64 << 10
)

// Coordinator hands the units of one run to workers and takes what came of them. It is
// experiment.Workers: Work is called once for each trial, one after the other. Close it.
type Coordinator struct {
	conn     *Conn
	run      Run
	results  jetstream.Consumer
	subs     []*nats.Subscription
	permits  *PermitServer // nil without limits
	beating  sync.WaitGroup
	end      context.CancelFunc
	taken    chan struct{} // closed when another coordinator has taken the run
	stopping chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something of the following changes
	present map[string]seen
	again   int  // deliveries of a unit beyond its first
	cut     bool // work was cut short

	// The Work under way.
	queue   experiment.Queue
	done    func()          // ends what goes on beside
	there   map[string]bool // units that a coordinator before this one has published, until they are home
	old     map[string]bool // those of them whose results were there when it began
	waiting map[string]*waiting
	bytes   int
	all     bool // the engine has no more units
}

// seen is a worker and when it was heard of.
type seen struct {
	Presence
	at time.Time
}

// Coordinate takes the run: it announces it, and takes the results that came while nobody
// coordinated it. admit makes the admission of a LimitGroup, for a PermitServer; nil has
// none. A run that another process coordinates is refused with exit code 64; one whose
// coordinator died is taken over after five seconds. What the server refuses has exit code
// 69. Work and the end of ctx do not end it, Close does.
func (c *Conn) Coordinate(ctx context.Context, run Run, admit func(group string) pipeline.Admission) (*Coordinator, error) {
	if !valid(run.ID) {
		return nil, fmt.Errorf("workers: the id %q of a run cannot stand in a subject", run.ID)
	}
	run.Protocol, run.Version, run.Lease = protocol, c.cfg.Version, c.cfg.Lease
	o := &Coordinator{
		conn: c, run: run, taken: make(chan struct{}), stopping: make(chan struct{}), changed: make(chan struct{}),
		present: map[string]seen{},
	}
	revision, err := o.reserve(ctx)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUnavailable, err)
	}
	// What a coordinator that died had in hand would otherwise be held back for it.
	if err = c.removeConsumer(ctx, resultStream, run.ID); err == nil {
		err = o.prepare(ctx)
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
	listen(workerSubject+"*", func(msg *nats.Msg) { o.meet(msg.Data) })
	listen(helloSubject+run.ID, func(msg *nats.Msg) {
		var h hello
		if decode(msg.Data, &h) == nil {
			answer, _ := json.Marshal(h.answer(run.Version, time.Now())) // a string
			_ = msg.Respond(answer)
		}
	})
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.end = cancel
	if admit != nil {
		o.permits = NewPermitServer(ctx, admit)
		listen(permitSubject+run.ID, func(msg *nats.Msg) {
			go func() { _ = msg.Respond(o.permits.Answer(inner, msg.Data)) }() // it waits until there is a permit
		})
	}
	o.beating.Go(func() { o.beat(inner, revision) })
	if err != nil {
		return nil, cli.WithCode(cli.ExitUnavailable, errors.Join(err, o.Close()))
	}
	return o, nil
}

// reserve takes the run's beat, at once where there is none, and where nobody has
// beaten for a while.
func (o *Coordinator) reserve(ctx context.Context) (revision uint64, err error) {
	name, value := beatOf+o.run.ID, o.value(0)
	for began, old := time.Now(), uint64(0); ; {
		revision, err = o.conn.runs.Create(ctx, name, value)
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return revision, err
		}
		entry, err := o.conn.runs.Get(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			continue
		case err != nil:
			return 0, err
		case old != 0 && entry.Revision() != old:
			var other beat
			_ = decode(entry.Value(), &other)
			return 0, cli.Usage("the run %q is coordinated by another process (%s): wait for its end, or stop it and resume the run", o.run.Name, other.Coordinator)
		case time.Since(began) >= o.conn.cfg.lost():
			revision, err = o.conn.runs.Update(ctx, name, value, old)
			if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // else it has given a sign just now
				return revision, err
			}
		}
		if old == 0 {
			o.conn.cfg.Note(fmt.Sprintf("the run has a coordinator already: looking for %s whether it is alive", o.conn.cfg.lost()))
		}
		old = entry.Revision()
		if sleep(ctx, o.conn.cfg.beat*3/2); ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func (o *Coordinator) value(count int) []byte {
	value, _ := json.Marshal(beat{o.conn.id, count}) // strings and a number
	return value
}

// prepare announces the run and makes its consumers; it may be called again.
func (o *Coordinator) prepare(ctx context.Context) error {
	announcement, err := json.Marshal(o.run)
	if err != nil {
		return err
	}
	if _, err = o.conn.runs.Put(ctx, announcementOf+o.run.ID, announcement); err != nil {
		return err
	}
	consumer := func(stream, subject string) (jetstream.Consumer, error) {
		return o.conn.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: o.run.ID, FilterSubject: subject + o.run.ID + ".*", AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: o.run.Lease, MaxAckPending: -1, MaxWaiting: 1 << 16,
		})
	}
	if _, err = consumer(unitStream, unitSubject); err != nil {
		return err
	}
	results, err := consumer(resultStream, resultSubject) // one that comes twice is told from the first
	if o.results == nil {                                 // by Coordinate; it goes by its name
		o.results = results
	}
	return err
}

// beat says once a second that the run is coordinated. A server that was emptied is told
// everything again.
func (o *Coordinator) beat(ctx context.Context, revision uint64) {
	tick := time.Tick(o.conn.cfg.beat)
	for count := 1; ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if count%30 == 5 {
			o.missWorkers()
		}
		next, err := o.conn.runs.Update(ctx, beatOf+o.run.ID, o.value(count), revision)
		if err == nil {
			revision = next
			continue
		}
		entry, failed := o.conn.runs.Get(ctx, beatOf+o.run.ID)
		switch {
		case failed == nil && strings.Contains(string(entry.Value()), o.conn.id): // ours, of which the answer was lost
			revision = entry.Revision()
		case failed == nil:
			close(o.taken)
			return
		case errors.Is(failed, jetstream.ErrKeyNotFound), errors.Is(failed, jetstream.ErrBucketNotFound), errors.Is(failed, nats.ErrNoResponders), errors.Is(failed, jetstream.ErrStreamNotFound):
			if o.conn.prepare(ctx) == nil && o.prepare(ctx) == nil {
				revision, _ = o.conn.runs.Create(ctx, beatOf+o.run.ID, o.value(count))
			}
		}
	}
}

// meet notes a worker's sign of life.
func (o *Coordinator) meet(raw []byte) {
	var p Presence
	if len(raw) > mostPresence || decode(raw, &p) != nil || p.Concurrency < 0 || p.Concurrency > 1<<20 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.present) < 1<<14 {
		o.present[p.ID] = seen{p, time.Now()}
	}
	maps.DeleteFunc(o.present, func(_ string, s seen) bool { return time.Since(s.at) > time.Minute })
}

// working returns what the workers of the run can do and have in hand. quiet is the time
// since which all of them have been heard of. The mutex is held.
func (o *Coordinator) working() (workers, capacity, inHand int, quiet time.Time) {
	quiet = time.Now()
	for _, s := range o.present {
		units, works := s.InHand[o.run.ID]
		if !works || time.Since(s.at) > o.conn.cfg.lost() {
			continue
		}
		workers, capacity, inHand = workers+1, capacity+s.Concurrency, inHand+units
		if s.at.Before(quiet) {
			quiet = s.at
		}
	}
	return workers, capacity, inHand, quiet
}

// missWorkers says where no worker is there.
func (o *Coordinator) missWorkers() {
	o.mu.Lock()
	workers, _, _, _ := o.working()
	o.mu.Unlock()
	if workers == 0 {
		start := "experiment worker " + o.conn.cfg.Address + " --model MODEL, or --pipeline"
		o.conn.cfg.Note(o.State() + "; start one with: " + start)
	}
}

// State says in words who works, for a person.
func (o *Coordinator) State() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	workers, _, inHand, _ := o.working()
	text := fmt.Sprintf("%s, %d in hand", textutil.Counted(workers, "worker"), inHand)
	if workers == 0 {
		text = "no worker is there"
		for _, s := range o.present {
			if why := s.Refused[o.run.ID]; why != "" && time.Since(s.at) <= o.conn.cfg.lost() {
				text += ": " + why
				break
			}
		}
	}
	if o.again > 0 {
		text += fmt.Sprintf(", %d handed out again", o.again)
	}
	return text
}

// Close ends the coordination and takes what is the run's off the server: where that fails,
// with exit code 69. After a Work that was cut short, results stay there for who resumes the run.
func (o *Coordinator) Close() error {
	o.end()
	if o.permits != nil {
		defer o.permits.Close()
	}
	if o.again > 0 { // nothing works on it any more
		o.conn.cfg.Note(textutil.Counted(o.again, "unit") +
			" handed out again, to another worker: what they cost before is not in the summary")
	}
	o.beating.Wait()
	var problems []error
	for _, sub := range o.subs {
		problems = append(problems, sub.Unsubscribe())
	}
	if limit.Closed(o.taken) { // it is another's now
		return errors.Join(problems...)
	}
	patience := o.conn.cfg.comesBack()
	if o.cut {
		patience = 0
	}
	if err := o.insist(context.Background(), patience, o.remove); err != nil {
		problems = append(problems, fmt.Errorf("taking the run off the NATS server: %w; it goes by itself after two weeks", err))
	}
	return cli.WithCode(cli.ExitUnavailable, errors.Join(problems...))
}

// insist tries once at least what a server that is away refuses. One that others take the
// place of may leave a request without an answer.
func (o *Coordinator) insist(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	for began := time.Now(); ; sleep(ctx, o.conn.cfg.beat) {
		once, cancel := context.WithTimeout(ctx, o.conn.cfg.lost())
		err := try(once)
		cancel()
		if err == nil || ctx.Err() != nil || time.Since(began) >= patience {
			return err
		}
	}
}

// remove takes what is the run's off the server; it may be called again.
func (o *Coordinator) remove(ctx context.Context) error {
	problems := []error{o.conn.purge(ctx, runStream, runSubject+beatOf+o.run.ID)}
	if o.cut { // the announcement stays: workers keep their results
		return errors.Join(append(problems, o.conn.purge(ctx, unitStream, unitSubject+o.run.ID+".*"))...)
	}
	problems = append(problems, o.conn.purge(ctx, runStream, runSubject+announcementOf+o.run.ID))
	for stream, subject := range map[string]string{unitStream: unitSubject, resultStream: resultSubject} {
		problems = append(problems, o.conn.purge(ctx, stream, subject+o.run.ID+".*"), o.conn.removeConsumer(ctx, stream, o.run.ID))
	}
	objects, err := o.conn.big.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		problems = append(problems, err)
	}
	for _, object := range objects {
		if strings.Contains(object.Name, "."+o.run.ID+".") {
			problems = append(problems, o.conn.big.Delete(ctx, object.Name))
		}
	}
	return errors.Join(problems...)
}

// removeConsumer removes a consumer, if it is there.
func (c *Conn) removeConsumer(ctx context.Context, stream, name string) error {
	if err := c.js.DeleteConsumer(ctx, stream, name); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	return nil
}

// purge removes what a stream has under a subject.
func (c *Conn) purge(ctx context.Context, stream, subject string) error {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
