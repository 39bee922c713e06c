package bench_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/experiment"
	"extraction-experiment/harness/bench"
	"extraction-experiment/outcome"
)

// stopper ends a run softly after so many outcomes.
type stopper struct {
	left int
	stop chan struct{}
	seen []string
}

func (s *stopper) done(o outcome.Outcome) {
	s.seen = append(s.seen, o.Item)
	if s.left--; s.left == 0 {
		close(s.stop)
	}
}

// TestRun_unanswered: of a run that was stopped before its first answer nothing
// is said to be right.
func TestRun_unanswered(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	r, err := bench.Run(t.Context(), bench.Config{Cases: cases(t, line("p", "a b", "a")), Trials: 2, Answerer: &noisy{}, Stop: stop})
	var text strings.Builder
	must(t, r.WriteText(&text))
	if !errors.Is(err, experiment.ErrInterrupted) || r.SchemaValidRate != 0 || r.QuoteInvariantRate != 0 || r.UniqueExtractionStability != 0 || r.Err() != nil || !strings.Contains(text.String(), "nothing to measure") {
		t.Errorf("%v %+v\n%s", err, r, &text)
	}
}

// TestResume stops a run and goes on with it. What is missing is no drift, and
// nothing is asked twice.
func TestResume(t *testing.T) {
	list := cases(t, line("p", "a b", "a"), line("q", "a c", "a"), line("r", "a d", "a"))
	s := &stopper{left: 4, stop: make(chan struct{})}
	n := &noisy{calls: map[string]int{}, answers: map[string][][]string{"a b": {{"a"}, {"a"}}, "a c": {{"a"}, {"a"}}, "a d": {{"a"}, {"a"}}}}
	cfg := bench.Config{Cases: list, Trials: 2, Answerer: n, System: outcome.System{Model: "noisy"}, Out: filepath.Join(t.TempDir(), "r.run"), Concurrency: 1, Stop: s.stop, Observer: experiment.Observer{Done: s.done}}
	r, err := bench.Run(t.Context(), cfg)
	if !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	if r.CaseOutcomeDriftRate != 0 || r.UniqueExtractionStability != 1 || r.SuccessRate >= 1 || len(r.Warnings) != 1 {
		t.Errorf("stopped: %+v", r)
	}
	cfg.Stop, cfg.Observer, cfg.Resume = nil, experiment.Observer{}, true
	for want, change := range map[string]func(*bench.Config){
		"trials: began with 2, now 3":         func(c *bench.Config) { c.Trials = 3 },
		"model: began with noisy, now other":  func(c *bench.Config) { c.System.Model = "other" },
		"cases (sha256): began with":          func(c *bench.Config) { c.Cases = list[:2] },
		"mode: began with variance, now dete": func(c *bench.Config) { c.Mode, c.Answerer, c.Trials = bench.DeterministicMode, nil, 2 },
	} {
		other := cfg
		change(&other)
		var usage *bench.UsageError // exit code 64
		if _, err := bench.Run(t.Context(), other); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	r, err = bench.Run(t.Context(), cfg)
	if err != nil || r.SuccessRate != 1 || r.CaseOutcomeDriftRate != 0 || len(r.Warnings) != 0 {
		t.Errorf("resumed: %v, %+v", err, r)
	}
	if n.calls["a b"] != 2 || n.calls["a c"] != 2 || n.calls["a d"] != 2 {
		t.Errorf("asked %v", n.calls)
	}
	cfg.Out = filepath.Join(t.TempDir(), "none.run") // it begins
	if _, err := bench.Run(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.Out); err != nil {
		t.Error(err)
	}
}
