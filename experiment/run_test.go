package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestRun stops a run without Langfuse, resumes it, uses its name again, retries its failures,
// and replaces it.
func TestRun(t *testing.T) {
	var calls atomic.Int64
	stop, failing := make(chan struct{}), true
	cfg := experiment.Config{
		Header: outcome.Header{Name: "r", Scorer: outcome.Scorer{Version: "1"}}, Source: list(6), Scorer: half{}, Concurrency: 1, Stop: stop,
		Path: filepath.Join(t.TempDir(), "r.run"),
		Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
			if calls.Add(1) == 2 {
				close(stop)
			}
			if failing && item.ID == "i05" {
				return experiment.TaskResult{}, errors.New("refused")
			}
			return echo(ctx, item)
		}),
	}
	r, err := experiment.Run(t.Context(), cfg)
	sameAsFile(t, r)
	if !errors.Is(err, experiment.ErrInterrupted) || !r.Begun || r.Path != cfg.Path || r.Summary.Items.Planned != 6 || calls.Load() > 4 {
		t.Fatalf("stopped: %v, %+v after %d calls", err, r.Summary.Items, calls.Load())
	}
	cfg.Stop = nil
	var taken *experiment.NameTakenError
	if _, err := experiment.Run(t.Context(), cfg); !errors.As(err, &taken) || taken.Where != cfg.Path || taken.Free != "r-2" {
		t.Errorf("the name again: %v", err)
	}
	cfg.Resume = true
	other := cfg
	other.Header.System.Model = "another"
	if _, err := experiment.Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "model: began with none, now another") {
		t.Errorf("another system: %v", err)
	}
	r, err = experiment.Run(t.Context(), cfg)
	sameAsFile(t, r)
	if err != nil || r.Begun || calls.Load() != 6 || r.Summary.Items.Scored != 5 || r.Summary.Items.Failed != 1 || r.Summary.Published != nil {
		t.Fatalf("resumed: %v, %+v after %d calls", err, r.Summary.Items, calls.Load())
	}
	failing = false
	cfg.Resume, cfg.Retry = false, true
	if r, err = experiment.Run(t.Context(), cfg); err != nil || calls.Load() != 7 || r.Summary.Items.Failed != 0 {
		t.Errorf("tried again: %v, %+v after %d calls", err, r.Summary.Items, calls.Load())
	}
	sameAsFile(t, r)
	cfg.Retry, cfg.Overwrite = false, true
	if r, err = experiment.Run(t.Context(), cfg); err != nil || !r.Begun || calls.Load() != 13 {
		t.Errorf("replaced: %v after %d calls", err, calls.Load())
	}
}

// TestRun_overwriteWritten checks that a run is not replaced if another process begins to write
// it while the new one is prepared.
func TestRun_overwriteWritten(t *testing.T) {
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Source: list(2), Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run")}
	_, err := experiment.Run(t.Context(), cfg)
	noError(t, err)
	var other *runstore.Run
	cfg.Overwrite = true
	cfg.Open = func(context.Context, bool) (system experiment.System, err error) {
		other, err = runstore.Open(cfg.Path)
		return experiment.System{Task: task(echo), Scorer: half{}}, err
	}
	if _, err := experiment.Run(t.Context(), cfg); !errors.Is(err, runstore.ErrLocked) || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("exit code %d: %v", cli.ExitCode(err), err)
	}
	noError(t, other.Close())
	run, err := runstore.Load(cfg.Path)
	noError(t, err)
	defer run.Close()
	if counts, err := run.Counts(t.Context()); err != nil || counts.Done != 2 {
		t.Errorf("%v, the old run has %+v", err, counts)
	}
}

