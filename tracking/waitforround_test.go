package tracking

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestPublisher_waitForRound: the next round begins a fifth of a second after the start of the
// previous one if 20 outcomes wait by then, otherwise with the 20th outcome, but at most a second
// after it. It begins at once when the run finishes, and earlier if waiting outcomes take much
// memory.
func TestPublisher_waitForRound(t *testing.T) {
	for _, c := range []struct {
		name   string
		read   int64 // OID of the last outcome in a round
		commit map[time.Duration]int
		large  int // bytes of each item
		finish time.Duration
		want   time.Duration
	}{
		{name: "nothing", want: time.Second},
		{name: "many at once", commit: map[time.Duration]int{0: 20}, want: 200 * time.Millisecond},
		{name: "the twentieth later", commit: map[time.Duration]int{0: 19, 700 * time.Millisecond: 1}, want: 700 * time.Millisecond},
		{name: "few", commit: map[time.Duration]int{0: 5, 300 * time.Millisecond: 14}, want: time.Second},
		{name: "read before", read: 10, commit: map[time.Duration]int{0: 29, 500 * time.Millisecond: 1}, want: 500 * time.Millisecond},
		{name: "large", large: 100 << 10, commit: map[time.Duration]int{0: 20}, want: 0},                                                // 2.0 of 3 MiB
		{name: "large, later", large: 100 << 10, commit: map[time.Duration]int{61 * time.Millisecond: 20}, want: 65 * time.Millisecond}, // it checks every 5 ms
		{name: "a few, very large", large: 400 << 10, commit: map[time.Duration]int{0: 6}, want: 0},                                     // 2.3 MiB
		{name: "not so large", large: 50 << 10, commit: map[time.Duration]int{0: 20}, want: 200 * time.Millisecond},                     // 1.0 MiB
		{name: "the end", commit: map[time.Duration]int{0: 5}, finish: 400 * time.Millisecond, want: 400 * time.Millisecond},
		{name: "the end of many", commit: map[time.Duration]int{0: 50}, finish: 100 * time.Millisecond, want: 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				run := plannedRun(t, folder, 50)
				defer func() {
					if err := run.Close(); err != nil {
						t.Error(err)
					}
				}()
				began, finished := time.Now(), make(chan struct{})
				p := &publisher{cfg: Config{Run: run}, lastRead: c.read, finished: finished}
				next := 0
				commit := func(n int) {
					for range n {
						o := outcomeOf(next)
						item := dataset.Item{ID: o.Item, Input: json.RawMessage(`"` + strings.Repeat("x", c.large) + `"`)}
						o.Seq = int64(next + 1)
						if err := run.CommitItem(t.Context(), item, o, nil); err != nil {
							t.Error(err)
						}
						next++
					}
				}
				commit(c.commit[0])
				for after, n := range c.commit { // at most one
					if after > 0 {
						time.AfterFunc(after, func() { commit(n) })
					}
				}
				if c.finish > 0 {
					time.AfterFunc(c.finish, func() { close(finished) })
				}
				p.waitForRound(t.Context(), began)
				if took := time.Since(began); took != c.want {
					t.Errorf("began after %v, want %v", took, c.want)
				}
			})
		})
	}
}

func plannedRun(t *testing.T, folder string, n int) *runstore.Run {
	t.Helper()
	run, err := runstore.Create(filepath.Join(folder, "r.run"), outcome.Header{RunUID: strings.Repeat("ab", 16), Name: "r", Trials: 1})
	if err != nil {
		t.Fatal(err)
	}
	var items []dataset.Item
	for i := range n {
		items = append(items, dataset.Item{ID: outcomeOf(i).Item})
	}
	if err := run.AddItems(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return run
}

func outcomeOf(i int) outcome.Outcome {
	return outcome.Outcome{Item: fmt.Sprintf("item-%02d", i), Trial: 1, Attempt: 1}
}
