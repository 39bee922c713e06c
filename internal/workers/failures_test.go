package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/testkit/natsserver"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// fakeQueue is an experiment.Queue of a number of units. It calls deliver and giveBack.
type fakeQueue struct {
	mu       sync.Mutex
	left     int    // units that were not taken yet
	input    string // of each unit, in JSON; a short text if it is empty
	deliver  func(*experiment.Unit, experiment.Done)
	giveBack func(cause error) // may be nil
}

func (q *fakeQueue) Take(context.Context) (*experiment.Unit, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left == 0 {
		return nil, io.EOF
	}
	q.left--
	return &experiment.Unit{Item: experiment.Item{ID: fmt.Sprint("item-", q.left), Input: json.RawMessage(cmp.Or(q.input, `"text"`)), Trial: 1, Attempt: 1}}, nil
}

func (q *fakeQueue) Deliver(_ context.Context, u *experiment.Unit, done experiment.Done) error {
	q.deliver(u, done)
	return nil
}

func (q *fakeQueue) GiveBack(_ context.Context, _ *experiment.Unit, cause error) error {
	if q.giveBack != nil {
		q.giveBack(cause)
	}
	return nil
}

// newServerFixture starts a server for tests of a Coordinator, without the files of a run.
func newServerFixture(t testing.TB, lease time.Duration) *fixture {
	return &fixture{TB: t, server: natsserver.Start(t), lease: lease, trials: 1}
}

// coordinate returns the Coordinator of a run with the id 0123.
func (f *fixture) coordinate() *Coordinator {
	f.Helper()
	return f.coordinateOn(f.connect("1"))
}

// coordinateOn is coordinate on a connection.
func (f *fixture) coordinateOn(conn *Conn) *Coordinator {
	f.Helper()
	c, err := conn.Coordinate(f.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c
}

// pretendWorker lets o see a worker that is there for an hour, with this many units in hand.
func pretendWorker(o *Coordinator, inHand int) {
	p := Presence{ID: "w", Concurrency: 1, InHand: map[string]int{o.run.ID: inHand}}
	o.update(func() { o.workers[p.ID] = workerState{p, time.Now().Add(time.Hour)} })
}

// TestWork_judgedLate checks that units whose results wait for the coordinator are not published
// again, even if the connection is lost meanwhile.
func TestWork_judgedLate(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 400*time.Millisecond)
	var working sync.WaitGroup
	stop := make(chan struct{})
	for _, name := range []string{"a", "b"} {
		conn := f.connect("1")
		working.Go(func() {
			_ = conn.Work(t.Context(), WorkerConfig{Name: name, Concurrency: 60, Stop: stop, Open: func(context.Context, Run, func(string) pipeline.Admission) (Opened, error) {
				return Opened{Task: lengthTask(nil)}, nil
			}})
		})
	}
	o, judge, delivered, ended := f.coordinate(), make(chan struct{}), atomic.Int64{}, make(chan error, 1)
	go func() {
		ended <- o.Work(t.Context(), &fakeQueue{left: 200, deliver: func(*experiment.Unit, experiment.Done) { <-judge; delivered.Add(1) }})
	}()
	waitFor(t, "200 results", func() bool {
		units, failed := o.conn.storedKeys(t.Context(), unitStream, unitSubject+"0123.*")
		results, err := o.conn.storedKeys(t.Context(), resultStream, resultSubject+"0123.*")
		return failed == nil && err == nil && len(units) == 0 && len(results) == 200
	})
	close(stop)
	working.Wait()
	f.server.Restart(false)
	waitFor(t, "connection", func() bool { return o.conn.nats.Stats().Reconnects > 0 })
	time.Sleep(3 * f.lease) // long enough for units to be published again
	if units, err := o.conn.storedKeys(t.Context(), unitStream, unitSubject+"0123.*"); err != nil || len(units) > 0 {
		t.Errorf("%d units were asked again, %v", len(units), err)
	}
	close(judge)
	if err := <-ended; err != nil || delivered.Load() != 200 {
		t.Errorf("%d of 200 delivered, %v", delivered.Load(), err)
	}
}

