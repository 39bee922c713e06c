package tracking_test

import (
	"net/http"
	"testing"
)

// TestPublisher_datasetGone: Langfuse does not know the items any more. On a
// server that stores no links that changes nothing.
func TestPublisher_datasetGone(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	w.refuse("dataset-run-items", http.StatusNotFound)
	if err := w.follow(t, t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if items, _ := w.stored(t, "base"); len(items) != 3 {
		t.Errorf("%d of 3 items", len(items))
	}
}
