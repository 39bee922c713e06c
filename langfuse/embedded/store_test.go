package embedded

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestStore_runWrites checks that concurrent writes share a transaction, and that one that fails or
// panics undoes only itself.
func TestStore_runWrites(t *testing.T) {
	st, err := openStore(filepath.Join(t.TempDir(), "langfuse.db"), ModeV4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}()
	put := func(key string, result error) func(*transaction) error {
		return func(tx *transaction) error {
			tx.exec("INSERT INTO meta(key, value) VALUES(?, '')", key)
			if key == "panics" {
				panic(key)
			}
			return result
		}
	}
	broken := errors.New("broken")
	started, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := st.update(func(*transaction) error { close(started); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-started // the other writes wait for this one
	for key, want := range map[string]error{"a": nil, "b": broken, "c": nil, "panics": errors.New("panic: panics")} {
		wg.Go(func() {
			if err := st.update(put(key, want)); fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	for waiting := 0; waiting < 4; {
		st.queueMu.Lock()
		waiting = len(st.waiting)
		st.queueMu.Unlock()
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if n, err := queryInt(st.r, "SELECT count(*) FROM meta WHERE key IN ('a', 'c')"); err != nil || n != 2 {
		t.Errorf("%d of 2: %v", n, err)
	}
	if n, err := queryInt(st.r, "SELECT count(*) FROM meta WHERE key IN ('b', 'panics')"); err != nil || n != 0 {
		t.Errorf("%d rows of what failed: %v", n, err)
	}
}

// TestStore_removed checks that nothing counts as stored in a file that was removed or replaced.
func TestStore_removed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "langfuse.db")
	st, err := openStore(path, ModeV4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}()
	const insert = "INSERT INTO meta(key, value) VALUES(?, '')"
	if err := st.exec(insert, "before"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Skip("the system keeps open files in their place: ", err)
	}
	const want = "was removed or replaced"
	if err := st.exec(insert, "removed"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("written to a removed file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := st.exec(insert, "replaced"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("written to a replaced file: %v", err)
	}
	if err := os.Rename(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if err := st.exec(insert, "put back"); err != nil {
		t.Error(err)
	}
}

// TestServer_Import checks that a dataset is imported completely, once, in the order of its items,
// and does not replace one of the same name.
func TestServer_Import(t *testing.T) {
	s := openServer(t, Config{})
	calls := 0
	bodies := func(texts ...string) func() ([]json.RawMessage, error) {
		return func() (list []json.RawMessage, err error) {
			calls++
			for _, text := range texts {
				list = append(list, json.RawMessage(text))
			}
			return list, nil
		}
	}
	if err := s.ImportDataset("d", "about", bodies(`{"id":"a","input":{"b":1,"a":2}}`, `{"id":1}`)); err == nil {
		t.Error("an item whose id is a number was taken")
	}
	for range 2 {
		if err := s.ImportDataset("d", "about", bodies(`{"id":"b","input":{"b":1,"a":2}}`, `{"id":"a","input":"x","expectedOutput":[]}`)); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := queryRows(s.store.r, scanValue[string], "SELECT id || input FROM items ORDER BY valid_from")
	if want := []string{`b{"a":2,"b":1}`, `a"x"`}; err != nil || calls != 2 || !slices.Equal(ids, want) {
		t.Errorf("asked %d times, %q, want %q (%v)", calls, ids, want, err)
	}
}

// TestIsBusy distinguishes a locked store from other errors.
func TestIsBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "langfuse.db")
	pool, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate") // without a timeout
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tx, err := pool.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := pool.Begin(); !IsBusy(fmt.Errorf("opening: %w", err)) {
		t.Errorf("%v is not busy", err)
	}
	if _, err := tx.Exec("no SQL"); err == nil || IsBusy(err) {
		t.Errorf("%v is busy", err)
	}
}

// TestTransaction_firstError checks that a failed statement ends the transaction: nothing runs
// after it, and the write gets its error instead of one that follows from it.
func TestTransaction_firstError(t *testing.T) {
	s := openServer(t, Config{})
	err := s.store.update(func(tx *transaction) error {
		tx.insert("meta", "key, value", "before", "")
		tx.exec("no SQL")
		if tx.insert("meta", "key, value", "after", "") {
			t.Error("a statement ran after an error")
		}
		if _, err := queryInt(tx, "SELECT 1"); !errors.Is(err, tx.err) {
			t.Errorf("a query after an error: %v", err)
		}
		return errors.New("a consequence")
	})
	if n, countErr := queryInt(s.store.r, "SELECT count(*) FROM meta"); n != 0 || countErr != nil || !strings.Contains(fmt.Sprint(err), "syntax error") {
		t.Errorf("%d rows, %v, %v", n, countErr, err)
	}
}
