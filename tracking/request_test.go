package tracking_test

import (
	"net/http"
	"path"
	"sync"
	"testing"
	"time"
)

// counted counts requests by their last path segment.
func (w *world) counted(t *testing.T) func() map[string]int {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	front := func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		counts[path.Base(r.URL.Path)]++
		return false
	}
	w.front.Store(&front)
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// TestPublisher_requests bounds the requests of a run of 1,000 items, each with
// a trace of two spans, and two scores or, where it failed, one.
func TestPublisher_requests(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 1000)
	finish(t, run, start.Add(time.Hour))
	counts := w.counted(t)
	if err := w.follow(t, t.Context(), run); err != nil {
		t.Fatal(err)
	}
	got := counts()
	t.Logf("requests for 1,000 items: %v", got)
	// 5 rounds of 200 outcomes: 400 spans are 1 request (512, 4 MiB), the 333 or
	// 334 scores 4 requests; at the end 1 for the run's own. One link opens the run.
	want := map[string]int{"dataset-run-items": 1, "traces": 5, "ingestion": 21}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%d requests to %s, want %d", got[name], name, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("other requests: %v", got)
	}
}
