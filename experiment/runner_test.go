package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

func TestMain(m *testing.M) {
	suite.InMemory()
	goleak.VerifyTestMain(m)
}

// list is a Source of n items "i00", "i01", …
type list int

func (n list) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		for i := range int(n) {
			item := dataset.Item{
				ID:       fmt.Sprintf("i%02d", i),
				Input:    json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)),
				Expected: json.RawMessage(`{"gold":true}`),
			}
			if !yield([]dataset.Item{item}, nil) {
				return
			}
		}
	}
}

// task is a Task made of a function.
type task func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error)

func (f task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	return f(ctx, item)
}

func echo(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
	return experiment.TaskResult{Output: item.Input}, nil
}

// half is a Scorer that gives every output 1/2, or the given scores, unless its functions return
// an error.
type half struct {
	judge  func(dataset.Item) error
	score  func(json.RawMessage) error
	scores []outcome.Score
}

func (h half) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	if h.judge != nil {
		if err := h.judge(item); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h half) Score(output json.RawMessage) (experiment.Scored, error) {
	if h.score != nil {
		if err := h.score(output); err != nil {
			return experiment.Scored{}, err
		}
	}
	if h.scores != nil {
		return experiment.Scored{Scores: h.scores}, nil
	}
	value := 0.5
	return experiment.Scored{Scores: []outcome.Score{{Name: "half", Value: &value, Ratio: &outcome.Ratio{Num: 1, Den: 2}}}}, nil
}

func (h half) Undelivered() []outcome.Score {
	return []outcome.Score{{Name: "half", Reason: "failed"}}
}

// create makes a run file for the test.
func create(t *testing.T) *runstore.Run {
	t.Helper()
	run, err := runstore.Create(filepath.Join(t.TempDir(), "r.run"), outcome.Header{RunUID: strings.Repeat("a", 32), Name: "r", Trials: 1})
	noError(t, err)
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func carryOut(t *testing.T, ctx context.Context, cfg experiment.RunnerConfig) (map[string]outcome.Outcome, outcome.Footer, error) {
	t.Helper()
	r := experiment.NewRunner(cfg)
	footer, runErr := r.Run(ctx)
	found := map[string]outcome.Outcome{}
	for o, err := range cfg.Run.Outcomes(context.Background(), runstore.Query{Depth: runstore.Full}) {
		noError(t, err)
		if _, duplicate := found[o.Item]; duplicate {
			t.Errorf("%s has two outcomes", o.Item)
		}
		found[o.Item] = o
	}
	return found, footer, runErr
}

func TestRunner_everyItemHasAnOutcome(t *testing.T) {
	run := create(t)
	var inFlight, maxInFlight atomic.Int32
	slow := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		maxInFlight.Store(max(maxInFlight.Load(), inFlight.Add(1)))
		defer inFlight.Add(-1)
		time.Sleep(time.Millisecond)
		return echo(ctx, item)
	}
	found, footer, err := carryOut(t, t.Context(), experiment.RunnerConfig{Run: run, Source: list(24), Task: task(slow), Scorer: half{}, Concurrency: 3})
	noError(t, err)
	if len(found) != 24 || footer.Status != outcome.Complete || footer.Planned != 24 {
		t.Errorf("%d outcomes, footer %+v", len(found), footer)
	}
	if maxInFlight.Load() > 3 {
		t.Errorf("%d items were worked on at once, 3 allowed", maxInFlight.Load())
	}
	o := found["i07"]
	if string(o.Output) != `{"n":7}` || o.Seq != 8 || o.Trial != 1 || o.Attempt != 1 {
		t.Errorf("outcome %+v", o)
	}
	if s, ok := outcome.Lookup(o.Scores, outcome.ErrorScore); !ok || *s.Value != 0 || !s.Boolean {
		t.Errorf("a success has the error score %+v", s)
	}
	header, err := run.Header(t.Context())
	if err != nil || header.Dataset.Fingerprint == "" {
		t.Errorf("no fingerprint after listing: %v", err)
	}
}

