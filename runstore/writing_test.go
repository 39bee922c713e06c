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

// TestWriting: while the run is open for writing, by whom; before, after, and
// when a killed process left its lock behind, nobody.
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
	looking, done := make(chan struct{}), make(chan struct{})
	go func() { // who looks hinders nobody, and no one else who looks
		defer close(done)
		for {
			select {
			case <-looking:
				return
			default:
			}
			if err := runstore.Writing(path); err != nil && !errors.Is(err, runstore.ErrLocked) {
				t.Errorf("looking: %v", err)
			}
		}
	}()
	for range 20 {
		if run, err = runstore.Open(path); err != nil {
			t.Error(err)
			break
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
		if err := runstore.Writing(path); err != nil {
			t.Errorf("after it was closed: %v", err)
		}
	}
	close(looking)
	<-done
	if err := os.WriteFile(path+".lock", []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runstore.Writing(path); err != nil {
		t.Errorf("a lock without a process: %v", err)
	}
}
