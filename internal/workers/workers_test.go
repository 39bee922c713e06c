package workers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/testkit/natsserver"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/runstore"
)

// TestMain creates temporary folders in memory, and allows at least 16 parallel tests: they mostly wait.
func TestMain(m *testing.M) {
	suite.InMemory()
	if err := suite.SetParallel(16); err != nil {
		panic(err)
	}
	m.Run()
}

// lengthTask is an experiment.Task whose output is the length of the input text. The function, if
// not nil, gives the error.
type lengthTask func(ctx context.Context, item experiment.Item) error

func (f lengthTask) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	var text string
	err := json.Unmarshal(item.Input, &text)
	if err == nil && f != nil {
		err = f(ctx, item)
	}
	call := outcome.Call{Name: "length", Kind: "span", Started: time.Now().UTC(), Ended: time.Now().UTC()}
	return experiment.TaskResult{Output: fmt.Append(nil, len(text)), Calls: []outcome.Call{call}, Warnings: []string{"counted"}}, err
}

// exactScorer is an experiment.Scorer and ItemScorer: the score is 1 if the output equals the expected
// output, else 0.
type exactScorer struct{ expected string }

func (exactScorer) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	return exactScorer{string(item.Expected)}, nil
}

func (e exactScorer) Score(output json.RawMessage) (experiment.Scored, error) {
	hit := 0.0
	if string(output) == e.expected {
		hit = 1
	}
	return experiment.Scored{Scores: []outcome.Score{{Name: "correct", Value: &hit}}}, nil
}

func (exactScorer) Undelivered() []outcome.Score { return []outcome.Score{{Name: "correct"}} }

// fixture is a NATS server with the files of a run.
type fixture struct {
	testing.TB
	server      *natsserver.Server
	address     string // of the servers to connect to; empty means server
	lease       time.Duration
	datasetPath string
	runPath     string
	trials      int
	log         *slog.Logger // of the workers; may be nil
}

