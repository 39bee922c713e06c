package tracking_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// scoredSpans returns the spans of the scores in a request.
func scoredSpans(t *testing.T, r *http.Request) (spans []string) {
	t.Helper()
	var sent struct {
		Batch []struct {
			Body struct {
				ObservationID string `json:"observationId"`
			} `json:"body"`
		} `json:"batch"`
	}
	if err := json.Unmarshal(requestBody(t, r), &sent); err != nil {
		t.Error(err)
	}
	for _, event := range sent.Batch {
		if id := event.Body.ObservationID; id != "" { // scores of the run have none
			spans = append(spans, id)
		}
	}
	return spans
}

// TestModes_roundsOverlap: while the scores of the first 200 outcomes are under way, the spans of
// the next ones are sent, and while those spans are, the links. No score is sent before the
// server has its span.
func TestModes_roundsOverlap(t *testing.T) {
	t.Parallel()
	inModes(t, suite.SampleOr([]embedded.Mode{embedded.ModeV3}, embedded.Modes()), func(t *testing.T, mode embedded.Mode) {
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 210)
		var mu sync.Mutex
		stored := map[string]bool{}
		record := func(kind, id string) bool {
			mu.Lock()
			defer mu.Unlock()
			if kind == embedded.DropSpan {
				stored[id] = true
			}
			return false
		}
		w.drop.Store(&record)
		links, exports := newArrivals(201), newArrivals(2) // the spans of 200 outcomes fill one request
		w.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/dataset-run-items"):
				links.add()
			case strings.HasSuffix(r.URL.Path, "/v1/traces"):
				exports.add()
				if mode != embedded.ModeV4 {
					links.await(t, "links came while spans were on their way")
				}
			case strings.HasSuffix(r.URL.Path, "/ingestion"):
				exports.await(t, "spans came while scores were on their way")
				mu.Lock()
				defer mu.Unlock()
				for _, id := range scoredSpans(t, r) {
					if !stored[id] {
						t.Errorf("a score came before its span %s", id)
					}
				}
			}
			return false
		})
		w.mustPublish(t, run)
		verification, err := w.verify(t, run)
		// 210 error scores, and entity_f1 of the 140 that did not fail.
		if err != nil || !verification.OK() || verification.Checked.Items != 210 || verification.Checked.Scores != 350 {
			t.Errorf("%+v %+v %v", verification.Checked, verification.Counts, err)
		}
	})
}

// arrivals waits for a number of requests of one kind.
type arrivals struct {
	left atomic.Int64
	all  chan struct{}
}

func newArrivals(n int64) *arrivals {
	a := &arrivals{all: make(chan struct{})}
	a.left.Store(n)
	return a
}

func (a *arrivals) add() {
	if a.left.Add(-1) == 0 {
		close(a.all)
	}
}

func (a *arrivals) await(t *testing.T, what string) {
	select {
	case <-a.all:
	case <-time.After(30 * time.Second):
		t.Errorf("no %s", what)
	}
}

// TestPublisher_lastRound: when the run ends, the links of its last outcomes and its own scores are
// sent although no link of the previous round was answered.
func TestPublisher_lastRound(t *testing.T) {
	t.Parallel()
	for _, first := range []int{30, 40} {
		t.Run(fmt.Sprintf("%d of 40 before", first), func(t *testing.T) { lastRound(t, first, 40) })
	}
}

