package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// TestStore_together: writes that wait for each other share a transaction, and one that
// fails, or panics, undoes only itself.
func TestStore_together(t *testing.T) {
	st, err := openStore(filepath.Join(t.TempDir(), "langfuse.db"), ModeV4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}()
	put := func(key string, then error) func(*transaction) error {
		return func(tx *transaction) error {
			if _, err := tx.Exec("INSERT INTO meta(key, value) VALUES(?, '')", key); err != nil {
				return err
			}
			if key == "panics" {
				panic(key)
			}
			return then
		}
	}
	broken := errors.New("broken")
	begun, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := st.update(func(*transaction) error { close(begun); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-begun // the others gather behind it
	for key, want := range map[string]error{"a": nil, "b": broken, "c": nil, "panics": errors.New("panic: panics")} {
		wg.Go(func() {
			if err := st.update(put(key, want)); fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	for waiting := 0; waiting < 4; {
		st.queue.Lock()
		waiting = len(st.waiting)
		st.queue.Unlock()
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if n, err := count(st.r, "SELECT count(*) FROM meta WHERE key IN ('a', 'c')"); err != nil || n != 2 {
		t.Errorf("%d of 2: %v", n, err)
	}
	if n, err := count(st.r, "SELECT count(*) FROM meta WHERE key IN ('b', 'panics')"); err != nil || n != 0 {
		t.Errorf("%d rows of what failed: %v", n, err)
	}
}
