package tracking_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// injectFaults lets every fifth request fail, each time in another way: before the work is done,
// after it is done, with Retry-After, or on some of the scores of a batch.
func (w *world) injectFaults(t *testing.T) {
	var n atomic.Int64
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		turn := n.Add(1)
		if turn%5 != 0 {
			return false
		}
		rw.Header().Set("Retry-After", "0.001") // keeps the test short
		switch way := turn / 5 % 4; {
		case strings.HasSuffix(r.URL.Path, "/ingestion") && way > 1:
			w.acceptSome(t, rw, r)
		case way == 0:
			http.Error(rw, "storm", http.StatusInternalServerError)
		case way == 1:
			http.Error(rw, "429 - rate limit exceeded", http.StatusTooManyRequests)
		default:
			w.store.Handler().ServeHTTP(httptest.NewRecorder(), r)
			rw.WriteHeader(http.StatusBadGateway)
		}
		return true
	})
}

// acceptSome stores all scores of a batch except every third, and answers accordingly.
func (w *world) acceptSome(t *testing.T, rw http.ResponseWriter, r *http.Request) {
	var batch struct {
		Batch []json.RawMessage `json:"batch"`
	}
	if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
		t.Error(err)
	}
	var kept []json.RawMessage
	failed := []any{}
	for i, raw := range batch.Batch {
		var event struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &event); err != nil {
			t.Error(err)
		}
		if i%3 == 0 {
			failed = append(failed, map[string]any{"id": event.ID, "status": 500, "message": "storm"})
			continue
		}
		kept = append(kept, raw)
	}
	body, err := json.Marshal(map[string]any{"batch": kept})
	if err != nil {
		t.Error(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := httptest.NewRecorder()
	w.store.Handler().ServeHTTP(answer, r)
	var out map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil {
		t.Error(err)
	}
	out["errors"] = failed
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusMultiStatus)
	if err := json.NewEncoder(rw).Encode(out); err != nil {
		t.Error(err)
	}
}

// TestModes_faults: nothing is lost or doubled in spite of faults, with less than twice the
// requests.
func TestModes_faults(t *testing.T) {
	suite.Slow(t, "it publishes 1,500 items")
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		const n = 500
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", n)
		finish(t, run, start.Add(time.Hour))
		w.injectFaults(t)
		w.config.MaxAttempts = 0 // the default
		client, err := langfuse.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		w.client = client
		w.calls.Store(0)
		// Occasionally a link fails five times in a row. Then the round is retried.
		cfg := tracking.Config{Site: w.site(), Run: run}
		if err := tracking.Publish(t.Context(), cfg, closed()); err != nil {
			t.Fatal(err)
		}
		// 3 rounds (200, 200 and 100): 3 requests of spans, 4 + 4 + 2 of scores, 1 for the
		// scores of the run and 1 link that opens it; n links if the server stores them.
		ideal := int64(15)
		if mode != embedded.ModeV4 {
			ideal += n - 1
		}
		got := w.calls.Load()
		t.Logf("%d requests, %d without faults", got, ideal)
		if got >= 2*ideal {
			t.Errorf("%d requests, and %d would have been enough without faults", got, ideal)
		}
		w.front.Store(nil) // verify without faults
		verification, err := w.verify(t, run)
		if err != nil || !verification.OK() || verification.Checked.Items != n {
			t.Errorf("%+v %v", verification, err)
		}
	})
}

// modesOrSample returns the modes for most tests. The sample omits v4-dual, which combines the
// others.
func modesOrSample() []embedded.Mode {
	return suite.SampleOr([]embedded.Mode{embedded.ModeV3, embedded.ModeV4}, embedded.Modes())
}

// inModes runs a subtest for each mode.
func inModes(t *testing.T, modes []embedded.Mode, test func(t *testing.T, mode embedded.Mode)) {
	t.Helper()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}
