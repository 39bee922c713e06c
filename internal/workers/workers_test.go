package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/natsserver"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/runstore"
)

// TestMain has temporary folders in memory.
func TestMain(m *testing.M) {
	suite.InMemory()
	if err := suite.SetParallel(8); err != nil {
		panic(err)
	}
	m.Run()
}

// task answers an item with the length of its text, as do says.
type task func(ctx context.Context, item experiment.Item) error

func (f task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	var text string
	err := json.Unmarshal(item.Input, &text)
	if err == nil && f != nil {
		err = f(ctx, item)
	}
	call := outcome.Call{Name: "length", Kind: "span", Started: time.Now().UTC(), Ended: time.Now().UTC()}
	return experiment.TaskResult{Output: fmt.Append(nil, len(text)), Calls: []outcome.Call{call}, Warnings: []string{"counted"}}, err
}

// exact scores 1 where the output is what is expected.
type exact struct{ expected string }

func (exact) Judge(item dataset.Item) (experiment.Judge, error) {
	return exact{string(item.Expected)}, nil
}

func (e exact) Score(output json.RawMessage) (experiment.Scored, error) {
	hit := 0.0
	if string(output) == e.expected {
		hit = 1
	}
	return experiment.Scored{Scores: []outcome.Score{{Name: "correct", Value: &hit}}}, nil
}

func (exact) Undelivered() []outcome.Score { return []outcome.Score{{Name: "correct"}} }

// fixture is a server with a run to be carried out.
type fixture struct {
	testing.TB
	server  *natsserver.Server
	address string // of others that are meant, else ""
	lease   time.Duration
	items   string // the file
	path    string // the run file
	trials  int
}

