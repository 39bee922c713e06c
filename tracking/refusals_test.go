package tracking_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// refuseScores refuses every score as Langfuse does: the request succeeds, and its events fail.
func (w *world) refuseScores(t *testing.T) {
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/ingestion") {
			return false
		}
		var sent struct {
			Batch []struct {
				ID string `json:"id"`
			} `json:"batch"`
		}
		if err := json.Unmarshal(requestBody(t, r), &sent); err != nil {
			t.Error(err)
		}
		errs := []any{}
		for _, event := range sent.Batch {
			errs = append(errs, map[string]any{"id": event.ID, "status": 400, "message": "not on the list"})
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusMultiStatus)
		_ = json.NewEncoder(rw).Encode(map[string]any{"successes": []any{}, "errors": errs})
		return true
	})
}

// TestPublisher_refusedScores: every score is refused for the same reason. The error states it
// once, with the first item and score, and nothing is retried.
func TestPublisher_refusedScores(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 7)
	finish(t, run, start.Add(time.Minute))
	w.refuseScores(t)
	var log strings.Builder
	cfg := tracking.Config{Site: w.site(), Run: run, LastTries: 3, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	err := tracking.Publish(t.Context(), cfg, closed())
	// On the run: 3 counts, and 2 scores of entity_f1. The first commit is item 0, and its first
	// score is entity_f1.
	want := `7 results are scored and not published, the scores of the run as a whole are not published: ` +
		`7 items and 5 scores of the run: 400: not on the list (first: item "item-000", score "entity_f1"); ` +
		`sending it again has no effect until the cause is fixed; everything is in the run file`
	var left *tracking.UnpublishedError
	if !errors.As(err, &left) || !left.Refused || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if log.Len() > 0 {
		t.Errorf("said twice:\n%s", log.String())
	}
	w.front.Store(nil) // the refused scores do not count as published
	if err := w.publish(t, run); err != nil {
		t.Error(err)
	}
}

// TestModes_itemsGone: some items cannot be linked. The error states the reason once and names the
// first item.
func TestModes_itemsGone(t *testing.T) {
	t.Parallel()
	inModes(t, []embedded.Mode{embedded.ModeV3, embedded.ModeV4Dual}, func(t *testing.T, mode embedded.Mode) {
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 5)
		w.mustPublish(t, run)
		for i := range 4 {
			commitSecond(t, run, i, 1)
		}
		finish(t, run, start.Add(time.Minute))
		w.refuse("dataset-run-items", http.StatusNotFound)
		for range 2 { // publishing again gives the same error
			err := w.publish(t, run)
			want := `4 results are scored and not published: 4 items: cannot be linked any more, because the item or its dataset "d" was deleted in Langfuse; ` +
				`its trace and scores were sent without: langfuse: POST /api/public/dataset-run-items: 404: refused by the test (first: item "item-000"); ` +
				`sending it again has no effect until the cause is fixed; everything is in the run file`
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		// Repair sends the missing score. The server refuses the links again.
		s := &scene{w, t, run}
		s.deleteScore(t, s.score(t, s.trace(4, 1), "entity_f1").ID)
		before, after, err := s.repair(t, s.run)
		var left *tracking.UnpublishedError
		if !errors.As(err, &left) || !left.Refused || before.Total() != 6 || after.Total() != 5 || after.Counts[tracking.MissingRunItem] != 5 {
			t.Errorf("%+v\n%+v\n%v", before.Counts, after.Counts, err)
		}
	})
}