func TestRunner_failuresAreOutcomes(t *testing.T) {
	failing := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		switch item.ID {
		case "i00":
			return experiment.TaskResult{}, errors.New("no such model")
		case "i01":
			<-ctx.Done()
			return experiment.TaskResult{}, ctx.Err()
		case "i02":
			panic("boom")
		case "i03":
			cost := 0.25
			calls := []outcome.Call{{Kind: "generation", Usage: outcome.Usage{Input: 7}, CostUSD: &cost}}
			return experiment.TaskResult{Calls: calls}, fmt.Errorf("asking: %w", &outcome.Failure{Class: outcome.RateLimited, Message: "slow down"})
		}
		return echo(ctx, item)
	}
	scorer := half{
		judge: func(item dataset.Item) error {
			if item.ID == "i04" {
				return errors.New("gold of the wrong shape")
			}
			return nil
		},
		score: func(output json.RawMessage) error {
			switch string(output) {
			case `{"n":5}`:
				return &outcome.Failure{Class: outcome.InvalidOutput, Message: "no extraction"}
			case `{"n":6}`:
				panic("scorer")
			}
			return nil
		},
	}
	run := create(t)
	found, footer, err := carryOut(t, t.Context(), experiment.RunnerConfig{
		Run: run, Source: list(8), Task: task(failing), Scorer: scorer, Timeout: 200 * time.Millisecond,
	})
	if err != nil || footer.Status != outcome.Complete {
		t.Fatalf("%v, %+v: failed items are not an error", err, footer)
	}
	want := map[string]struct {
		class   outcome.Class
		message string
	}{
		"i00": {outcome.Provider, "no such model"},
		"i01": {outcome.Timeout, "no result within 200ms (--timeout)"},
		"i02": {outcome.Internal, "panic: boom"},
		"i03": {outcome.RateLimited, "asking: slow down"},
		"i04": {outcome.Item, "gold of the wrong shape"},
		"i05": {outcome.InvalidOutput, "no extraction"},
		"i06": {outcome.Internal, "panic: scorer"},
		"i07": {outcome.OK, ""},
	}
	for id, w := range want {
		o := found[id]
		message := ""
		if o.Failure != nil {
			message = o.Failure.Message
		}
		if o.Class != w.class || !strings.HasPrefix(message, w.message) {
			t.Errorf("%s: class %q, message %q, want %q, %q", id, o.Class, message, w.class, w.message)
		}
		s, ok := outcome.Lookup(o.Scores, outcome.ErrorScore)
		if failed := w.class != outcome.OK; !ok || (*s.Value == 1) != failed || (s.Comment != "") != failed {
			t.Errorf("%s: error score %+v", id, s)
		}
	}
	if o := found["i03"]; o.Usage.Input != 7 || o.CostUSD == nil || *o.CostUSD != 0.25 {
		t.Errorf("the calls of a failed item count: %+v", o)
	}
	if s, ok := outcome.Lookup(found["i00"].Scores, "half"); !ok || s.Value != nil {
		t.Errorf("a failed item lists the scores that its gold defines, without value: %+v", s)
	}
}

func TestRunner_stopAndResume(t *testing.T) {
	run := create(t)
	stop := make(chan struct{})
	var once sync.Once
	var calls atomic.Int32
	stopping := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		if calls.Add(1) == 3 {
			once.Do(func() { close(stop) })
		}
		return echo(ctx, item)
	}
	cfg := experiment.RunnerConfig{Run: run, Source: list(20), Task: task(stopping), Scorer: half{}, Concurrency: 2, Stop: stop}
	found, footer, err := carryOut(t, t.Context(), cfg)
	if !errors.Is(err, experiment.ErrInterrupted) || footer.Status != outcome.Interrupted {
		t.Fatalf("%v, %+v", err, footer)
	}
	if len(found) != int(calls.Load()) || len(found) < 3 || len(found) == 20 {
		t.Errorf("%d outcomes of %d calls: what is in flight is finished, nothing more is begun", len(found), calls.Load())
	}
	cfg.Stop = nil
	found, footer, err = carryOut(t, t.Context(), cfg)
	if err != nil || footer.Status != outcome.Complete || len(found) != 20 || calls.Load() != 20 {
		t.Errorf("resumed: %v, %+v, %d outcomes, %d calls", err, footer, len(found), calls.Load())
	}
}

