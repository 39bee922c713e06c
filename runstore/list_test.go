package runstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"extraction-experiment/outcome"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	if entries, err := List(t.Context(), filepath.Join(dir, "none")); err != nil || len(entries) != 0 {
		t.Errorf("no folder: %v %v", entries, err)
	}
	for _, name := range []string{"a", "b"} {
		run, err := Create(Path(dir, "", "contracts", name), testHeader())
		noError(t, err)
		noError(t, run.AddItems(t.Context(), testItems(0, 2)))
		noError(t, run.Commit(t.Context(), testOutcome(0, 0)))
		if name == "a" {
			noError(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 2}))
			noError(t, run.Close())
		} else {
			defer run.Close() // List reads the run while it is open
		}
	}
	noError(t, os.WriteFile(Path(dir, "", "contracts", "c"), []byte("damaged"), 0o600))
	entries, err := List(t.Context(), dir)
	noError(t, err)
	if len(entries) != 3 {
		t.Fatalf("%d entries, want 3", len(entries))
	}
	for i, e := range entries[:2] {
		if e.Err != nil || e.Header.Name != "baseline-v1" || (e.Footer.Status == outcome.Interrupted) != (i == 0) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if !errors.Is(entries[2].Err, ErrNotRun) {
		t.Errorf("damaged entry: %v", entries[2].Err)
	}
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, runsFolder), filepath.Join(linked, runsFolder)); err != nil {
		t.Skip(err) // Windows may not allow it
	}
	entries, err = List(t.Context(), linked)
	if noError(t, err); len(entries) != 3 || entries[0].Path != Path(linked, "", "contracts", "a") {
		t.Errorf("of a linked folder: %+v", entries)
	}
	missing := filepath.Join(linked, "missing")
	noError(t, os.Symlink("disk", missing))
	if entries, err = List(t.Context(), missing); err == nil || len(entries) > 0 {
		t.Errorf("of a folder on a disk that is not there: %+v, %v", entries, err)
	}
}
