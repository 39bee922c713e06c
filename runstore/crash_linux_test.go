package runstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"extraction-experiment/internal/testkit/suite"
)

const childItems = 4000

// commitForever commits from eight goroutines, and prints each item after Commit returned.
func commitForever(path string) error {
	run, err := Open(path)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for w := range 8 {
		wg.Go(func() {
			for n := w; n < childItems; n += 8 {
				o := testOutcome(n, 2000)
				if err := run.Commit(context.Background(), o); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println(o.Item)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return run.Close()
}

func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	noError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RUNSTORE_CHILD="+name, "RUNSTORE_PATH="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestCrash_everyCommitThatReturnedIsThere(t *testing.T) {
	for _, after := range suite.SampleOr([]int{1, 100}, []int{1, 10, 100, 400}) {
		t.Run(fmt.Sprint(after), func(t *testing.T) { killAndCheck(t, after) })
	}
}

// killAndCheck kills a child after it has reported a number of commits. Meanwhile this process
// reads the run.
func killAndCheck(t *testing.T, after int) {
	run := newRun(t, childItems)
	path := run.Path()
	noError(t, run.Close())
	cmd := child(t, "commit", path)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	var committed []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		committed = append(committed, lines.Text())
		if len(committed) == after {
			checkReader(t, path, after)
			noError(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child was done before it was killed")
	}

	// Readers see all commits before the log is recovered …
	r := mustLoad(t, path)
	checkContains(t, r, committed)
	noError(t, r.Close())
	// … and so does the next writer, which the lock of the killed process does not block.
	reopened := mustOpen(t, path)
	checkContains(t, reopened.Reader, committed)
}

func checkReader(t *testing.T, path string, after int) {
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	r := mustLoad(t, path)
	c, err := r.Counts(t.Context())
	noError(t, err)
	if c.Done < int64(after) {
		t.Errorf("a reader sees %d outcomes, %d were promised", c.Done, after)
	}
}

func checkContains(t *testing.T, r *Reader, committed []string) {
	t.Helper()
	found := map[string]bool{}
	for _, o := range collect(t, r, Query{Depth: Full}) {
		found[o.Item] = true
	}
	if len(found) < len(committed) || len(committed) == 0 {
		t.Errorf("%d outcomes are there, %d were promised", len(found), len(committed))
	}
	for _, id := range committed {
		if !found[id] {
			t.Errorf("%s was promised and is lost", id)
		}
	}
}

func TestDisk_fileSizeLimit(t *testing.T) {
	run := newRun(t, childItems)
	path := run.Path()
	noError(t, run.Close())
	cmd := child(t, "limit", path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	committed := strings.Fields(string(out))
	reopened := mustOpen(t, path) // without the limit
	checkContains(t, reopened.Reader, committed)
	for _, o := range collect(t, reopened.Reader, Query{}) {
		if o.Item == "item-003999" {
			t.Error("the limit was never met")
		}
	}
	noError(t, reopened.Commit(t.Context(), testOutcome(childItems-1, 100)))
}

func TestDisk_fullFailsEverybodyAndThenAll(t *testing.T) {
	run := newRun(t, 200)
	noError(t, run.writer.submit(t.Context(), 0, func(tx *tx) error {
		var pages int
		if err := tx.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		return tx.exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages+100))
	}))
	var wg sync.WaitGroup
	errs := make([]error, 200)
	for n := range errs {
		wg.Go(func() { errs[n] = run.Commit(t.Context(), testOutcome(n, 8000)) })
	}
	wg.Wait()
	committed, refused := 0, 0
	for _, err := range errs {
		var f *Fault
		switch {
		case err == nil:
			committed++
		case errors.Is(err, ErrWrite) && errors.As(err, &f) && f.ExitCode() == 74:
			refused++
		default:
			t.Error(err)
		}
	}
	if refused == 0 {
		t.Error("the disk was never full")
	}
	if err := run.Ack(t.Context(), Link, 1); !errors.Is(err, ErrWrite) {
		t.Errorf("a broken run takes more: %v", err)
	}
	if got := collect(t, run.Reader, Query{}); len(got) != committed {
		t.Errorf("%d outcomes are there, %d were promised", len(got), committed)
	}
	noError(t, run.Close())
	reopened := mustOpen(t, run.Path())
	noError(t, reopened.Finish(t.Context(), testFooter()))
}

func TestChanged_wakesAtClose(t *testing.T) {
	run := newRun(t, 0)
	changed := run.Changed()
	noError(t, run.Close())
	for range 2 {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("nobody was woken")
		}
		changed = run.Changed()
	}
}
