package runstore

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// smallRun returns the export of a run with lines of all kinds, 8 lines.
func smallRun(t testing.TB) string {
	run := newRun(t, 3)
	noError(t, run.SetExperiment(t.Context(), Experiment{1, "e1", "https://example.org/1"}))
	commitOutcomes(t, run, 2, 100)
	noError(t, run.Finish(t.Context(), testFooter()))
	return export(t, run.Reader)
}

func TestExport_lines(t *testing.T) {
	var kinds []string
	for line := range strings.Lines(smallRun(t)) {
		var l struct{ Kind string }
		noError(t, json.Unmarshal([]byte(line), &l))
		kinds = append(kinds, l.Kind)
	}
	want := "header experiment item item item outcome outcome footer"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("kinds %q, want %q", got, want)
	}
}

func TestExport_orderOfCommitDoesNotShow(t *testing.T) {
	var texts [2]string
	for i, order := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		run := newRun(t, 3)
		for _, n := range order {
			noError(t, run.Commit(t.Context(), testOutcome(n, 100)))
			if i == 1 { // a footer after each outcome, as if interrupted
				noError(t, run.Finish(t.Context(), testFooter()))
			}
		}
		noError(t, run.Finish(t.Context(), testFooter()))
		texts[i] = export(t, run.Reader)
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Error(diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestExport_stopped checks that an export that is stopped midway is not taken for a complete one.
func TestExport_stopped(t *testing.T) {
	run := newRun(t, 3)
	commitOutcomes(t, run, 3, 100_000) // more than is buffered
	ctx, stop := context.WithCancel(t.Context())
	if err := run.Export(ctx, stoppingWriter{stop}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type stoppingWriter struct{ stop func() }

func (w stoppingWriter) Write(p []byte) (int, error) {
	w.stop()
	return len(p), nil
}

func TestExport_saysWhyOnce(t *testing.T) {
	run := newRun(t, 3)
	commitOutcomes(t, run, 2, 100_000) // more than is buffered
	if err := run.Export(t.Context(), fullDisk{}); err == nil || strings.Count(err.Error(), "no space left") != 1 {
		t.Error(err)
	}
}