// TestSweep_damagedSibling checks that a run whose budget cannot be known, since another run of
// the sweep cannot be read, leaves no file.
func TestSweep_damagedSibling(t *testing.T) {
	t.Chdir(t.TempDir())
	sweep := experiment.Sweep{Runs: []experiment.SweepRun{{Name: "a", Dataset: "x.jsonl"}, {Name: "b", Dataset: "x.jsonl"}}}
	noError(t, sweep.Prepare(t.Context()))
	noError(t, os.MkdirAll(filepath.Dir(sweep.Paths()[0]), 0o700))
	noError(t, os.WriteFile(sweep.Paths()[0], []byte("damaged"), 0o600))
	_, err := sweep.Run(t.Context(), 1, experiment.Config{
		Header: outcome.Header{Name: "b"}, Dataset: "x.jsonl", Source: list(2),
		Open: func(context.Context, bool) (experiment.System, error) {
			return experiment.System{Task: task(echo), Scorer: half{}, Spent: func(outcome.Header, outcome.Outcome) {}}, nil
		},
	})
	if _, missing := os.Stat(sweep.Paths()[1]); err == nil || missing == nil {
		t.Errorf("%v; the run file: %v", err, missing)
	}
}

// TestRun_nothing checks that the file of a run that can never succeed is removed, and that
// every missing field is named.
func TestRun_nothing(t *testing.T) {
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Source: broken{}, Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run")}
	r, err := experiment.Run(t.Context(), cfg)
	if err == nil || !r.Removed {
		t.Errorf("%v, %+v", err, r)
	}
	if _, missing := os.Stat(cfg.Path); missing == nil {
		t.Error("the run file is there")
	}
	_, err = experiment.Run(t.Context(), experiment.Config{})
	for _, field := range []string{"Header.Name", "Dataset", "Task", "Scorer"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// TestRun_workersInterrupted checks that a run that is interrupted while its workers are opened
// can be resumed.
func TestRun_workersInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Source: broken{}, Path: filepath.Join(t.TempDir(), "r.run")}
	cfg.Open = func(context.Context, bool) (experiment.System, error) {
		return experiment.System{Task: task(echo), Scorer: half{}, Workers: func(ctx context.Context, _ outcome.Header) (experiment.Workers, error) {
			interrupt()
			return nil, cli.WithCode(cli.ExitUnavailable, ctx.Err())
		}}, nil
	}
	r, err := experiment.Run(ctx, cfg)
	if !errors.Is(err, experiment.ErrInterrupted) || cli.ExitCode(err) != cli.ExitInterrupted || r.Removed {
		t.Errorf("exit code %d: %v, %+v", cli.ExitCode(err), err, r)
	}
}

// sameAsFile checks that the summary of the result equals that of the run file.
func sameAsFile(t *testing.T, r experiment.Result) {
	t.Helper()
	run, err := runstore.Load(r.Path)
	noError(t, err)
	defer run.Close()
	read, err := experiment.Summarise(t.Context(), run, nil, runstore.Brief)
	noError(t, err)
	text, err := json.Marshal(r.Summary)
	want, err2 := json.Marshal(read)
	if err != nil || err2 != nil || string(text) != string(want) {
		t.Errorf("the run said\n%s\nits file\n%s", text, want)
	}
}

// TestRun_addedUp checks that a summary that was added up during the run equals that of the run
// file, for outcomes of all kinds in any order.
func TestRun_addedUp(t *testing.T) {
	for _, trials := range []int{1, 3} {
		r, err := experiment.Run(t.Context(), experiment.Config{
			Header: outcome.Header{Name: "r", Trials: trials, Scorer: outcome.Scorer{Version: "1", Primary: "half"}}, Source: list(40), Concurrency: 8,
			Path: filepath.Join(t.TempDir(), "r.run"),
			Scorer: half{score: func(output json.RawMessage) error {
				if strings.Contains(string(output), "7") {
					return &outcome.Failure{Class: outcome.InvalidOutput, Message: "no \xff UTF-8"}
				}
				return nil
			}},
			Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
				if strings.HasSuffix(item.ID, "3") {
					return experiment.TaskResult{}, errors.New("refused " + item.ID)
				}
				cost := 0.1
				result, err := echo(ctx, item)
				result.Warnings = []string{"of " + item.ID[:2]}
				result.Calls = []outcome.Call{{Kind: "generation", Name: "x", CostUSD: &cost, Usage: outcome.Usage{Input: 3}}}
				return result, err
			}),
		})
		if err != nil || r.Summary.Items.Failed == 0 || r.Summary.Items.Scored == 0 {
			t.Fatalf("%v, %+v", err, r.Summary.Items)
		}
		sameAsFile(t, r)
	}
}
