package tracking_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// writes returns how many requests wrote something, by route.
func (w *world) writes() map[string]int64 {
	writes := map[string]int64{}
	for _, route := range []string{
		"POST /api/public/dataset-run-items", "POST /api/public/otel/v1/traces", "POST /api/public/ingestion",
		"POST /api/public/scores", "DELETE /api/public/scores/{id}",
	} {
		if n, asked := w.routes.Load(route); asked {
			writes[route] = n.(*atomic.Int64).Load()
		}
	}
	return writes
}

// TestModes_requests bounds the requests of a run of 400 items, each with a
// trace of two spans, and two scores or, where it failed, one.
func TestModes_requests(t *testing.T) {
	for _, mode := range suite.Of([]embedded.Mode{embedded.ModeV4}, embedded.Modes()) {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorldIn(t, mode)
			run := w.newRun(t, "base", 400)
			finish(t, run, start.Add(time.Hour))
			w.routes.Clear()
			if err := w.follow(t, t.Context(), run); err != nil {
				t.Fatal(err)
			}
			// 2 rounds of 200 outcomes: 400 spans are 1 request (512, 4 MiB), the 333
			// or 334 scores 4; at the end 1 for the run's own. The first link opens
			// the run; servers that store links get one of every item, this included.
			want := map[string]int64{
				"POST /api/public/otel/v1/traces": 2, "POST /api/public/ingestion": 9, "POST /api/public/dataset-run-items": 1,
			}
			if mode != embedded.ModeV4 {
				want["POST /api/public/dataset-run-items"] = 400
			}
			if diff := cmp.Diff(want, w.writes()); diff != "" {
				t.Error(diff)
			}
			w.routes.Clear()
			verdict, err := tracking.Verify(t.Context(), tracking.VerifyConfig{Site: tracking.Site{Client: w.client, Server: w.server}, Run: run.Reader, Wait: langfuse.Wait{Timeout: -1}})
			if err != nil || !verdict.OK() || verdict.Checked.Items != 400 {
				t.Errorf("%+v %v", verdict.Counts, err)
			}
		})
	}
}
