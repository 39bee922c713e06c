package runstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestSetAside replaces a run by another, while a reader keeps a log beside each. The first gets its
// name back without a commit of the second, and with its own.
func TestSetAside(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	path := filepath.Join(t.TempDir(), "r.run")
	uid := func() string {
		run, err := Load(path)
		noError(t, err)
		defer run.Close()
		h, err := run.Header(t.Context())
		noError(t, err)
		counts, err := run.Counts(t.Context())
		if err != nil || counts.Done != 1 {
			t.Errorf("%v, %+v", err, counts)
		}
		return h.RunUID
	}
	begin := func(uid string) *Run {
		t.Helper()
		h := testHeader()
		h.RunUID = uid
		run, err := Create(path, h)
		noError(t, err)
		noError(t, run.AddItems(t.Context(), testItems(0, 2)))
		return run
	}
	// read keeps what was committed last in the log.
	read := func() (end func()) {
		db, err := connect(path, "ro")
		noError(t, err)
		tx, err := db.Begin()
		noError(t, err)
		_, err = newView(t.Context(), path, tx)
		noError(t, err)
		return func() { noError(t, errors.Join(tx.Rollback(), db.Close())) }
	}
	first := begin("first")
	endFirst := read()
	noError(t, first.Commit(t.Context(), testOutcome(1, 1)))
	noError(t, first.SetAside())
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	second := begin("second")
	noError(t, PutBack(path)) // the name is another's now
	noError(t, second.SetAside())
	if _, err := Load(path); !errors.Is(err, ErrMissing) { // without an outcome, it is removed
		t.Errorf("%v", err)
	}
	third := begin("third")
	endThird := read()
	noError(t, third.Commit(t.Context(), testOutcome(1, 1)))
	noError(t, third.Remove())
	noError(t, PutBack(path))
	if got := uid(); got != "first" {
		t.Errorf("%s", got)
	}
	endFirst()
	endThird()
	noError(t, PutBack(path)) // there is none any more
	again, err := Open(path)
	noError(t, err)
	noError(t, again.SetAside())
	noError(t, RemoveAside(path))
	noError(t, RemoveAside(path))
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", err, entries)
	}
}
