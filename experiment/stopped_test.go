package experiment_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// watchedPool is a Pool that calls a function when a unit was given back.
type watchedPool struct {
	experiment.Pool
	onGiveBack func()
}

func (p watchedPool) Work(ctx context.Context, q experiment.Queue) error {
	return p.Pool.Work(ctx, watchedQueue{q, p.onGiveBack})
}

type watchedQueue struct {
	experiment.Queue
	onGiveBack func()
}

func (q watchedQueue) GiveBack(ctx context.Context, u *experiment.Unit, cause error) error {
	defer q.onGiveBack()
	return q.Queue.GiveBack(ctx, u, cause)
}

// TestRunner_stopsWhenNothingCanBeTried checks that items in flight are committed, that untried
// ones are not, and that the run can be resumed.
func TestRunner_stopsWhenNothingCanBeTried(t *testing.T) {
	run := create(t)
	var calls atomic.Int32
	tripped := &limit.TrippedError{Reason: "no credit", Why: "the account is used up"}
	gaveBack := make(chan struct{})
	stopping := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		switch calls.Add(1) {
		case 1:
			<-gaveBack // in flight during the failing call
		case 4:
			return experiment.TaskResult{}, tripped
		}
		return echo(ctx, item)
	}
	cfg := experiment.RunnerConfig{Run: run, Source: list(20), Task: task(stopping), Scorer: half{}, Concurrency: 2}
	cfg.Workers = watchedPool{experiment.Pool{Task: cfg.Task, Concurrency: 2, Timeout: time.Minute, Now: time.Now}, func() { close(gaveBack) }}
	found, footer, err := carryOut(t, t.Context(), cfg)
	var stopped *experiment.StoppedError
	if !errors.As(err, &stopped) || !errors.Is(err, experiment.ErrInterrupted) || !errors.Is(err, tripped) || stopped.ExitCode() != 69 {
		t.Fatalf("%v", err)
	}
	if _, ok := found["i00"]; !ok || len(found) < 3 || len(found) > 5 || footer.Status != outcome.Interrupted {
		t.Errorf("%d outcomes, footer %+v", len(found), footer)
	}
	for id, o := range found {
		if o.Failed() {
			t.Errorf("%s counts as failed: %+v", id, o.Failure)
		}
	}
	cfg.Task, cfg.Workers = task(echo), nil
	found, footer, err = carryOut(t, t.Context(), cfg)
	if err != nil || len(found) != 20 || footer.Status != outcome.Complete {
		t.Errorf("resumed: %v, %d outcomes, %+v", err, len(found), footer)
	}
}

// TestRunner_stoppedByTheLast checks that the reason is known if the last item meets it.
func TestRunner_stoppedByTheLast(t *testing.T) {
	tripped := &limit.TrippedError{Reason: "no credit", Why: "the account is used up"}
	_, footer, err := carryOut(t, t.Context(), experiment.RunnerConfig{Run: create(t), Source: list(1), Scorer: half{},
		Task: task(func(context.Context, experiment.Item) (experiment.TaskResult, error) {
			return experiment.TaskResult{}, tripped
		})})
	if !errors.Is(err, experiment.ErrInterrupted) || !errors.Is(err, tripped) || footer.Status != outcome.Interrupted {
		t.Errorf("%v, %+v", err, footer)
	}
}

// TestRunner_stoppedAtOnce checks that no item is handed out after a stop, although workers are ready.
func TestRunner_stoppedAtOnce(t *testing.T) {
	for range 20 {
		stop := make(chan struct{})
		found, _, err := carryOut(t, t.Context(), experiment.RunnerConfig{Run: create(t), Source: list(3), Task: task(echo), Scorer: half{},
			Stop: stop, Observer: experiment.Observer{Planned: func(int, int) { close(stop) }}})
		if !errors.Is(err, experiment.ErrInterrupted) || len(found) > 0 {
			t.Fatalf("%v, %d outcomes", err, len(found))
		}
	}
}

// withdrawing delivers the first unit. It gives the others back once all have been handed out.
type withdrawing struct{}

func (withdrawing) Work(ctx context.Context, q experiment.Queue) error {
	first, err := q.Take(ctx)
	for err == nil {
		var u *experiment.Unit
		if u, err = q.Take(ctx); err == nil {
			defer q.GiveBack(ctx, u, experiment.ErrInterrupted)
		}
	}
	result, err := echo(ctx, first.Item)
	return errors.Join(err, q.Deliver(ctx, first, experiment.Done{TaskResult: result, Started: time.Now()}))
}

// TestRunner_givenBack checks that a run is not complete if a unit was given back after the last
// one was handed out, and that the error is no StoppedError.
func TestRunner_givenBack(t *testing.T) {
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(5), Task: task(echo), Scorer: half{}}
	cfg.Workers = withdrawing{}
	found, footer, err := carryOut(t, t.Context(), cfg)
	var stopped *experiment.StoppedError
	if !errors.Is(err, experiment.ErrInterrupted) || errors.As(err, &stopped) ||
		len(found) != 1 || footer.Status != outcome.Interrupted {
		t.Errorf("%v, %d outcomes, %+v", err, len(found), footer)
	}
}