func lastRound(t *testing.T, first, all int) {
	w := newWorldIn(t, embedded.ModeV3)
	run := w.newRunOf(t, "base", all, first)
	links, rest, scores := newArrivals(int64(first)), newArrivals(int64(all)), newArrivals(1)
	var opened atomic.Bool
	w.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/dataset-run-items"):
			links.add()
			rest.add()
			if opened.Swap(true) {
				rest.await(t, "links of the last round while others waited for their answer")
				scores.await(t, "scores of the run while links waited for their answer")
			}
		case strings.HasSuffix(r.URL.Path, "/ingestion"):
			if len(scoredSpans(t, r)) == 0 {
				scores.add()
			}
		}
		return false
	})
	cfg := w.publishConfig(run)
	finished, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- tracking.Publish(t.Context(), cfg, finished) }()
	links.await(t, "links of the first round")
	for i := first; i < all; i++ {
		if err := run.Commit(t.Context(), outcomeAt(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Finish(t.Context(), outcome.Footer{Ended: start.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	close(finished)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.front.Store(nil)
	verification, err := w.verify(t, run)
	if err != nil || !verification.OK() || verification.Checked.Items != all {
		t.Errorf("%+v %+v %v", verification.Checked, verification.Counts, err)
	}
}

// TestPublisher_scoresFail: if scores always fail, publishing many outcomes ends as it does for a
// few. Published is called when the scores are accepted.
func TestPublisher_scoresFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.newRun(t, "base", 210)
	w.refuse("ingestion", http.StatusBadGateway)
	published := 0
	cfg := tracking.Config{Site: w.site(), Run: run, LastTries: 2, Published: func(n int) { published = n }}
	var left *tracking.UnpublishedError
	if err := tracking.Publish(t.Context(), cfg, closed()); !errors.As(err, &left) || left.Left != 210 || published != 0 {
		t.Errorf("got %v and %d published, want an error about 210 unpublished outcomes", err, published)
	}
	w.front.Store(nil)
	if err := tracking.Publish(t.Context(), cfg, closed()); err != nil || published != 210 {
		t.Errorf("got %v and %d published, want 210", err, published)
	}
}

// TestPublisher_triesAgain: a failure after the end of the run is not the end of publishing.
func TestPublisher_triesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t, embedded.Config{})
		run := w.newRun(t, "base", 3)
		var requests atomic.Int32
		w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/ingestion") || requests.Add(1) > 2 {
				return false
			}
			rw.WriteHeader(http.StatusBadGateway)
			return true
		})
		err := tracking.Publish(t.Context(), tracking.Config{Site: w.site(), Run: run}, closed())
		if err != nil || requests.Load() != 3 {
			t.Errorf("%d requests with scores: %v", requests.Load(), err)
		}
	})
}

// TestDataset_begin: the items are the same with and without Begin, however often they are read,
// and a failed Begin is repeated by Pages.
func TestDataset_begin(t *testing.T) {
	w := newWorld(t)
	w.newRun(t, "base", 230)
	read := func(d *tracking.Dataset) string {
		var ids []string
		for _, page := range collect(t, d.Pages(t.Context())) {
			for _, item := range page {
				ids = append(ids, item.ID)
			}
		}
		return strings.Join(ids, " ")
	}
	d, err := tracking.OpenDataset(t.Context(), w.client, "d")
	if err != nil {
		t.Fatal(err)
	}
	want := read(d)
	w.refuse("dataset-items", http.StatusBadGateway)
	d.Begin(t.Context(), 1) // a single request, so that no canceled one is counted later
	w.front.Store(nil)
	if got := read(d); got != want {
		t.Errorf("after a failure: %s", got)
	}
	for limit, prefetched := range map[int]int64{0: 3, 100: 1, 101: 2, 1000: 3} { // pages of 100
		calls := w.calls.Load()
		d.Begin(t.Context(), limit)
		requests := w.calls.Load() - calls
		if got := read(d); got != want || requests != prefetched || w.calls.Load()-calls != 3 {
			t.Errorf("for %d items %d requests, then %d: %s", limit, requests, w.calls.Load()-calls-requests, got)
		}
	}
	if got := read(d); got != want {
		t.Errorf("read again: %s", got)
	}
	calls := w.calls.Load()
	for range d.Pages(t.Context()) {
		break
	}
	if n := w.calls.Load() - calls; n != 1 {
		t.Errorf("%d requests for the first page", n)
	}
}

// TestModes_foreignLink: if the server stores links, the answer of a gateway does not count as a
// link, neither for the first, which opens the run, nor for others.
func TestModes_foreignLink(t *testing.T) {
	for _, mode := range []embedded.Mode{embedded.ModeV3, embedded.ModeV4Dual} {
		for _, answer := range []int{http.StatusOK, http.StatusNotFound} {
			t.Run(fmt.Sprint(mode, " ", answer), func(t *testing.T) {
				w := newWorldIn(t, mode)
				run := w.newRun(t, "base", 5)
				finish(t, run, start.Add(time.Minute))
				var links atomic.Int64
				w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/dataset-run-items") || r.Method != http.MethodPost {
						return false
					}
					if n := links.Add(1); n != 1 && n != 4 { // the very first link, and one of the second try
						return false
					}
					rw.Header().Set("Content-Type", "text/html")
					rw.WriteHeader(answer)
					_, _ = io.WriteString(rw, "<html>sign in</html>")
					return true
				})
				for try := 1; try <= 2; try++ {
					var left *tracking.UnpublishedError
					if err := w.publish(t, run); !errors.As(err, &left) || left.Left != 5 || left.Refused {
						t.Fatalf("try %d: %v", try, err)
					}
				}
				w.mustPublish(t, run)
				verification, err := w.verify(t, run)
				if err != nil || !verification.OK() || verification.Checked.Items != 5 {
					t.Errorf("%+v %v", verification.Findings, err)
				}
			})
		}
	}
}