// TestWork_comesAgain checks that a unit whose lease expires while the connection is lost is
// delivered again to the worker that has it in hand, which does not call its task again.
func TestWork_comesAgain(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 400*time.Millisecond)
	var calls atomic.Int64
	finish, ended := make(chan struct{}), make(chan error, 1)
	again := logWatch{text: "in hand that is handed out again"}
	f.log = slog.New(slog.NewTextHandler(&again, nil))
	f.startWorker("a", func(context.Context, experiment.Item) error {
		calls.Add(1)
		<-finish
		return nil
	})
	o := f.coordinate()
	go func() {
		ended <- o.Work(t.Context(), &fakeQueue{left: 1, deliver: func(*experiment.Unit, experiment.Done) {}})
	}()
	waitFor(t, "call", func() bool { return calls.Load() > 0 })
	for !again.found.Load() { // the worker may extend its lease before the server finds that it is over
		f.server.Stop()
		time.Sleep(2 * f.lease)
		f.server.Restart(false)
		for began := time.Now(); !again.found.Load() && time.Since(began) < 10*f.lease; {
			time.Sleep(f.lease / 40)
		}
	}
	close(finish)
	if err := <-ended; err != nil || calls.Load() != 1 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

// logWatch notices a text in a log.
type logWatch struct {
	text  string
	found atomic.Bool
}

func (w *logWatch) Write(line []byte) (int, error) {
	if strings.Contains(string(line), w.text) {
		w.found.Store(true)
	}
	return len(line), nil
}

// TestWork_serverAway checks that Work waits for a server that is away when Work begins.
func TestWork_serverAway(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	f.startWorker("a", nil)
	o, delivered, ended := f.coordinate(), atomic.Int64{}, make(chan error, 1)
	f.server.Stop()
	go func() {
		ended <- o.Work(t.Context(), &fakeQueue{left: 3, deliver: func(*experiment.Unit, experiment.Done) { delivered.Add(1) }})
	}()
	time.Sleep(2 * o.conn.cfg.beatInterval)
	f.server.Restart(false)
	if err := <-ended; err != nil || delivered.Load() != 3 {
		t.Errorf("%d of 3 delivered, %v", delivered.Load(), err)
	}
}

// TestWork_stoppedAway checks that a run that is stopped while the server is away gets its unit
// back if the server returns, and otherwise ends with the exit code of a run that can be resumed.
func TestWork_stoppedAway(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]bool{"comes back": true, "stays away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newServerFixture(t, 2*time.Second)
			conn, stop, ended := f.connect("1"), make(chan struct{}), make(chan error, 1)
			conn.cfg.beatInterval = beatInterval / 10 // the patience is 20 beats
			if comesBack {
				conn.cfg.beatInterval = beatInterval / 2 // so that there are 7 s for the restart
			}
			o := f.coordinateOn(conn)
			pretendWorker(o, 0)
			givenBack := make(chan error, 1)
			go func() {
				ended <- o.Work(limit.WithStop(t.Context(), stop), &fakeQueue{left: 1, giveBack: func(cause error) { givenBack <- cause }})
			}()
			waitFor(t, "the unit on the server", func() bool {
				units, err := o.conn.storedKeys(t.Context(), unitStream, unitSubject+"0123.*")
				return err == nil && len(units) == 1
			})
			f.server.Stop()
			close(stop)
			if comesBack {
				time.Sleep(6 * conn.cfg.beatInterval) // one try takes 5, and the patience is 20
				f.server.Restart(true)
				if err := <-ended; err != nil || len(givenBack) != 1 {
					t.Errorf("%d units given back, %v", len(givenBack), err)
				}
				return
			}
			if err := <-ended; !errors.Is(err, experiment.ErrInterrupted) || cli.ExitCode(err) != cli.ExitInterrupted {
				t.Errorf("exit code %d: %v", cli.ExitCode(err), err)
			}
			if err := o.Close(); cli.ExitCode(err) != cli.ExitUnavailable {
				t.Errorf("closing: exit code %d: %v", cli.ExitCode(err), err)
			}
		})
	}
}