func TestRunner_cancelGivesUpWhatIsInFlight(t *testing.T) {
	run := create(t)
	ctx, cancel := context.WithCancel(t.Context())
	hanging := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		if item.ID == "i02" {
			cancel()
			<-ctx.Done()
			return experiment.TaskResult{}, ctx.Err()
		}
		return echo(ctx, item)
	}
	found, _, err := carryOut(t, ctx, experiment.RunnerConfig{Run: run, Source: list(10), Task: task(hanging), Scorer: half{}, Concurrency: 1})
	if !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatal(err)
	}
	if _, recorded := found["i02"]; recorded || len(found) != 2 {
		t.Errorf("%d outcomes; the one that was cut off is not recorded", len(found))
	}
	found, _, err = carryOut(t, t.Context(), experiment.RunnerConfig{Run: run, Source: list(10), Task: task(echo), Scorer: half{}})
	if err != nil || len(found) != 10 {
		t.Errorf("resumed: %v, %d outcomes", err, len(found))
	}
}

// broken is a Source that ends with an error after two items.
type broken struct{}

func (broken) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		for page := range list(2).Pages(ctx) {
			if !yield(page, nil) {
				return
			}
		}
		yield(nil, errors.New("connection lost"))
	}
}

func TestRunner_listing(t *testing.T) {
	run := create(t)
	cfg := experiment.RunnerConfig{Run: run, Source: broken{}, Task: task(echo), Scorer: half{}}
	found, footer, err := carryOut(t, t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "connection lost") || len(found) != 0 || footer.Planned != 2 {
		t.Fatalf("%v, %d outcomes, %+v: nothing runs before the listing is complete", err, len(found), footer)
	}
	_, _, err = carryOut(t, t.Context(), experiment.RunnerConfig{Run: create(t), Source: list(0), Task: task(echo), Scorer: half{}})
	if !errors.Is(err, experiment.ErrNoItems) {
		t.Errorf("no items: %v", err)
	}
}

// eventLog is an Observer that records its calls.
type eventLog []string

func (d *eventLog) observer() experiment.Observer {
	note := func(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }
	return experiment.Observer{
		Planned: func(total, done int) { note("planned %d %d", total, done) },
		Listed:  func(items int) { note("listed %d", items) },
		Started: func(item string) { note("started %s", item) }, Answered: func(item string) { note("answered %s", item) },
		Done: func(o outcome.Outcome) { note("done %s", o.Item) },
	}
}

func TestRunner_observer(t *testing.T) {
	var log eventLog
	_, _, err := carryOut(t, t.Context(), experiment.RunnerConfig{Run: create(t), Source: list(2), Task: task(echo), Scorer: half{}, Concurrency: 1, Observer: log.observer()})
	noError(t, err)
	want := eventLog{"listed 1", "listed 2", "planned 2 0", "started i00", "answered i00", "done i00", "started i01", "answered i01", "done i01"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
}

func TestRun_namesEveryProblem(t *testing.T) {
	_, err := experiment.Run(t.Context(), experiment.Config{Concurrency: -1, Timeout: -1, Overwrite: true, Resume: true})
	for _, want := range []string{"Config.Header.Name", "Config.Dataset", "Config.Task", "Config.Scorer", "Config.Concurrency", "Config.Timeout", "Config.Overwrite"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestPrefetch checks that one page is read while another is processed, no more, and none after
// the loop.
func TestPrefetch(t *testing.T) {
	broken := errors.New("broken")
	for _, last := range []int{1, 3, 9} {
		synctest.Test(t, func(t *testing.T) {
			read, ended := 0, false
			source := func(yield func([]dataset.Item, error) bool) {
				defer func() { ended = true }()
				for read < 3 {
					read++
					if !yield([]dataset.Item{{ID: fmt.Sprint(read)}}, nil) {
						return
					}
				}
				yield(nil, broken)
			}
			seen := 0
			for page, err := range experiment.Prefetch(source) {
				if seen++; seen <= 3 && (err != nil || page[0].ID != fmt.Sprint(seen)) || seen == 4 && !errors.Is(err, broken) {
					t.Errorf("step %d: %v, %v", seen, page, err)
				}
				synctest.Wait()
				if want := min(seen+1, 3); read != want {
					t.Errorf("%d pages read while %d was looked at, want %d", read, seen, want)
				}
				if seen == last {
					break
				}
			}
			if want := min(last, 4); seen != want || !ended {
				t.Errorf("%d steps, want %d; the source has ended: %v", seen, want, ended)
			}
		})
	}
}
