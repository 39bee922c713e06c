package runstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWriting: Writing names the process while the run is open for writing. Before, after, and with
// the lock file of a killed process it returns nil.
func TestWriting(t *testing.T) {
	if err := Writing(filepath.Join(t.TempDir(), "r.run")); err != nil {
		t.Errorf("before: %v", err)
	}
	run := newRun(t, 0)
	path := run.Path()
	err := Writing(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("while it is written: %v", err)
	}
	noError(t, run.Close())
	if err := Writing(path); err != nil {
		t.Errorf("after: %v", err)
	}
	noError(t, os.WriteFile(path+".lock", []byte("1\n"), 0o600))
	if err := Writing(path); err != nil {
		t.Errorf("a lock without a process: %v", err)
	}
}
