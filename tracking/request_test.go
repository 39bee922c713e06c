package tracking_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
)

// writes returns the number of writing requests by route.
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

// TestModes_requests checks the number of requests for a run of 400 items. Each has a trace of two
// spans, and two scores, or one if it failed.
func TestModes_requests(t *testing.T) {
	inModes(t, suite.SampleOr([]embedded.Mode{embedded.ModeV4}, embedded.Modes()), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 400)
		finish(t, run, start.Add(time.Hour))
		w.routes.Clear()
		w.mustPublish(t, run)
		// Each of the 2 rounds of 200 outcomes has 400 spans in 1 request (up to 512 spans
		// and 4 MiB), and 333 or 334 scores in 4 requests. The scores of the run take 1
		// request. The first link opens the run, and servers that store links get one for
		// every item, including the first.
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
		verification, err := w.verify(t, run)
		if err != nil || !verification.OK() || verification.Checked.Items != 400 {
			t.Errorf("%+v %v", verification.Counts, err)
		}
	})
}
