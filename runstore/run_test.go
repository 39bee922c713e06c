package runstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/outcome"
)

func TestRun_isOneFileAfterClose(t *testing.T) {
	path := Path(t.TempDir(), "", "contracts", "v1")
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 3)))
	noError(t, run.Commit(t.Context(), testOutcome(0, 100)))
	if got := fileNames(t, filepath.Dir(path)); len(got) != 4 {
		t.Errorf("an open run has %q, want the run with -shm, -wal and .lock", got)
	}
	for _, name := range fileNames(t, filepath.Dir(path)) {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		noError(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	noError(t, run.Close())
	noError(t, run.Close())
	if got := fileNames(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("a closed run has %q, want one file", got)
	}
	if err := run.Commit(t.Context(), testOutcome(1, 100)); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy.run")
	data, err := os.ReadFile(path)
	noError(t, err)
	noError(t, os.WriteFile(copied, data, 0o400))
	r := mustLoad(t, copied)
	if got := collect(t, r, Query{}); len(got) != 1 {
		t.Errorf("the copy has %d outcomes, want 1", len(got))
	}
}

func TestRun_syncsEveryCommit(t *testing.T) {
	run := newRun(t, 1)
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		noError(t, run.writer.tx.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s (2 is FULL)", pragma, got, want)
		}
	}
}

func TestRun_headerFooterListing(t *testing.T) {
	run := newRun(t, 2)
	ctx := t.Context()
	if h, err := run.Header(ctx); err != nil || h.Dataset.Fingerprint != "" {
		t.Errorf("%v, %v before the listing is complete", h.Dataset, err)
	}
	noError(t, run.CompleteListing(ctx, "f1"))
	if h, err := run.Header(ctx); err != nil || h.Dataset.Fingerprint == "" {
		t.Errorf("%v, %v after it is", h.Dataset, err)
	}
	if err := run.ChangeHeader(ctx, func(h *outcome.Header) { h.RunUID = "other" }); err == nil {
		t.Error("the uid of the run was changed")
	}
	footer := outcome.Footer{Status: outcome.Interrupted, Planned: 2, Ended: testTime}
	noError(t, run.Finish(ctx, footer))
	noError(t, run.SetExperiment(ctx, Experiment{1, "exp1", "https://example.org/1"}))
	if got, ok, err := run.Footer(ctx); err != nil || !ok || got != footer {
		t.Errorf("footer %v %v %v", got, ok, err)
	}
	noError(t, run.Commit(ctx, testOutcome(0, 0)))
	if _, ok, err := run.Footer(ctx); err != nil || ok {
		t.Errorf("the footer outlived a commit: %v %v", ok, err)
	}
}

func TestRun_concurrentCommits(t *testing.T) {
	const workers, each = 16, 25
	run := newRun(t, workers*each)
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				errs[w] = errors.Join(errs[w], run.Commit(t.Context(), testOutcome(w*each+i, 500)))
			}
		})
	}
	for range 20 { // read meanwhile
		last := ""
		for o, err := range run.Outcomes(t.Context(), Query{Depth: Full}) {
			noError(t, err)
			if o.Item <= last {
				t.Fatalf("%s after %s", o.Item, last)
			}
			last = o.Item
		}
	}
	wg.Wait()
	noError(t, errors.Join(errs...))
	c, err := run.Counts(t.Context())
	noError(t, err)
	if want := (Counts{Items: 400, Planned: 400, Done: 400}); c != want {
		t.Errorf("counts %+v, want %+v", c, want)
	}
}

func TestRun_closeFlushesOrRefuses(t *testing.T) {
	run := newRun(t, 100)
	var wg sync.WaitGroup
	errs := make([]error, 100)
	for n := range errs {
		wg.Go(func() { errs[n] = run.Commit(context.Background(), testOutcome(n, 100)) })
	}
	noError(t, run.Close())
	wg.Wait()
	committed := 0
	for _, err := range errs {
		if err == nil {
			committed++
		} else if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	r := mustLoad(t, run.Path())
	if got := collect(t, r, Query{}); len(got) != committed {
		t.Errorf("%d outcomes are there, %d were promised", len(got), committed)
	}
}

// TestCreate_afterKill: Create removes the files of a killed process that was creating a run with
// that name, and no others.
func TestCreate_afterKill(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a[1].run")
	for _, name := range []string{".a[1].run.new-123", ".a[1].run.new-123-journal", ".a[1].run.newer", ".b.run.new-1"} {
		noError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.Close())
	if got, want := strings.Join(fileNames(t, folder), " "), ".a[1].run.newer .b.run.new-1 a[1].run"; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
}

// TestCreate_besideOldLog: the log of a deleted or replaced run does not get into a new run with
// that name.
func TestCreate_besideOldLog(t *testing.T) {
	old := newRun(t, 50)
	path := filepath.Join(t.TempDir(), "again.run")
	for _, end := range []string{"-wal", "-shm"} {
		noError(t, copyFile(old.Path()+end, path+end))
	}
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(100, 101)))
	noError(t, run.Close())
	run = mustOpen(t, path) // checks the file completely
	items := values(t, run.Items(t.Context()))
	noError(t, run.Close())
	if want := testItem(100).ID; len(items) != 1 || items[0].ID != want {
		t.Errorf("the new run has the items %+v, want %q alone", items, want)
	}
}

// TestBuild: a run appears when it is complete. Neither an error nor a kill leaves one, and the
// next call removes the files of a killed process.
func TestBuild(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.run")
	fill := func(run *Run) error {
		if _, err := os.Lstat(path); err == nil {
			t.Error("the run is there before it is complete")
		}
		if _, err := Create(path, testHeader()); !errors.Is(err, ErrLocked) {
			t.Errorf("another of that name: %v", err)
		}
		return run.AddItems(t.Context(), testItems(0, 3))
	}
	fails := errors.New("fails")
	if err := Build(path, testHeader(), func(run *Run) error { return errors.Join(fill(run), fails) }); !errors.Is(err, fails) || len(fileNames(t, folder)) != 0 {
		t.Errorf("%v, left: %q", err, fileNames(t, folder))
	}
	for named, fill := range map[string]func(*Run) error{
		path: func(run *Run) error {
			return errors.Join(run.Close(), run.AddItems(t.Context(), testItems(0, 1)))
		},
		"other.run": func(*Run) error { return fault("other.run", ErrDamaged, nil) },
	} {
		if err := Build(path, testHeader(), fill); err == nil || !strings.Contains(err.Error(), "run file "+named) {
			t.Errorf("an error of %s: %v", named, err)
		}
	}
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		noError(t, os.WriteFile(filepath.Join(folder, ".a.run.new-123"+end), []byte("killed"), 0o600))
	}
	noError(t, Build(path, testHeader(), fill))
	if got := fileNames(t, folder); len(got) != 1 || got[0] != "a.run" {
		t.Errorf("left: %q", got)
	}
	run := mustOpen(t, path)
	if items := values(t, run.Items(t.Context())); len(items) != 3 {
		t.Errorf("%d items", len(items))
	}
	noError(t, run.Close())
	if err := Build(path, testHeader(), nil); !errors.Is(err, ErrExists) {
		t.Errorf("over a run: %v", err)
	}
}
