package tracking_test

import (
	"slices"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// lose makes the server accept objects of one kind and lose them.
func (w *world) lose(kind string, ids ...string) {
	drop := func(of, id string) bool { return of == kind && slices.Contains(ids, id) }
	w.drop.Store(&drop)
}

// loseSpans makes the server lose spans of an item's attempt, by position.
func (s *scene) loseSpans(item, attempt int, positions ...int) {
	var ids []string
	for _, position := range positions {
		ids = append(ids, tracking.SpanID(s.run, s.t, itemID(item), attempt, position))
	}
	s.lose(embedded.DropSpan, ids...)
}

// score returns the score of a trace with a name.
func (w *world) score(t *testing.T, trace, name string) langfuse.Score {
	t.Helper()
	for _, s := range collect(t, w.client.ReadScores(t.Context(), w.server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{trace}})) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("trace %s has no score %s", trace, name)
	return langfuse.Score{}
}

// deleteScore deletes a score without the publisher.
func (w *world) deleteScore(t *testing.T, id string) {
	t.Helper()
	if err := w.client.DeleteScore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// overwriteScore stores a score under an id with the current time, in another environment.
func (w *world) overwriteScore(t *testing.T, id string, like langfuse.Score, value float64) {
	t.Helper()
	like.Environment = "elsewhere"
	w.setScore(t, id, like, value)
}

// copyScore stores a score under another id, on the subject of the first one.
func (s *scene) copyScore(id string, like langfuse.Score, value float64) {
	s.t.Helper()
	s.setScore(s.t, id, like, value)
}

func (w *world) setScore(t *testing.T, id string, like langfuse.Score, value float64) {
	t.Helper()
	create := langfuse.ScoreCreate{ID: id, Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(value), Environment: like.Environment}
	switch like.Subject.Kind {
	case "experiment":
		create.DatasetRunID = like.Subject.ID
	case "observation":
		create.TraceID, create.ObservationID = like.Subject.TraceID, like.Subject.ID
	}
	if err := w.client.CreateScore(t.Context(), create); err != nil {
		t.Fatal(err)
	}
}