// workFunc is a function that is Workers.
type workFunc func(ctx context.Context, q experiment.Queue) error

func (f workFunc) Work(ctx context.Context, q experiment.Queue) error { return f(ctx, q) }

// TestRunner_unfinishedWork checks that a run whose workers leave units in the queue, or lose one or
// all that they took, ends and is not complete. Another session finishes it.
func TestRunner_unfinishedWork(t *testing.T) {
	for name, work := range map[string]workFunc{
		"left": func(context.Context, experiment.Queue) error { return nil },
		"lost": func(ctx context.Context, q experiment.Queue) error {
			for {
				if _, err := q.Take(ctx); err != nil {
					return nil
				}
			}
		},
		"given back without a cause": func(ctx context.Context, q experiment.Queue) error {
			u, err := q.Take(ctx)
			return errors.Join(err, q.GiveBack(ctx, u, nil))
		},
	} {
		cfg := experiment.RunnerConfig{Run: create(t), Source: list(3), Task: task(echo), Scorer: half{}, Workers: work}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		found, footer, err := carryOut(t, ctx, cfg)
		cancel()
		var stopped *experiment.StoppedError
		if !errors.Is(err, experiment.ErrInterrupted) || errors.As(err, &stopped) || ctx.Err() != context.Canceled ||
			len(found) != 0 || footer.Status != outcome.Interrupted {
			t.Errorf("%s: %v, %d outcomes, %+v, context: %v", name, err, len(found), footer, ctx.Err())
		}
		cfg.Workers = experiment.Pool{Task: cfg.Task} // its zero fields are defaults
		if found, footer, err = carryOut(t, t.Context(), cfg); err != nil || len(found) != 3 || footer.Status != outcome.Complete {
			t.Errorf("%s, resumed: %v, %d outcomes, %+v", name, err, len(found), footer)
		}
	}
}

// TestRunner_lostRetry checks that a unit that workers lose while failed items are tried again is
// noticed, too. The next session tries the item again.
func TestRunner_lostRetry(t *testing.T) {
	failing := task(func(context.Context, experiment.Item) (experiment.TaskResult, error) {
		return experiment.TaskResult{}, errors.New("no")
	})
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(3), Task: failing, Scorer: half{}}
	check := func(want error, status outcome.Status, failed int64) {
		t.Helper()
		footer, err := experiment.NewRunner(cfg).Run(t.Context())
		n, countErr := cfg.Run.CountFailed(t.Context(), nil)
		if !errors.Is(err, want) || footer.Status != status || n != failed || countErr != nil {
			t.Errorf("%v, %+v, %d failed, %v", err, footer, n, countErr)
		}
	}
	check(nil, outcome.Complete, 3)
	cfg.Retry, cfg.Task = true, task(echo)
	cfg.Workers = workFunc(func(ctx context.Context, q experiment.Queue) error {
		if _, err := q.Take(ctx); err != nil {
			return nil
		}
		return experiment.Pool{Task: cfg.Task}.Work(ctx, q)
	})
	check(experiment.ErrInterrupted, outcome.Interrupted, 1)
	cfg.Workers = nil
	check(nil, outcome.Complete, 0)
}

// TestRunner_waitingIsNoLatency checks that time spent waiting for limits counts neither for
// the timeout nor as latency.
func TestRunner_waitingIsNoLatency(t *testing.T) {
	const timeout, wait = 500 * time.Millisecond, 700 * time.Millisecond
	waiting := func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		goOn := limit.PauseTimeout(ctx)
		began := time.Now()
		time.Sleep(wait)
		goOn()
		if err := ctx.Err(); err != nil {
			return experiment.TaskResult{}, err
		}
		result, err := echo(ctx, item)
		result.Calls = []outcome.Call{{Kind: "generation", Waited: time.Since(began)}}
		return result, err
	}
	found, _, err := carryOut(t, t.Context(), experiment.RunnerConfig{Run: create(t), Source: list(1), Task: task(waiting), Scorer: half{}, Timeout: timeout})
	noError(t, err)
	if o := found["i00"]; o.Failed() || o.Latency >= wait || o.Ended.Sub(o.Started) < wait {
		t.Errorf("%+v", o)
	}
}

// TestRun_damagedItem checks that an item that cannot be read ends the run with that error.
func TestRun_damagedItem(t *testing.T) {
	t.Chdir(t.TempDir())
	damage := func(_ context.Context, path string) error {
		db, err := sql.Open("sqlite", path)
		noError(t, err)
		_, err = db.Exec("UPDATE item SET input = x'01ff' WHERE id = 'i01'")
		return errors.Join(err, db.Close())
	}
	result, err := experiment.Run(t.Context(), experiment.Config{
		Header: outcome.Header{Name: "r"}, Source: list(3), Task: task(echo), Scorer: half{}, Accepts: damage,
	})
	if !errors.Is(err, runstore.ErrDamaged) || errors.Is(err, experiment.ErrInterrupted) {
		t.Errorf("%v, %d scored", err, result.Summary.Items.Scored)
	}
}
