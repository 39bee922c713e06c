package runstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRun_moved: the error of a run file that was moved or removed while it was written says so, and
// does not promise that what was committed is safe.
func TestRun_moved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove open files")
	}
	path := filepath.Join(t.TempDir(), "a.run")
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 2), testHash))
	commitOutcomes(t, run, 1, 10)
	noError(t, os.Remove(path))
	err = errors.Join(run.Commit(t.Context(), testOutcome(1, 10)), run.Close())
	var f *Fault
	if !errors.Is(err, ErrMoved) || !errors.As(err, &f) || f.ExitCode() != 74 || strings.Contains(err.Error(), "is safe") {
		t.Errorf("got %v", err)
	}
}