func newFixture(t *testing.T, items int) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{TB: t, server: natsserver.Start(t), lease: 2 * time.Second, items: filepath.Join(dir, "items.jsonl"), path: filepath.Join(dir, "r.run"), trials: 1}
	var lines strings.Builder
	for i := range items {
		fmt.Fprintf(&lines, `{"id":"item-%05d","input":"%s","expected_output":%d,"metadata":{"n":%d}}`+"\n", i, strings.Repeat("x", i%50), i%50, i)
	}
	if err := os.WriteFile(f.items, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) connect(version string) *Conn {
	f.Helper()
	c, err := Connect(f.Context(), Config{Address: cmp.Or(f.address, f.server.URL()), Version: version, Lease: f.lease, beat: 200 * time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// work starts a worker, and returns what ends it: softly with stop, at once with kill.
func (f *fixture) work(name string, do task) (stop, kill func(), conn *Conn) {
	f.Helper()
	conn = f.connect("1")
	ctx, cancel := context.WithCancel(context.Background())
	soft, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Work(ctx, WorkerConfig{
			Name: name, Concurrency: 4, Systems: []string{"length"}, Stop: soft,
			Open: func(context.Context, Run, func(string) pipeline.Admission) (Opened, error) {
				return Opened{Task: do}, nil
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
		once.Do(func() { close(soft) })
		<-ended
	}, kill, conn
}

// run carries the run out by workers. The coordinator is sent to coordinated when it is there.
func (f *fixture) run(ctx context.Context, resume bool, stop <-chan struct{}, coordinated func(*Coordinator)) (experiment.Result, error) {
	f.Helper()
	var opened *Coordinator
	conn := f.connect("1")
	return experiment.Run(ctx, experiment.Config{
		Header:  outcome.Header{Name: "r", Trials: f.trials, Scorer: outcome.Scorer{Version: "1", Primary: "correct"}},
		Dataset: f.items, Path: f.path, Resume: resume, Stop: stop, Timeout: time.Minute,
		Open: func(context.Context, bool) (experiment.System, error) {
			return experiment.System{Task: task(nil), Scorer: exact{}, Workers: func(ctx context.Context, h outcome.Header) (experiment.Workers, error) {
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

// outcomes returns how often each worker did an item, and checks that every item of every
// trial has one outcome.
func (f *fixture) outcomes(items int) map[string]int {
	f.Helper()
	run, err := runstore.Load(f.path)
	if err != nil {
		f.Fatal(err)
	}
	defer run.Close()
	by, seen := map[string]int{}, map[string]bool{}
	for o, err := range run.Outcomes(f.Context(), runstore.Query{Detail: true}) {
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

// empty fails unless nothing of a run is left on the server.
func (f *fixture) empty() {
	f.Helper()
	c := f.connect("1")
	for _, name := range []string{unitStream, resultStream} {
		s, err := c.js.Stream(f.Context(), name)
		if err != nil {
			f.Fatal(err)
		}
		info, err := s.Info(f.Context())
		// A worker that did a unit a second time removes its result when it ends the run, and
		// each server of a cluster removes a consumer in its own time.
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

// Two workers carry out two trials of a run; what came of it is in the run file, and
// nothing is left on the server.
func TestWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	f.trials = 2
	slow := task(func(context.Context, experiment.Item) error { time.Sleep(time.Millisecond); return nil })
	f.work("a", slow)
	f.work("b", slow)
	result, err := f.run(t.Context(), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if correct, _ := result.Summary.Scores.Lookup("correct"); correct.Mean == nil || *correct.Mean != 1 {
		t.Errorf("the mean is %v", correct.Mean)
	}
	by := f.outcomes(200)
	if by["a"] == 0 || by["b"] == 0 || by["a"]+by["b"] != 400 {
		t.Errorf("units by worker: %v", by)
	}
	f.empty()
}

// A failure of the task is the item's, with its class; one that stops the run stops it with
// its exit code, and the rest is done by the next session.
func TestWork_failures(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 40)
	var stopped atomic.Bool
	f.work("a", func(_ context.Context, item experiment.Item) error {
		switch {
		case item.ID == "item-00003":
			return &outcome.Failure{Class: outcome.RateLimited, Message: "too many"}
		case item.ID == "item-00020" && !stopped.Swap(true):
			return &refusedError{refusal{Text: "the budget is used up", Code: 5}}
		}
		return nil
	})
	result, err := f.run(t.Context(), false, nil, nil)
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 5 || !strings.Contains(err.Error(), "the budget is used up") {
		t.Fatalf("got %v", err)
	}
	if result.Summary.Items.Scored == 40 {
		t.Error("nothing was left to do")
	}
	result, err = f.run(t.Context(), true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.outcomes(40)
	if len(result.Summary.Failures) != 1 || result.Summary.Failures[0].Class != outcome.RateLimited {
		t.Errorf("failures: %+v", result.Summary.Failures)
	}
	f.empty()
}

// Killed workers cost what they had in hand, once; a coordinator that ends is resumed, and
// what came meanwhile is taken first.
func TestWork_killed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 300)
	var calls atomic.Int64
	killed := make(chan struct{})
	pace := task(func(ctx context.Context, _ experiment.Item) error {
		pause := time.After(5 * time.Millisecond)
		if calls.Add(1) > 150 { // the run does not end before its coordinator does
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
	_, kill, _ := f.work("a", pace)
	f.work("b", pace)
	ctx, killRun := context.WithCancel(t.Context())
	first, coordinator := make(chan error, 1), make(chan *Coordinator, 1)
	go func() {
		_, err := f.run(ctx, false, nil, func(c *Coordinator) { coordinator <- c })
		first <- err
	}()
	waitFor(t, "fifty calls", func() bool { return calls.Load() > 50 })
	kill() // 4 in hand
	waitFor(t, "a hundred calls", func() bool { return calls.Load() > 100 })
	killRun()
	dead := <-coordinator
	dead.cancel() // as a process that is killed: nothing is taken off the server
	dead.conn.Close()
	close(killed)
	if err := <-first; !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatalf("the killed coordinator: %v", err)
	}
	if _, err := f.run(t.Context(), true, nil, nil); err != nil {
		t.Fatal(err)
	}
	f.outcomes(300)
	f.empty()
	if beyond := calls.Load() - 300; beyond > 4 {
		t.Errorf("%d calls beyond the number of items, with 4 in hand at the kill", beyond)
	}
}

// A server that is started again, and one that has lost everything, cost repeats and no
// results.
func TestWork_serverRestarted(t *testing.T) {
	suite.Slow(t, "it waits for connections and leases")
	t.Parallel()
	f := newFixture(t, 200)
	var calls atomic.Int64
	f.work("a", func(context.Context, experiment.Item) error {
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
	f.outcomes(200)
}

// Ctrl-C takes back what no worker has begun; what is in hand is finished and kept.
func TestWork_stopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	var calls atomic.Int64
	stop := make(chan struct{})
	var once sync.Once
	f.work("a", func(context.Context, experiment.Item) error {
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
	f.empty()
	if _, err := f.run(t.Context(), true, nil, nil); err != nil {
		t.Fatal(err)
	}
	f.outcomes(200)
	if calls.Load() != 200 {
		t.Errorf("%d calls", calls.Load())
	}
}

// A unit that ends its workers fails after three of them.
func TestWork_poison(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 12)
	f.lease = time.Second
	for i := range 4 {
		var kill func()
		armed := make(chan struct{})
		_, kill, _ = f.work(fmt.Sprint("worker", i), func(ctx context.Context, item experiment.Item) error {
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
	f.outcomes(12)
	failures := result.Summary.Failures
	if len(failures) != 1 || failures[0].Class != outcome.Provider || !strings.Contains(failures[0].Items[0].Message, "3 workers ended") {
		t.Errorf("failures: %+v", failures)
	}
}

// A second coordinator of a run, another version and a clock that is off are refused by name.
func TestWork_refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	first, err := f.connect("1").Coordinate(t.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var said []string
	second := f.connect("1")
	second.cfg.beat = beatInterval // on a busy machine the first is late
	second.cfg.Note = func(text string) { said = append(said, text) }
	if _, err := second.Coordinate(t.Context(), Run{ID: "0123", Name: "r", Timeout: time.Minute}, nil); err == nil ||
		!strings.Contains(err.Error(), `the run "r" is coordinated by another process`) || len(said) != 1 {
		t.Errorf("a second coordinator: %v, %q", err, said)
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

// A document above the server's message limit goes through its object store, one above
// the protocol's fails its item.
func TestWork_large(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	text := strings.Repeat("x", 3<<20)
	lines := fmt.Sprintf(`{"id":"large","input":"%s","expected_output":%d}`+"\n"+`{"id":"small","input":"x","expected_output":1}`+"\n", text, len(text))
	if err := os.WriteFile(f.items, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	f.work("a", nil)
	result, err := f.run(t.Context(), false, nil, nil)
	if err != nil || result.Summary.Items.Scored != 2 {
		t.Fatalf("%+v, %v", result.Summary.Items, err)
	}
	f.empty()
	objects, err := f.connect("1").big.List(t.Context())
	if len(objects) != 0 {
		t.Errorf("objects left: %v, %v", objects[0].Name, err)
	}
}

// What is wrong with an address or a server is said with what to do, and no secret.
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

// FuzzMessages reads what strangers could send.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"id":"a","trial":1,"attempt":1,"input":"x"}`))
	f.Add([]byte(`{"worker":"w","deliveries":-1,"took_ns":-5,"failure":{"class":"x"},"stop":{"code":9,"budget":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var u unit
		var r result
		var p Presence
		var run Run
		_, _, _, _ = decode(raw, &u), decode(raw, &p), decode(raw, &run), key(u.Trial, u.ID, u.Attempt)
		if decode(raw, &r) == nil {
			if done := r.toDone(); done.Took < 0 {
				t.Errorf("it took %s", done.Took)
			}
			if r.Stop != nil && r.Stop.err() == nil {
				t.Error("a stop without a cause")
			}
		}
	})
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no %s in a minute", what)
		}
	}
}
