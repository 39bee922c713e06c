package experiment_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
)

// TestRun takes one run through its life without Langfuse: stopped, taken up again,
// its name used, replaced, its failures tried again.
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
	if err != nil || r.Begun || calls.Load() != 6 || r.Summary.Items.Scored != 5 || r.Summary.Items.Failed != 1 || r.Summary.Published != nil {
		t.Fatalf("resumed: %v, %+v after %d calls", err, r.Summary.Items, calls.Load())
	}
	failing = false
	cfg.Resume, cfg.Retry = false, true
	if r, err = experiment.Run(t.Context(), cfg); err != nil || calls.Load() != 7 || r.Summary.Items.Failed != 0 {
		t.Errorf("tried again: %v, %+v after %d calls", err, r.Summary.Items, calls.Load())
	}
	cfg.Retry, cfg.Overwrite = false, true
	if r, err = experiment.Run(t.Context(), cfg); err != nil || !r.Begun || calls.Load() != 13 {
		t.Errorf("replaced: %v after %d calls", err, calls.Load())
	}
}

// TestRun_nothing: of a run of which nothing can come no file is left, and every
// missing field is named.
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
