package runstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestWriting: Writing names the process while the run is open for writing. Before, after, and
// with the lock file of a killed process it returns nil.
func TestWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	if err := runstore.Writing(path); err != nil {
		t.Errorf("before: %v", err)
	}
	run, err := runstore.Create(path, outcome.Header{Name: "r", RunUID: "u", Trials: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = runstore.Writing(path)
	if !errors.Is(err, runstore.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("while it is written: %v", err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".lock", []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runstore.Writing(path); err != nil {
		t.Errorf("a lock without a process: %v", err)
	}
}
