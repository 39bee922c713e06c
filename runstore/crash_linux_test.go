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

// commitForever commits from eight goroutines and prints every item whose
// Commit returned.
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
	for _, after := range suite.Of([]int{1, 100}, []int{1, 10, 100, 400}) {
		t.Run(fmt.Sprint(after), func(t *testing.T) { crash(t, after) })
	}
}

// crash kills a child after it has reported so many commits, and looks on
// meanwhile from this process.
func crash(t *testing.T, after int) {
	run := newRun(t, childItems)
	path := run.Path()
	noError(t, run.Close())
	cmd := child(t, "commit", path)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	var promised []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		promised = append(promised, lines.Text())
		if len(promised) == after {
			lookOn(t, path, after)
			noError(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child was done before it was killed")
	}

	// Readers see everything before anybody has recovered the log …
	r, err := Load(path)
	noError(t, err)
	holdsAll(t, r, promised)
	noError(t, r.Close())
	// … and so does the next writer, who is not kept out by the dead one.
	again, err := Open(path)
	noError(t, err)
	holdsAll(t, again.Reader, promised)
	noError(t, again.Close())
}

func lookOn(t *testing.T, path string, after int) {
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	r, err := Load(path)
	noError(t, err)
	c, err := r.Counts(t.Context())
	noError(t, err)
	if c.Done < int64(after) {
		t.Errorf("a reader sees %d outcomes, %d were promised", c.Done, after)
	}
	noError(t, r.Close())
}

func holdsAll(t *testing.T, r *Reader, promised []string) {
	t.Helper()
	there := map[string]bool{}
	for _, o := range collect(t, r, Query{Detail: true}) {
		there[o.Item] = true
	}
	if len(there) < len(promised) || len(promised) == 0 {
		t.Errorf("%d outcomes are there, %d were promised", len(there), len(promised))
	}
	for _, id := range promised {
		if !there[id] {
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
	promised := strings.Fields(string(out))
	again, err := Open(path) // without the limit
	noError(t, err)
	holdsAll(t, again.Reader, promised)
	for _, o := range collect(t, again.Reader, Query{}) {
		if o.Item == "item-003999" {
			t.Error("the limit was never met")
		}
	}
	noError(t, again.Commit(t.Context(), testOutcome(childItems-1, 100)))
	noError(t, again.Close())
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
	promised, refused := 0, 0
	for _, err := range errs {
		var f *Fault
		switch {
		case err == nil:
			promised++
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
	if got := collect(t, run.Reader, Query{}); len(got) != promised {
		t.Errorf("%d outcomes are there, %d were promised", len(got), promised)
	}
	noError(t, run.Close())
	again, err := Open(run.Path())
	noError(t, err)
	noError(t, again.Finish(t.Context(), testFooter()))
	noError(t, again.Close())
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