// TestWork_damaged checks that a worker whose results cannot be used fails the item, but not the
// run.
func TestWork_damaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*nats.Msg){
		"no JSON":   func(m *nats.Msg) { m.Data = []byte(`{"worker":`) },
		"no object": func(m *nats.Msg) { m.Header.Set(largeHeader, "../x") },
		"no stop":   func(m *nats.Msg) { m.Data = []byte(`{"stop":{"Stopped":true}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newServerFixture(t, 300*time.Millisecond)
			o, evil := f.coordinate(), f.connect("1")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				units, err := evil.js.Consumer(ctx, unitStream, "0123")
				for ; err == nil && ctx.Err() == nil; sleep(ctx, 10*time.Millisecond) {
					_ = evil.nats.Publish(workerSubject+"evil", []byte(`{"id":"evil","concurrency":1,"in_hand":{"0123":0}}`))
					msg, err := units.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
					if err != nil {
						continue
					}
					m := nats.NewMsg(resultSubject + "0123." + keyOf(msg.Subject()))
					damage(m)
					_, _ = evil.js.PublishMsg(ctx, m)
					_ = msg.Ack()
				}
			}()
			defer func() { cancel(); <-ended }()
			var got error
			err := o.Work(t.Context(), &fakeQueue{left: 1, deliver: func(_ *experiment.Unit, done experiment.Done) { got = done.Err }})
			var failure *outcome.Failure
			if err != nil || !errors.As(got, &failure) || failure.Class != outcome.Internal ||
				!strings.Contains(failure.Message, "could not be used 3 times") || strings.Contains(failure.Message, "nil") {
				t.Errorf("%v, %v", err, got)
			}
		})
	}
}

// hookedQueue is a fakeQueue that calls hook before it returns a unit.
type hookedQueue struct {
	*fakeQueue
	hook func()
}

func (q hookedQueue) Take(ctx context.Context) (*experiment.Unit, error) {
	u, err := q.fakeQueue.Take(ctx)
	if err == nil {
		q.hook()
	}
	return u, err
}

// TestWork_finishedMeanwhile checks that a resumed run does not publish a unit again that a worker
// finishes after the coordinator has listed the units on the server.
func TestWork_finishedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	o, worker := f.coordinate(), f.connect("1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	name := key(1, "item-0", 1)
	must(o.conn.publish(t.Context(), unitSubject+"0123."+name, experiment.Item{ID: "item-0", Trial: 1, Attempt: 1, Input: json.RawMessage(`"text"`)}))
	units, err := worker.js.Consumer(t.Context(), unitStream, "0123")
	must(err)
	msg, err := units.Next()
	must(err)
	pretendWorker(o, 1)
	delivered := 0
	q := hookedQueue{&fakeQueue{left: 1, deliver: func(*experiment.Unit, experiment.Done) { delivered++ }}, func() {
		must(worker.publish(t.Context(), resultSubject+"0123."+name, result{Done: experiment.Done{Worker: "w", Started: time.Now()}}))
		must(msg.DoubleAck(t.Context()))
	}}
	must(o.Work(t.Context(), q))
	stream, err := worker.js.Stream(t.Context(), unitStream)
	must(err)
	if last := stream.CachedInfo().State.LastSeq; delivered != 1 || last != 1 {
		t.Errorf("%d results, and the unit was published %d times", delivered, last)
	}
}

// TestWork_stoppedBefore checks that the report of a stop that the server has kept from an earlier
// run of the coordinator does not stop the resumed run.
func TestWork_stoppedBefore(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	before := f.connect("1")
	if err := before.publish(t.Context(), resultSubject+"0123."+key(1, "item-0", 1), result{Stop: &refusal{Text: "used up", Code: 5}}); err != nil {
		t.Fatal(err)
	}
	f.startWorker("a", nil)
	var delivered int
	err := f.coordinate().Work(t.Context(), &fakeQueue{
		left: 1, deliver: func(*experiment.Unit, experiment.Done) { delivered++ },
		giveBack: func(cause error) { t.Errorf("given back: %v", cause) },
	})
	if err != nil || delivered != 1 {
		t.Errorf("%d delivered, %v", delivered, err)
	}
}

// TestWork_givenBack checks that a unit that a worker gave back because it took the coordinator for
// dead is handed out again.
func TestWork_givenBack(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 400*time.Millisecond)
	var calls, delivered atomic.Int64
	f.startWorker("a", func(context.Context, experiment.Item) error {
		if calls.Add(1) == 1 {
			return limit.ErrStopped
		}
		return nil
	})
	err := f.coordinate().Work(t.Context(), &fakeQueue{
		left: 1, deliver: func(*experiment.Unit, experiment.Done) { delivered.Add(1) },
		giveBack: func(cause error) { t.Errorf("given back: %v", cause) },
	})
	if err != nil || delivered.Load() != 1 {
		t.Errorf("%d delivered, %v", delivered.Load(), err)
	}
}

// TestWork_suspended checks that a coordinator that was suspended after a stop hears its workers before it
// gives back what they hold.
func TestWork_suspended(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	o, stop, ended := f.coordinate(), make(chan struct{}), make(chan error, 1)
	report := func(inHand int) {
		p := Presence{ID: "w", Concurrency: 1, InHand: map[string]int{o.run.ID: inHand}}
		o.update(func() { o.workers[p.ID] = workerState{p, time.Now()} })
	}
	report(1)
	var released, givenBack atomic.Bool
	go func() {
		ended <- o.Work(limit.WithStop(t.Context(), stop), &fakeQueue{left: 1, giveBack: func(error) { givenBack.Store(released.Load()) }})
	}()
	onServer := func(n int) func() bool {
		return func() bool {
			units, err := o.conn.storedKeys(t.Context(), unitStream, unitSubject+o.run.ID+".*")
			return err == nil && len(units) == n
		}
	}
	waitFor(t, "the unit on the server", onServer(1))
	close(stop)
	waitFor(t, "withdrawal", onServer(0))
	o.mu.Lock() // nothing is heard or decided in a suspended process
	time.Sleep(o.conn.cfg.lostAfter() + o.conn.cfg.beatInterval)
	o.mu.Unlock()
	time.Sleep(o.conn.cfg.beatInterval / 4) // until the next report, which has 350 ms to come
	report(1)
	time.Sleep(2 * o.conn.cfg.beatInterval)
	released.Store(true)
	report(0)
	if err := <-ended; err != nil || !givenBack.Load() {
		t.Errorf("%v, given back after the worker had released it: %t", err, givenBack.Load())
	}
}

// TestCoordinator_redelivered checks that the texts speak of deliveries, of which a unit may have
// several, and of a server that is away.
func TestCoordinator_redelivered(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	var notes []string
	conn, err := Connect(t.Context(), Config{
		Address: f.server.URL(), Note: func(text string) { notes = append(notes, text) }, beatInterval: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o, err := conn.Coordinate(t.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	notes, o.redelivered = nil, 5
	if text := o.State(); text != "no worker is there, units handed out again 5 times" {
		t.Errorf("the progress says %q", text)
	}
	for i := range 20 { // of several reasons always the same one, without what could control a terminal
		presence, err := json.Marshal(Presence{ID: fmt.Sprint(i), Refused: map[string]string{"0123": fmt.Sprintf("reason %02d\x1b[2J", i)}})
		if err != nil {
			t.Fatal(err)
		}
		o.recordPresence(presence)
	}
	const refused = `no worker is there: reason 00\x1b[2J, units handed out again 5 times`
	for range 5 {
		if text := o.State(); text != refused {
			t.Errorf("the progress says %q", text)
		}
	}
	f.server.Stop()
	waitFor(t, "the server's absence", func() bool { return o.State() == "the NATS server is away, units handed out again 5 times" })
	if o.warnIfNoWorker(); len(notes) != 1 || notes[0] != "the NATS server is away: the run waits for it" {
		t.Errorf("the notes are %q", notes)
	}
	f.server.Restart(true) // nothing of the run is left that Close would have to remove
	waitFor(t, "the server's return", func() bool { return strings.HasPrefix(o.State(), "no worker is there") })
	notes = nil
	const want = "units were handed out again 5 times: what their earlier tries cost is not in the summary"
	if err := o.Close(); err != nil || len(notes) != 1 || notes[0] != want {
		t.Errorf("the notes are %q, %v", notes, err)
	}
}

// TestWork_resultUnsendable checks that a result that cannot be sent fails its item.
func TestWork_resultUnsendable(t *testing.T) {
	t.Parallel()
	call := outcome.Call{Name: "length", Kind: "span"}
	results := map[string]experiment.TaskResult{
		"invalid character":     {Output: json.RawMessage("no JSON"), Calls: []outcome.Call{call}},
		"year outside of range": {Output: json.RawMessage("1"), Calls: []outcome.Call{{Started: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
	}
	if suite.Full() {
		results["more than 67108864 bytes"] = experiment.TaskResult{Output: json.RawMessage(`"` + strings.Repeat("x", maxPayload) + `"`), Calls: []outcome.Call{call}}
	}
	for want, result := range results {
		f := newServerFixture(t, 5*time.Second)
		f.startTask("a", fixedTask(result))
		var got experiment.Done
		err := f.coordinate().Work(t.Context(), &fakeQueue{left: 1, deliver: func(_ *experiment.Unit, done experiment.Done) { got = done }})
		if err != nil || got.Err == nil || !strings.Contains(got.Err.Error(), "invalid_output: its result: it cannot be sent: ") ||
			!strings.Contains(got.Err.Error(), want) || len(got.Calls) == 1 != (result.Calls[0].Name == call.Name) {
			t.Errorf("%s: %v, %v, %d calls", want, err, got.Err, len(got.Calls))
		}
	}
}

// farBucket is the bucket of runs on a server that is far away: reading the entries of many abandoned
// runs takes longer than a heartbeat.
type farBucket struct{ jetstream.KeyValue }

func (b farBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if end, limited := ctx.Deadline(); limited && time.Until(end) <= beatInterval {
		return nil, context.DeadlineExceeded
	}
	return b.KeyValue.Get(ctx, key)
}

// TestWork_leftovers checks that a worker finds a run beside those that were abandoned, and those
// that it cannot read.
func TestWork_leftovers(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	conn, o := f.connect("1"), f.coordinate()
	for key, value := range map[string]string{
		beatPrefix + "abandoned": `{"count":3}`, beatPrefix + "damaged": "[]", announcementPrefix + "damaged": "[]",
	} {
		if _, err := conn.runs.PutString(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	conn.runs = farBucket{conn.runs}
	stop, _ := f.startOn(conn, "a", func(func(string) pipeline.Admission) experiment.Task { return lengthTask(nil) })
	defer stop()
	delivered := 0
	err := o.Work(t.Context(), &fakeQueue{left: 1, deliver: func(*experiment.Unit, experiment.Done) { delivered++ }})
	if err != nil || delivered != 1 {
		t.Errorf("%d delivered, %v", delivered, err)
	}
	if runs, err := o.conn.Runs(t.Context()); err != nil || runs["0123"].Name != "r" {
		t.Errorf("%v, %v", runs, err)
	}
}

// limits is a pipeline.Admission. It grants every permit, or none.
type limits struct{ open bool }

func (a limits) Admit(ctx context.Context, _ pipeline.Estimate) (pipeline.Permit, error) {
	if !a.open {
		<-ctx.Done()
	}
	return a, ctx.Err()
}

func (limits) Done(context.Context, pipeline.RequestResult) error { return nil }
func (limits) State() limit.State                                 { return limit.State{} }

// askingTask is a task that sends one request.
type askingTask struct{ pipeline.Admission }

func (a askingTask) Do(ctx context.Context, _ experiment.Item) (experiment.TaskResult, error) {
	permit, err := a.Admit(ctx, pipeline.Estimate{})
	if err == nil {
		err = permit.Done(ctx, pipeline.RequestResult{})
	}
	return experiment.TaskResult{Output: json.RawMessage("1")}, err
}

// TestWork_coordinatorKilled checks that units that wait for a permit of a killed coordinator keep a
// worker neither from other runs nor from its end, and that the resumed run gets them again.
func TestWork_coordinatorKilled(t *testing.T) {
	t.Parallel()
	for next, stopped := range map[string]bool{"other": false, "killed": true} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			f := newServerFixture(t, 2*time.Second)
			connect := func(beat time.Duration) *Conn {
				conn := f.connect("1")
				conn.cfg.beatInterval = beat
				return conn
			}
			start := func(name string) (stop func()) {
				open := func(admit func(string) pipeline.Admission) experiment.Task { return askingTask{admit("g")} }
				stop, _ = f.startOn(connect(10*time.Millisecond), name, open)
				return stop
			}
			coordinate := func(id string, admission limits) *Coordinator {
				run, admit := Run{ID: id, Name: id, Timeout: time.Minute}, func(string) pipeline.Admission { return admission }
				o, err := connect(40*time.Millisecond).Coordinate(t.Context(), run, admit)
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			stop, killed, ended := start("a"), coordinate("killed", limits{}), make(chan error, 1)
			ctx, kill := context.WithCancel(t.Context())
			go func() { ended <- killed.Work(ctx, &fakeQueue{left: 4}) }()
			waitFor(t, "4 units in hand", func() bool { return killed.State() == "1 worker, 4 in hand" })
			kill()
			<-ended
			killed.cancel()
			killed.conn.Close()
			if stopped {
				stop()
				stop = start("b")
			}
			var done atomic.Int64
			o := coordinate(next, limits{open: true})
			err := o.Work(t.Context(), &fakeQueue{left: 4, deliver: func(_ *experiment.Unit, d experiment.Done) {
				if d.Err == nil {
					done.Add(1)
				}
			}})
			if err != nil || done.Load() != 4 {
				t.Errorf("%d of 4 done, %v", done.Load(), err)
			}
			_ = o.Close()
			stop()
		})
	}
}

// TestWork_permitsRestarted restarts the server while units wait for permits, and checks that every
// unit gets one and that none is lost.
func TestWork_permitsRestarted(t *testing.T) {
	suite.Slow(t, "it waits for connections and leases")
	t.Parallel()
	f := newServerFixture(t, 2*time.Second)
	for _, name := range []string{"a", "b"} {
		f.startOn(f.connect("1"), name, func(admit func(string) pipeline.Admission) experiment.Task { return askingTask{admit("g")} })
	}
	limiter := limit.New(limit.Config{MaxConcurrent: 8, Start: 8, RequestsPerMinute: 1200})
	run, admit := Run{ID: "0123", Name: "r", Timeout: time.Minute}, func(string) pipeline.Admission { return pipeline.NewAdmission(limiter, nil) }
	o, err := f.connect("1").Coordinate(t.Context(), run, admit)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- o.Work(t.Context(), &fakeQueue{left: 100, deliver: func(_ *experiment.Unit, d experiment.Done) {
			if d.Err == nil {
				done.Add(1)
			}
		}})
	}()
	for _, n := range []int64{20, 60} {
		waitFor(t, "units", func() bool { return done.Load() >= n })
		f.server.Restart(false)
	}
	if err := <-ended; err != nil || done.Load() != 100 {
		t.Errorf("%d of 100 done, %v", done.Load(), err)
	}
	waitFor(t, "reports of the last permits", func() bool { return limiter.State().UnderWay == 0 })
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// TestWork_escapes checks that an answer arrives as it was: escaped for web pages, it would differ
// from that of one machine, and a text of many < would be six times as long.
func TestWork_escapes(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, 5*time.Second)
	const text = `"<b> & é"`
	f.startTask("a", fixedTask{Output: json.RawMessage(text)})
	var got experiment.Done
	deliver := func(_ *experiment.Unit, done experiment.Done) { got = done }
	err := f.coordinate().Work(t.Context(), &fakeQueue{left: 1, deliver: deliver})
	if err != nil || string(got.Output) != text {
		t.Errorf("%s, %v", got.Output, err)
	}
}

// fixedTask is a task with always the same result.
type fixedTask experiment.TaskResult

func (f fixedTask) Do(context.Context, experiment.Item) (experiment.TaskResult, error) {
	return experiment.TaskResult(f), nil
}

// refusingConsumer is a consumer of a server that refuses every request for messages.
type refusingConsumer struct {
	jetstream.Consumer
	requests int
	stop     func()
}

func (c *refusingConsumer) Fetch(int, ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	if c.requests++; c.requests == 100 {
		c.stop()
	}
	return refusedBatch{}, nil
}

type refusedBatch struct{}

func (refusedBatch) Messages() <-chan jetstream.Msg {
	none := make(chan jetstream.Msg)
	close(none)
	return none
}

func (refusedBatch) Error() error { return nats.ErrNoResponders }

// TestCoordinator_refused checks that results are requested once in a heartbeat, and not without a
// pause, while the server refuses that.
func TestCoordinator_refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		results := &refusingConsumer{stop: cancel}
		o := trial{Coordinator: &Coordinator{conn: &Conn{cfg: Config{beatInterval: time.Second}}, results: results}}
		if err := o.receiveResults(ctx); err != nil || results.requests != 10 {
			t.Errorf("%d requests in 9.5 s, %v", results.requests, err)
		}
	})
}

// failingQueue cannot write the outcome of an item whose expected output cannot be read.
type failingQueue struct{ fakeQueue }

func (*failingQueue) Take(context.Context) (*experiment.Unit, error) {
	return nil, errors.New("disk full")
}

// TestTrial_takeFails checks that nothing counts as complete after an error of the engine, so that Work returns it.
func TestTrial_takeFails(t *testing.T) {
	c := &Coordinator{conn: &Conn{cfg: Config{beatInterval: time.Second}}, changed: make(chan struct{})}
	work := &trial{Coordinator: c, queue: &failingQueue{}, earlyResults: map[string]bool{"waiting": true}}
	if err := work.publishUnits(t.Context()); err == nil || work.drained {
		t.Errorf("%v, complete: %t", err, work.drained)
	}
}

// TestResult_toDone checks that a failure of an unknown class becomes one of the provider.
func TestResult_toDone(t *testing.T) {
	for class, want := range map[outcome.Class]outcome.Class{"": outcome.Provider, "odd": outcome.Provider, outcome.Timeout: outcome.Timeout} {
		var failure *outcome.Failure
		if err := (result{Failure: &outcome.Failure{Class: class, Message: "m"}}).toDone().Err; !errors.As(err, &failure) || failure.Class != want || failure.Message != "m" {
			t.Errorf("%q: %v", class, err)
		}
	}
}

// TestPermitServer_forgets checks that permits that ended are forgotten after leaseTime, also while
// an older one is held, and that they are remembered until then.
func TestPermitServer_forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{MaxConcurrent: 4, Start: 4})
		s := NewPermitServer(t.Context(), func(string) pipeline.Admission { return pipeline.NewAdmission(limiter, nil) })
		defer s.Close()
		permits := NewPermits(func(ctx context.Context, raw []byte) ([]byte, error) { return s.Answer(ctx, raw), nil }, "m", "w")
		defer permits.Close()
		held, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		remembered := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.groups["m"].workers[permits.worker].permits)
		}
		for range 100 {
			p, err := permits.Admit(t.Context(), pipeline.Estimate{})
			if err != nil || p.Done(t.Context(), pipeline.RequestResult{}) != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until the end is reported
		}
		if n := remembered(); n != 101 {
			t.Errorf("%d permits are remembered", n)
		}
		time.Sleep(leaseTime + time.Minute) // calls begin some time apart
		if n := remembered(); n != 1 || limiter.State().UnderWay != 1 {
			t.Errorf("after the lease: %d permits, %+v", n, limiter.State())
		}
		if err := held.Done(t.Context(), pipeline.RequestResult{}); err != nil {
			t.Error(err)
		}
	})
}

// TestPermitServer_backAgain checks that a dropped worker that comes back is not dropped by the
// timer of the first one, which a request may have set again just before.
func TestPermitServer_backAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPermitServer(t.Context(), func(string) pipeline.Admission { return limits{} })
		g := s.group("m")
		sign := func() *permitWorker {
			if _, err := g.answer(t.Context(), permitRequest{Worker: "a"}); err != nil {
				t.Error(err)
			}
			return g.workers["a"]
		}
		sign()
		g.mu.Lock()
		g.drop("a")
		g.mu.Unlock()
		second := sign()
		for began := time.Now(); time.Since(began) < 2*leaseTime; time.Sleep(time.Second) {
			sign()
		}
		if sign() != second {
			t.Error("the worker was forgotten while it was there")
		}
		s.Close()
	})
}

// TestPermitServer_lateTimer checks that a permit that ends is remembered for leaseTime also if its
// timer for a silent worker ran out at that moment.
func TestPermitServer_lateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{})
		s := NewPermitServer(t.Context(), func(string) pipeline.Admission { return pipeline.NewAdmission(limiter, nil) })
		defer s.Close()
		g := s.group("m")
		ask := func() bool {
			reply, err := g.answer(t.Context(), permitRequest{Worker: "w", ID: 1, Estimate: &pipeline.Estimate{}})
			if err != nil {
				t.Error(err)
			}
			return reply.Granted
		}
		if !ask() {
			t.Fatal("not granted")
		}
		g.mu.Lock()
		time.Sleep(longPoll + grantGrace) // the timer waits for the mutex
		g.end(g.workers["w"], 1, pipeline.RequestResult{})
		g.mu.Unlock()
		synctest.Wait()
		if ask() || limiter.State().UnderWay != 0 {
			t.Errorf("a late request got the permit again: %+v", limiter.State())
		}
	})
}

// slowPermit is an Admission whose first permit takes a second to return.
type slowPermit struct {
	limits
	first *sync.Once
}

func (s slowPermit) Admit(context.Context, pipeline.Estimate) (pipeline.Permit, error) { return s, nil }

func (s slowPermit) Done(context.Context, pipeline.RequestResult) error {
	s.first.Do(func() { time.Sleep(time.Second) })
	return nil
}

// TestPermitServer_closedAtTheLease checks that Close may drop a worker whose lease ends meanwhile.
func TestPermitServer_closedAtTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPermitServer(t.Context(), func(string) pipeline.Admission { return slowPermit{first: new(sync.Once)} })
		for _, name := range []string{"a", "b"} {
			if _, err := s.group("m").answer(t.Context(), permitRequest{Worker: name, ID: 1, Estimate: &pipeline.Estimate{}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(leaseTime - time.Second)
		s.Close() // drops one worker; a second later, the timer of the other one waits for the mutex
		synctest.Wait()
	})
}

// TestJob_exchange checks that a request for a permit is not kept for the time when the server is
// back: nobody waits for its answer then.
func TestJob_exchange(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, time.Second)
	j := &job{worker: &worker{conn: f.connect("1")}, run: Run{ID: "0123"}}
	f.server.Stop()
	waitFor(t, "the end of the connection", func() bool { return !j.conn.nats.IsConnected() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := j.exchange(ctx, []byte("{}"))
	if n, failed := j.conn.nats.Buffered(); err == nil || ctx.Err() != nil || n != 0 || failed != nil {
		t.Errorf("%d bytes are kept, %v, %v", n, err, failed)
	}
}

// lastResult is an Admission that remembers how its last permit ended.
type lastResult struct{ ended chan pipeline.RequestResult }

func (a lastResult) Admit(context.Context, pipeline.Estimate) (pipeline.Permit, error) { return a, nil }
func (a lastResult) State() limit.State                                                { return limit.State{} }
func (a lastResult) Done(_ context.Context, e pipeline.RequestResult) error {
	a.ended <- e
	return nil
}

// TestPermitServer_suspended checks that a coordinator that was suspended does not take its workers for
// dead when it continues, but later if they stay silent.
func TestPermitServer_suspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := lastResult{make(chan pipeline.RequestResult, 1)}
		server := NewPermitServer(t.Context(), func(string) pipeline.Admission { return admission })
		defer server.Close()
		ask := func(req permitRequest) {
			req.Worker = "w"
			raw, err := json.Marshal(req)
			if err != nil || server.Answer(t.Context(), raw) == nil {
				t.Fatalf("no answer, %v", err)
			}
		}
		g := server.group("")
		suspend := func() { // as after a minute without a tick of this process
			g.mu.Lock()
			g.workers["w"].heard = time.Now().Add(-time.Minute)
			g.mu.Unlock()
			time.Sleep(leaseTime)
			synctest.Wait()
		}
		ask(permitRequest{ID: 1, Estimate: &pipeline.Estimate{}})
		suspend()
		ask(permitRequest{ID: 1, Ended: &pipeline.RequestResult{Result: limit.Result{Tokens: 7}}})
		if e := <-admission.ended; e.Lost || e.Tokens != 7 {
			t.Errorf("of a worker that is there: %+v", e)
		}
		ask(permitRequest{ID: 2, Estimate: &pipeline.Estimate{}})
		suspend()
		time.Sleep(leaseTime)
		if e := <-admission.ended; !e.Lost {
			t.Errorf("of a worker that is not there: %+v", e)
		}
	})
}