// newFixture starts a server and writes a dataset with that number of items.
func newFixture(t *testing.T, items int) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{TB: t, server: natsserver.Start(t), lease: 2 * time.Second, datasetPath: filepath.Join(dir, "items.jsonl"), runPath: filepath.Join(dir, "r.run"), trials: 1}
	var lines strings.Builder
	for i := range items {
		fmt.Fprintf(&lines, `{"id":"item-%05d","input":"%s","expected_output":%d,"metadata":{"n":%d}}`+"\n", i, strings.Repeat("x", i%50), i%50, i)
	}
	if err := os.WriteFile(f.datasetPath, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// connect connects a program of that version to the server.
func (f *fixture) connect(version string) *Conn {
	f.Helper()
	c, err := Connect(f.Context(), Config{Address: cmp.Or(f.address, f.server.URL()), Version: version, Lease: f.lease, beatInterval: 200 * time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// startWorker starts a worker that works on up to 4 units at once. stop ends it after the units in
// hand, kill at once; both wait for its end.
func (f *fixture) startWorker(name string, do lengthTask) (stop, kill func(), conn *Conn) {
	f.Helper()
	return f.startTask(name, do)
}

func (f *fixture) startTask(name string, do experiment.Task) (stop, kill func(), conn *Conn) {
	f.Helper()
	conn = f.connect("1")
	stop, kill = f.startOn(conn, name, func(func(string) pipeline.Admission) experiment.Task { return do })
	return stop, kill, conn
}

// startOn starts a worker on a connection. open gets the admissions of a run.
func (f *fixture) startOn(
	conn *Conn, name string, open func(admit func(string) pipeline.Admission) experiment.Task,
) (stop, kill func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Work(ctx, WorkerConfig{
			Name: name, Concurrency: 4, Systems: []string{"length"}, Stop: stopping, Log: f.log,
			Open: func(_ context.Context, _ Run, admit func(string) pipeline.Admission) (Opened, error) {
				return Opened{Task: open(admit)}, nil
			},
		})
	}()
	var once sync.Once
	kill = func() {
		cancel()
		conn.Close()
		<-ended
	}
	f.Cleanup(kill)
	return func() {
		once.Do(func() { close(stopping) })
		<-ended
	}, kill
}

// run calls experiment.Run with a Coordinator. It calls coordinated, if not nil, with the
// Coordinator before the first unit. If ctx is done, the Coordinator is not closed, as if its
// process had been killed.
func (f *fixture) run(ctx context.Context, resume bool, stop <-chan struct{}, coordinated func(*Coordinator)) (experiment.Result, error) {
	f.Helper()
	var opened *Coordinator
	conn := f.connect("1")
	return experiment.Run(ctx, experiment.Config{
		Header:  outcome.Header{Name: "r", Trials: f.trials, Scorer: outcome.Scorer{Version: "1", Primary: "correct"}},
		Dataset: f.datasetPath, Path: f.runPath, Resume: resume, Stop: stop, Timeout: time.Minute,
		Open: func(context.Context, bool) (experiment.System, error) {
			return experiment.System{Task: lengthTask(nil), Scorer: exactScorer{}, Workers: func(ctx context.Context, h outcome.Header) (experiment.Workers, error) {
				var err error
				opened, err = conn.Coordinate(ctx, Run{ID: h.RunUID, Name: h.Name, Dataset: h.Dataset.Name, Timeout: time.Minute}, nil)
				if err == nil && coordinated != nil {
					coordinated(opened)
				}
				return opened, err
			}, Close: func() error {
				if opened == nil || ctx.Err() != nil { // killed
					return nil
				}
				return opened.Close()
			}}, nil
		},
	})
}

// checkOutcomes checks that the run file has one outcome for each item and trial, and returns the
// number of outcomes by worker.
func (f *fixture) checkOutcomes(items int) map[string]int {
	f.Helper()
	run, err := runstore.Load(f.runPath)
	if err != nil {
		f.Fatal(err)
	}
	defer run.Close()
	by, seen := map[string]int{}, map[string]bool{}
	for o, err := range run.Outcomes(f.Context(), runstore.Query{Depth: runstore.Full}) {
		if err != nil {
			f.Fatal(err)
		}
		id := fmt.Sprint(o.Trial, o.Item, o.Attempt)
		if seen[id] {
			f.Errorf("%s is there twice", id)
		}
		seen[id] = true
		by[o.Worker]++
	}
	if len(seen) != items*f.trials {
		f.Errorf("%d outcomes, not %d", len(seen), items*f.trials)
	}
	return by
}

// checkEmpty checks that the server has no messages, consumers and runs left. It waits up to a
// minute for the end of messages and consumers.
func (f *fixture) checkEmpty() {
	f.Helper()
	c := f.connect("1")
	for _, name := range []string{unitStream, resultStream} {
		s, err := c.js.Stream(f.Context(), name)
		if err != nil {
			f.Fatal(err)
		}
		info, err := s.Info(f.Context())
		// A worker that repeated a unit removes the second result when it leaves the run, and
		// the servers of a cluster do not remove a consumer at the same time.
		for began := time.Now(); err == nil && info.State.Msgs+uint64(info.State.Consumers) != 0 && time.Since(began) < time.Minute; info, err = s.Info(f.Context()) {
			sleep(f.Context(), 50*time.Millisecond)
		}
		if err != nil || info.State.Msgs != 0 || info.State.Consumers != 0 {
			f.Errorf("%s has %d messages and %d consumers left (%v)", name, info.State.Msgs, info.State.Consumers, err)
		}
	}
	if runs, err := c.Runs(f.Context()); err != nil || len(runs) != 0 {
		f.Errorf("runs left: %v, %v", runs, err)
	}
}

// TestWork checks that two workers carry out both trials of a run, that the run file has all
// outcomes, and that nothing is left on the server.
func TestWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	f.trials = 2
	slow := lengthTask(func(context.Context, experiment.Item) error { time.Sleep(time.Millisecond); return nil })
	f.startWorker("a", slow)
	f.startWorker("b", slow)
	result, err := f.run(t.Context(), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if correct, _ := result.Summary.Scores.Lookup("correct"); correct.Mean == nil || *correct.Mean != 1 {
		t.Errorf("the mean is %v", correct.Mean)
	}
	by := f.checkOutcomes(200)
	if by["a"] == 0 || by["b"] == 0 || by["a"]+by["b"] != 400 {
		t.Errorf("units by worker: %v", by)
	}
	f.checkEmpty()
}

// TestWork_failures checks that a failure of the task fails the item with the same class, that an
// error that stops the run keeps its exit code, and that the resumed run does the rest.
func TestWork_failures(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 40)
	var stopped atomic.Bool
	var log bytes.Buffer
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	stop, _, _ := f.startWorker("a", func(_ context.Context, item experiment.Item) error {
		switch {
		case item.ID == "item-00003":
			return &outcome.Failure{Class: outcome.RateLimited, Message: "too many"}
		case item.ID == "item-00020" && !stopped.Swap(true):
			return &refusedError{refusal{Text: "the key is wrong", Code: 5}}
		}
		return nil
	})
	result, err := f.run(t.Context(), false, nil, nil)
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 5 || !strings.Contains(err.Error(), "worker a: the key is wrong") {
		t.Fatalf("got %v", err)
	}
	if result.Summary.Items.Scored == 40 {
		t.Error("nothing was left to do")
	}
	result, err = f.run(t.Context(), true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(40)
	if len(result.Summary.Failures) != 1 || result.Summary.Failures[0].Class != outcome.RateLimited {
		t.Errorf("failures: %+v", result.Summary.Failures)
	}
	stop()
	if !strings.Contains(log.String(), `msg="stops a run" run=r reason="the key is wrong"`) {
		t.Errorf("the worker logs %s", log.String())
	}
	f.checkEmpty()
}

// TestWork_killed kills a worker and then the coordinator, and checks that the resumed run has one
// outcome for each item, and that at most the 4 units in the worker's hands were repeated.
func TestWork_killed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 300)
	var calls atomic.Int64
	killed := make(chan struct{})
	pace := lengthTask(func(ctx context.Context, _ experiment.Item) error {
		pause := time.After(5 * time.Millisecond)
		if calls.Add(1) > 150 { // wait, so that the run does not end before the coordinator is killed
			select {
			case <-killed:
			case <-ctx.Done():
			}
		}
		select {
		case <-pause:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	_, kill, _ := f.startWorker("a", pace)
	f.startWorker("b", pace)
	ctx, killRun := context.WithCancel(t.Context())
	first, coordinator := make(chan error, 1), make(chan *Coordinator, 1)
	go func() {
		_, err := f.run(ctx, false, nil, func(c *Coordinator) { coordinator <- c })
		first <- err
	}()
	waitFor(t, "fifty calls", func() bool { return calls.Load() > 50 })
	kill() // with at most 4 units in hand
	waitFor(t, "a hundred calls", func() bool { return calls.Load() > 100 })
	killRun()
	dead := <-coordinator
	dead.cancel() // like a killed process, it removes nothing from the server
	dead.conn.Close()
	close(killed)
	if err := <-first; !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatalf("the killed coordinator: %v", err)
	}
	if _, err := f.run(t.Context(), true, nil, nil); err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(300)
	f.checkEmpty()
	if beyond := calls.Load() - 300; beyond > 4 {
		t.Errorf("%d calls beyond the number of items, with 4 in hand at the kill", beyond)
	}
}

// TestWork_serverRestarted restarts the server during a run, the second time without its data, and
// checks that every item has one outcome.
func TestWork_serverRestarted(t *testing.T) {
	suite.Slow(t, "it waits for connections and leases")
	t.Parallel()
	f := newFixture(t, 200)
	var calls atomic.Int64
	f.startWorker("a", func(context.Context, experiment.Item) error {
		calls.Add(1)
		time.Sleep(5 * time.Millisecond)
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := f.run(context.Background(), false, nil, nil)
		ended <- err
	}()
	waitFor(t, "forty calls", func() bool { return calls.Load() > 40 })
	f.server.Restart(false)
	waitFor(t, "ninety calls", func() bool { return calls.Load() > 90 })
	f.server.Restart(true)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(200)
}

// TestWork_stopped checks that a stop withdraws the units that no worker has begun, that units in
// hand are finished and kept, and that the resumed run calls the task only for the other items.
func TestWork_stopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	var calls atomic.Int64
	stop := make(chan struct{})
	var once sync.Once
	f.startWorker("a", func(context.Context, experiment.Item) error {
		if calls.Add(1) == 20 {
			once.Do(func() { close(stop) })
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	result, err := f.run(t.Context(), false, stop, nil)
	if !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	if scored := int64(result.Summary.Items.Scored); scored != calls.Load() || scored >= 200 {
		t.Errorf("%d items have an outcome, %d were called", scored, calls.Load())
	}
	f.checkEmpty()
	if _, err := f.run(t.Context(), true, nil, nil); err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(200)
	if calls.Load() != 200 {
		t.Errorf("%d calls", calls.Load())
	}
}

// TestWork_stoppedAtEnd checks that a run is not complete if it is stopped when its last units have
// been handed out, but not begun.
func TestWork_stoppedAtEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 8) // twice what the worker takes at once
	var calls atomic.Int64
	stop, finish := make(chan struct{}), make(chan struct{})
	coordinator, ended := make(chan *Coordinator, 1), make(chan error, 1)
	f.startWorker("a", func(context.Context, experiment.Item) error {
		calls.Add(1)
		<-finish
		return nil
	})
	var result experiment.Result
	go func() {
		var err error
		result, err = f.run(t.Context(), false, stop, func(o *Coordinator) { coordinator <- o })
		ended <- err
	}()
	o := <-coordinator
	onServer := func(n int) func() bool {
		return func() bool {
			units, err := o.conn.storedKeys(t.Context(), unitStream, unitSubject+o.run.ID+".*")
			return err == nil && len(units) == n && calls.Load() == 4
		}
	}
	waitFor(t, "8 units on the server, 4 of them begun", onServer(8))
	close(stop)
	waitFor(t, "withdrawal", onServer(0))
	close(finish)
	err, summary := <-ended, &result.Summary
	if !errors.Is(err, experiment.ErrInterrupted) || summary.Status != outcome.Interrupted || summary.Items.Scored != 4 {
		t.Errorf("%v, %s, %+v", err, summary.Status, summary.Items)
	}
}

// TestWork_poison checks that a unit fails after three workers have ended while they worked on it.
func TestWork_poison(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 12)
	f.lease = time.Second
	for i := range 4 {
		var kill func()
		armed := make(chan struct{}) // closed when kill is set
		_, kill, _ = f.startWorker(fmt.Sprint("worker", i), func(ctx context.Context, item experiment.Item) error {
			if item.ID == "item-00005" {
				<-armed
				go kill()
				<-ctx.Done()
			}
			return ctx.Err()
		})
		close(armed)
	}
	result, err := f.run(t.Context(), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(12)
	failures := result.Summary.Failures
	if len(failures) != 1 || failures[0].Class != outcome.Provider || !strings.Contains(failures[0].Items[0].Message, "3 workers ended") {
		t.Errorf("failures: %+v", failures)
	}
}

// TestWork_refused checks that a run has at most one coordinator, and that workers with another
// protocol, another version or a wrong clock are refused with a message that says so.
func TestWork_refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	first, err := f.connect("1").Coordinate(t.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var notes []string
	second := f.connect("1")
	second.cfg.beatInterval = beatInterval // longer than that of first, which may be late on a busy machine
	second.cfg.Note = func(text string) { notes = append(notes, text) }
	if _, err := second.Coordinate(t.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil); err == nil ||
		!strings.Contains(err.Error(), `the run "r" is coordinated by another process`) || len(notes) != 1 {
		t.Errorf("a second coordinator: %v, %q", err, notes)
	}
	now := time.Now()
	for want, h := range map[string]hello{
		"":                       {"w", protocol, "1", now.Add(29 * time.Second)},
		"speaks protocol 99":     {"w", 99, "1", now},
		`w is version "2"`:       {"w", protocol, "2", now},
		"worker w is off by 31s": {"w", protocol, "1", now.Add(31 * time.Second)},
		"worker w is off by -1m": {"w", protocol, "1", now.Add(-time.Minute)},
	} {
		if got := h.answer("1", now).Refused; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q, not %q", h, got, want)
		}
	}
	other := f.connect("2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go other.Work(ctx, WorkerConfig{Name: "old"})
	waitFor(t, "the refusal", func() bool {
		list, err := f.connect("1").List(t.Context())
		return err == nil && len(list) == 1 && strings.Contains(list[0].Refused["0123"], `is version "2"`)
	})
	waitFor(t, "the refusal in the progress", func() bool { return strings.HasPrefix(first.State(), `no worker is there: worker old is version "2"`) })
}

// echoTask is a task whose output is the input.
type echoTask struct{}

func (echoTask) Do(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
	return experiment.TaskResult{Output: item.Input}, nil
}

// TestWork_large checks that a document and a result larger than the largest message of the server
// reach the other side, that nothing of them is left in the object store, and that Close removes what
// a coordinator that was killed has left there.
func TestWork_large(t *testing.T) {
	t.Parallel()
	f := newServerFixture(t, DefaultLease)
	f.startTask("a", echoTask{})
	o, text := f.coordinate(), `"`+strings.Repeat("x", 3<<20)+`"`
	var got experiment.Done
	err := o.Work(t.Context(), &fakeQueue{left: 1, input: text, deliver: func(_ *experiment.Unit, done experiment.Done) { got = done }})
	if err != nil || string(got.Output) != text {
		t.Errorf("%d bytes of %d, %v, %v", len(got.Output), len(text), got.Err, err)
	}
	checkObjects := func(want ...string) {
		t.Helper()
		objects, err := o.conn.big.List(t.Context())
		names := cli.Each(objects, func(object *jetstream.ObjectInfo) string { return object.Name })
		if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) || !slices.Equal(names, want) {
			t.Errorf("objects: %q, not %q, %v", names, want, err)
		}
	}
	checkObjects()
	for _, name := range []string{"unit.0123.left", "unit.4567.other"} {
		if _, err := o.conn.big.PutString(t.Context(), name, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	checkObjects("unit.4567.other")
}

// TestWorker_perSecond checks that the rate is that of the last half minute.
func TestWorker_perSecond(t *testing.T) {
	w, began := &worker{}, time.Now()
	for _, c := range []struct {
		second float64
		done   int64
		want   float64
	}{
		{0, 0, 0}, {0.5, 2, 2}, {10, 20, 2}, {30, 60, 2}, // since 0 s; within the first second, of a whole one
		{40, 60, 40. / 30}, // since 10 s
		{61, 60, 0},        // since 40 s
		{200, 60, 0}, {201, 65, 5},
	} {
		w.done = c.done
		if got := w.perSecond(began.Add(time.Duration(c.second * float64(time.Second)))); got != c.want {
			t.Errorf("after %g s: %g, want %g", c.second, got, c.want)
		}
	}
}

// TestConnect checks that errors of Connect have the right exit code, say what to do, and contain
// no secret.
func TestConnect(t *testing.T) {
	t.Parallel()
	guarded := natsserver.Start(t, func(o *server.Options) { o.Authorization = "right" })
	plain := natsserver.Start(t, func(o *server.Options) { o.JetStream = false })
	for name, c := range map[string]struct {
		cfg  Config
		code int
		want string
	}{
		"no address":     {Config{Address: "host:4222"}, 64, "not of the form nats://HOST:4222"},
		"in clear":       {Config{Address: "nats://203.0.113.1:4222"}, 64, "documents would travel in clear: write tls://203.0.113.1:4222, or add --insecure"},
		"a token in it":  {Config{Address: "nats://secret@127.0.0.1:4222"}, 64, "put the token into EXPERIMENT_WORKERS_TOKEN"},
		"no credentials": {Config{Address: "nats://127.0.0.1:4222", Credentials: "/nowhere/x.creds"}, 64, "EXPERIMENT_WORKERS_CREDENTIALS"},
		"not a file":     {Config{Address: "nats://127.0.0.1:4222", Credentials: os.DevNull}, 64, "EXPERIMENT_WORKERS_CREDENTIALS: " + os.DevNull + " is not a file"},
		"nobody there":   {Config{Address: "nats://127.0.0.1:1"}, 69, "start one with nats-server -js"},
		"wrong token":    {Config{Address: guarded.URL(), Token: "secret"}, 69, "refuses the token or credentials: check EXPERIMENT_WORKERS_TOKEN"},
		"no JetStream":   {Config{Address: plain.URL()}, 69, "has no JetStream: start it with nats-server -js"},
	} {
		_, err := Connect(t.Context(), c.cfg)
		if err == nil || cli.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %d, %v", name, cli.ExitCode(err), err)
		}
	}
	c, err := Connect(t.Context(), Config{Address: guarded.URL(), Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestResult_stopCause checks that the cause names the worker that has it, and stops the run with
// the same exit code.
func TestResult_stopCause(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"worker w: no more calls are made": &limit.TrippedError{Reason: "401", Why: "the key is wrong"},
		"worker w: gone":                   &refusedError{refusal{Text: "gone", Code: 5}},
		limit.ErrStopped.Error():           limit.ErrStopped,
		"budget":                           &pipeline.BudgetError{},
	} {
		got := result{Done: experiment.Done{Worker: "w"}, Stop: newRefusal(cause)}.stopCause()
		if !limit.StopsRun(got) || cli.ExitCode(got) != cli.ExitCode(cause) || !strings.Contains(got.Error(), want) ||
			strings.HasPrefix(got.Error(), "worker w: ") != strings.HasPrefix(want, "worker w: ") {
			t.Errorf("%q, exit code %d, want %q", got, cli.ExitCode(got), want)
		}
	}
}

// FuzzMessages checks that an untrusted message is refused as damaged or can be used: a result has no
// negative duration and a class that is known, and the cause of a stop stops the run.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","trial":1,"attempt":1,"input":"x"}`, `[1]`, "\xff", `{"failure":{"class":"timeout"}}`, `{"stop":{}}`,
		`{"worker":"w","deliveries":-1,"took_ns":-5,"failure":{"class":"x"},"stop":{"code":9,"budget":{}}}`,
		`{"stop":{"stopped":true}}`, `{"stop":{"tripped":{}}}`, `{"stop":{"tripped":null,"text":"gone","code":69}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r result
		errs := []error{decode(raw, new(experiment.Item)), decode(raw, new(Presence)), decode(raw, new(Run)), decode(raw, &r)}
		for _, err := range errs {
			if err != nil && !errors.Is(err, errDamaged) {
				t.Error(err)
			}
		}
		if errs[3] != nil {
			return
		}
		done := r.toDone()
		if failure := outcome.FailureOf(done.Err, outcome.Internal); done.Took < 0 ||
			(done.Err != nil) != (r.Failure != nil) || done.Err != nil && !slices.Contains(outcome.Classes(), failure.Class) {
			t.Errorf("it took %s: %+v", done.Took, failure)
		}
		if r.Stop != nil && (!limit.StopsRun(r.stopCause()) || cli.ExitCode(r.stopCause()) == 0) {
			t.Errorf("%v does not stop the run", r.stopCause())
		}
	})
}

// waitFor waits up to a minute until holds returns true.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no %s in a minute", what)
		}
	}
}

// TestConnect_echoedToken: the server repeats the token in its error.
func TestConnect_echoedToken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, `INFO {"server_id":"x","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, "-ERR 'no: sesame-0123456789'\r\n")
	}()
	_, err = Connect(t.Context(), Config{Address: "nats://" + listener.Addr().String(), Token: "sesame-0123456789"})
	if cli.ExitCode(err) != cli.ExitUnavailable || !strings.Contains(err.Error(), "no: ***") {
		t.Errorf("got %v", err)
	}
}
