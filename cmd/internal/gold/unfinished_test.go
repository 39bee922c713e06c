package gold

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestNoteUnfinished: a run with 1 of 3 outcomes is unfinished, with and without a writer; there is
// no note about a run that is complete.
func TestNoteUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	run, err := runstore.Create(path, outcome.Header{RunUID: strings.Repeat("a", 32), Name: "r", Trials: 1})
	must(t, err)
	var items []dataset.Item
	for _, id := range []string{"a", "b", "c"} {
		items = append(items, dataset.Item{ID: id, Input: json.RawMessage(`{}`)})
	}
	must(t, run.AddItems(t.Context(), items, dataset.Hash))
	must(t, run.Commit(t.Context(), outcome.Outcome{Item: "b", Trial: 1, Attempt: 1}))
	note := func() string {
		t.Helper()
		r, err := runstore.Load(path)
		must(t, err)
		defer func() { must(t, r.Close()) }()
		var b bytes.Buffer
		must(t, runs.NoteUnfinished(t.Context(), cli.Env{Stderr: &b}, r))
		return b.String()
	}
	const want = "note: the run is not finished: 1 of 3 items; it is still running, or was stopped\n"
	if got := note(); got != want {
		t.Errorf("while it is written: %q, want %q", got, want)
	}
	must(t, run.Close())
	if got := note(); got != want {
		t.Errorf("after its writer went: %q, want %q", got, want)
	}
	run, err = runstore.Open(path)
	must(t, err)
	must(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 3}))
	must(t, run.Close())
	if got := note(); got != want {
		t.Errorf("after it was stopped: %q", got)
	}
	run, err = runstore.Open(path)
	must(t, err)
	for _, item := range []string{"a", "c"} {
		must(t, run.Commit(t.Context(), outcome.Outcome{Item: item, Trial: 1, Attempt: 1}))
	}
	must(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 3}))
	must(t, run.Close())
	if got := note(); got != "" {
		t.Errorf("complete: %q", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
