package runstore

import (
	"extraction-experiment/internal/files"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Who looks at the lock holds it for an instant: another who looks sees no
// writer, and who wants to write waits for the instant, and not for longer.
func TestLock_looking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	open := func() *os.File {
		f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		noError(t, err)
		return f
	}
	looking := open()
	held, err := files.TryLock(looking, false)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	if err := Writing(path); err != nil {
		t.Errorf("beside another who looks: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		writer := open()
		defer func() { noError(t, writer.Close()) }()
		if held, err := lockPatiently(writer); held || err != nil {
			t.Errorf("the lock is held: %v, %v", held, err)
		}
		go func() {
			time.Sleep(5 * time.Millisecond)
			if err := looking.Close(); err != nil {
				t.Error(err)
			}
		}()
		start := time.Now()
		held, err := lockPatiently(writer)
		if took := time.Since(start); !held || err != nil || took != 6*time.Millisecond { // the fourth try
			t.Errorf("after %s: %v, %v", took, held, err)
		}
	})
}
