package runstore

import (
	"extraction-experiment/internal/files"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestLock_looking: Writing holds the lock for an instant. Another call of Writing does not take it
// for a writer, and a writer waits for it, but not long.
func TestLock_looking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	open := func() *os.File {
		f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		noError(t, err)
		return f
	}
	reader := open()
	held, err := files.TryLock(reader, false)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	if err := Writing(path); err != nil {
		t.Errorf("beside another who looks: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		writer := open()
		defer func() { noError(t, writer.Close()) }()
		if held, err := retryLock(writer); held || err != nil {
			t.Errorf("the lock is held: %v, %v", held, err)
		}
		go func() {
			time.Sleep(5 * time.Millisecond)
			if err := reader.Close(); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		held, err := retryLock(writer)
		if took := time.Since(start); !held || err != nil || took != 6*time.Millisecond { // the fourth try
			t.Errorf("after %s: %v, %v", took, held, err)
		}
	})
}
