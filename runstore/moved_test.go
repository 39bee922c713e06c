package runstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRun_moved: the next commit to a run file that was moved or removed says so, before more is paid
// for, and does not promise that what was committed is safe.
func TestRun_moved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove open files")
	}
	path := filepath.Join(t.TempDir(), "a.run")
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 2)))
	commitOutcomes(t, run, 1, 10)
	noError(t, os.Remove(path))
	err = run.Commit(t.Context(), testOutcome(1, 10))
	var f *Fault
	if !errors.Is(err, ErrMoved) || !errors.As(err, &f) || f.ExitCode() != 74 || strings.Contains(err.Error(), "is safe") {
		t.Errorf("got %v", err)
	}
	noError(t, run.Close())
}
