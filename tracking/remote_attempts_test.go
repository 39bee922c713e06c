package tracking_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// TestReadRun_level reads a run of another program, of which one root has the level ERROR, and no
// error score.
func TestReadRun_level(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorldIn(t, mode)
			ctx := t.Context()
			w.newRun(t, "unused", 2)
			ds, err := w.client.GetDataset(ctx, "d")
			if err != nil {
				t.Fatal(err)
			}
			id := langfuse.ExperimentID(w.server.Project.ID, ds.ID, "sdk")
			for i := range 2 {
				trace := strings.Repeat([]string{"ab", "cd"}[i], 16)
				span := strings.Repeat([]string{"ab", "cd"}[i], 8)
				if w.server.StoresLinks() {
					id, err = w.client.CreateDatasetRunItem(ctx, langfuse.DatasetRunItemCreate{RunName: "sdk", DatasetItemID: itemID(i), TraceID: trace, ObservationID: span})
					if err != nil {
						t.Fatal(err)
					}
				}
				s := langfuse.Span{TraceID: trace, SpanID: span, Name: "experiment-item-run", Start: start, End: start.Add(time.Second), Failed: i == 1, StatusMessage: "boom"}
				for k, v := range map[string]string{
					"langfuse.trace.name": "experiment-item-run", "langfuse.experiment.id": id, "langfuse.experiment.name": "sdk",
					"langfuse.experiment.dataset.id": ds.ID, "langfuse.experiment.item.id": itemID(i), "langfuse.experiment.item.root_observation_id": span,
					"langfuse.observation.output": `{"entities":[]}`,
				} {
					s.Attributes = append(s.Attributes, langfuse.TextAttribute(k, v))
				}
				if i == 1 {
					s.Attributes = append(s.Attributes, langfuse.TextAttribute("langfuse.observation.level", "ERROR"))
				}
				if err := w.client.ExportSpans(ctx, langfuse.Scope{Name: "x"}, []langfuse.Span{s}); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					for _, err := range w.client.CreateScores(ctx, []langfuse.ScoreCreate{{ID: "s", Name: "entity_f1", Value: langfuse.NumberValue(0.8), Type: langfuse.ScoreNumeric, TraceID: trace, Timestamp: start}}) {
						if err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for i, o := range w.read(t, "sdk").Outcomes {
				f1, _ := outcome.Lookup(o.Scores, "entity_f1")
				if o.Failed() != (i == 1) || (f1.Value == nil) != (i == 1) {
					t.Errorf("%s: class %q, %+v", o.Item, o.Class, o.Scores)
				}
			}
		})
	}
}

// TestReadRun_clockStep: an attempt after a step back of the clock is the newest one.
func TestReadRun_clockStep(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorldIn(t, mode)
			run := w.newRun(t, "base", 3)
			w.mustPublish(t, run)
			o := outcomeAt(2)
			v, e := 1.0, 0.0
			o.Attempt, o.Class, o.Failure = 2, "", nil
			o.Started, o.Ended = o.Started.Add(-time.Hour), o.Ended.Add(-time.Hour)
			o.Calls = nil
			o.Output = json.RawMessage(`{"entities":[]}`)
			o.Scores = nil
			o.Scores = append(o.Scores, outcome.Score{Name: "entity_f1", Value: &v}, outcome.Score{Name: "error", Boolean: true, Value: &e})
			if err := run.Commit(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			finish(t, run, start.Add(time.Minute))
			w.mustPublish(t, run)
			got := w.read(t, "base").Outcomes[2]
			if f1, _ := outcome.Lookup(got.Scores, "entity_f1"); got.Attempt != 2 || got.Failed() || f1.Value == nil {
				t.Errorf("attempt %d, class %q, %+v", got.Attempt, got.Class, got.Scores)
			}
		})
	}
}

// TestPublisher_unlinkedFirst: the first item of a trial was deleted, and the run is opened with the
// link of the next one.
func TestPublisher_unlinkedFirst(t *testing.T) {
	w := newWorldIn(t, embedded.ModeV3)
	run := w.newRun(t, "base", 3)
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "dataset-run-items") || r.Method != "POST" {
			return false
		}
		if !strings.Contains(string(requestBody(t, r)), itemID(0)) {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(404)
		rw.Write([]byte(`{"message":"gone"}`))
		return true
	})
	if err := w.publish(t, run); err == nil || !strings.Contains(err.Error(), "its trace and scores were sent without") {
		t.Error(err)
	}
	w.front.Store(nil)
	id := tracking.TraceID(headerOf(t, run), outcomeAt(0))
	if trace, err := w.client.GetTrace(t.Context(), w.server.Capabilities, id, langfuse.TraceParts{}); err != nil || len(trace.Scores) == 0 {
		t.Errorf("%+v, %v", trace, err)
	}
}
