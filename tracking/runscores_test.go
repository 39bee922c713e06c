package tracking_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// finish writes the footer, as the runner does at its end.
func finish(t *testing.T, run *runstore.Run, ended time.Time) {
	t.Helper()
	if err := run.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 7, Ended: ended}); err != nil {
		t.Fatal(err)
	}
}

// runScores reads the scores on the run itself from Langfuse.
func (w *world) runScores(t *testing.T, run *runstore.Run) map[string]float64 {
	t.Helper()
	return w.trialScores(t, run, 1)
}

func (w *world) trialScores(t *testing.T, run *runstore.Run, trial int) map[string]float64 {
	t.Helper()
	e, ok, err := run.Experiment(t.Context(), trial)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	values := map[string]float64{}
	for _, s := range collect(t, w.client.ListScores(t.Context(), langfuse.ScoresQuery{ExperimentID: e.ID})) {
		if _, duplicate := values[s.Name]; duplicate {
			t.Errorf("the run has %s twice", s.Name)
		}
		values[s.Name], _ = s.Value.Number()
	}
	return values
}

// TestPublisher_runScores: the scores on the run are sent once it has ended, are not sent again, and
// are replaced when an item is run again.
func TestPublisher_runScores(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 7)
	w.mustPublish(t, run)
	if got := w.runScores(t, run); len(got) != 0 {
		t.Errorf("the run has not ended, and has the scores %v", got)
	}
	finish(t, run, start.Add(time.Minute))
	w.mustPublish(t, run)
	// Items 2 and 5 failed. entity_f1 of 0, 1, 3, 4, 6 is 0, 1/4, 3/4, 4/4, 1/4:
	// 9/4 over seven, pooled 9/20.
	want := map[string]float64{
		"items_planned": 7, "items_scored": 5, "items_failed": 2,
		"entity_f1_as_zero": 9.0 / 28, "entity_f1_pooled": 0.45,
	}
	if diff := cmp.Diff(want, w.runScores(t, run)); diff != "" {
		t.Error(diff)
	}
	calls := w.calls.Load()
	if err := w.publish(t, run); err != nil || w.calls.Load() != calls {
		t.Errorf("%d requests for a run that is in Langfuse, %v", w.calls.Load()-calls, err)
	}
	commitSecond(t, run, 2, 1) // item 2 succeeds with 4/4: 13/4
	finish(t, run, start.Add(2*time.Minute))
	w.mustPublish(t, run)
	want["items_scored"], want["items_failed"] = 6, 1
	want["entity_f1_as_zero"], want["entity_f1_pooled"] = 13.0/28, 13.0/24
	if diff := cmp.Diff(want, w.runScores(t, run)); diff != "" {
		t.Error(diff)
	}
}

// TestPublisher_runScoresOfTrials: each trial is a run of its own in Langfuse, with its own scores.
func TestPublisher_runScoresOfTrials(t *testing.T) {
	w := newWorld(t)
	w.trials = 2
	run := w.newRun(t, "base", 2)
	for i := range 2 {
		o := outcomeAt(i + 3) // of entity_f1 3/4 and 4/4
		o.Item, o.Trial = itemID(i), 2
		if err := run.Commit(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, run, start.Add(time.Minute))
	w.mustPublish(t, run)
	for trial, want := range map[int]float64{1: 0.125, 2: 0.875} { // (0 + 1/4)/2, (3/4 + 4/4)/2
		if got := w.trialScores(t, run, trial); got["items_scored"] != 2 || got["entity_f1_pooled"] != want {
			t.Errorf("trial %d: %v, want entity_f1_pooled %v", trial, got, want)
		}
	}
}

// TestRunScores_weighted: the weighted mean of answers is a score of the run.
func TestRunScores_weighted(t *testing.T) {
	var h outcome.Header
	got := tracking.RunScores(h, outcome.Summary{Answers: &outcome.Answers{WeightedScore: new(0.25)}})
	if got["weighted_score"] != 0.25 {
		t.Errorf("%v", got)
	}
	if _, exists := tracking.RunScores(h, outcome.Summary{Answers: &outcome.Answers{}})["weighted_score"]; exists {
		t.Error("an undefined one is there")
	}
}

// commitSecond commits a successful second attempt of an item.
func commitSecond(t *testing.T, run *runstore.Run, i int, value float64) {
	t.Helper()
	none := 0.0
	begin := start.Add(time.Hour)
	o := outcome.Outcome{
		Item: itemID(i), Trial: 1, Attempt: 2, Started: begin, Ended: begin.Add(time.Second), Latency: time.Second,
		Scores: []outcome.Score{
			{Name: "entity_f1", Value: &value, Ratio: &outcome.Ratio{Num: int64(4 * value), Den: 4}},
			{Name: "error", Boolean: true, Value: &none},
		},
	}
	o.Output = json.RawMessage(`{"entities":[]}`)
	if err := run.Commit(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// TestPublisher_runScoresFail: the error says that the scores of the run are missing although
// everything else is published. The next call sends the same scores.
func TestPublisher_runScoresFail(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 2)
	w.mustPublish(t, run)
	finish(t, run, start.Add(time.Minute))
	w.refuse("ingestion", http.StatusBadGateway)
	err := w.publish(t, run)
	var left *tracking.UnpublishedError
	if !errors.As(err, &left) || left.Left != 0 || !left.RunScores || left.ExitCode() != 69 {
		t.Fatalf("got %v", err)
	}
	w.front.Store(nil)
	w.mustPublish(t, run)
	if got := w.runScores(t, run); got["items_planned"] != 2 {
		t.Errorf("%v", got)
	}
}
