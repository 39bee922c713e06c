package tracking_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// TestModes_itemDeleted archives an item and deletes another while the run goes on. The
// pinned version lets both be linked.
func TestModes_itemDeleted(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 4)
		_, err := w.client.UpsertDatasetItem(t.Context(), langfuse.DatasetItem{DatasetName: "d", ID: itemID(1), Status: langfuse.ItemArchived})
		if err == nil {
			w.delete(t, "dataset-items/"+itemID(2))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.mustPublish(t, run)
		verification, err := w.verify(t, run)
		if err != nil || !verification.OK() {
			t.Errorf("%+v %v", verification, err)
		}
	})
}

// TestModes_linkRefused: Langfuse does not have the items. If the server stores links, the
// error says so, and traces and scores are published all the same; otherwise it does not matter.
func TestModes_linkRefused(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 3)
		w.mustPublish(t, run)
		commitSecond(t, run, 2, 1)
		w.refuse("dataset-run-items", http.StatusNotFound)
		err := w.publish(t, run)
		if mode == embedded.ModeV4 {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		var left *tracking.UnpublishedError
		if !errors.As(err, &left) || left.Left != 1 || !strings.Contains(err.Error(), `1 item: cannot be linked any more`) {
			t.Fatalf("got %v", err)
		}
		w.front.Store(nil)
		verification, err := w.verify(t, run)
		if err != nil || verification.Total() != 1 || verification.Counts[tracking.WrongRunItem] != 1 {
			t.Errorf("%+v %v", verification.Findings, err)
		}
	})
}

// TestModes_datasetGone: no item can be linked from the start.
func TestModes_datasetGone(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 3)
		w.refuse("dataset-run-items", http.StatusNotFound)
		err := w.publish(t, run)
		if mode == embedded.ModeV4 { // it does not store links
			if items, _ := w.stored(t, "base"); err != nil || len(items) != 3 {
				t.Errorf("%d of 3 items, %v", len(items), err)
			}
			return
		}
		var left *tracking.UnpublishedError
		if !errors.As(err, &left) || left.Left != 3 || left.ExitCode() != 69 || !strings.Contains(err.Error(), `its dataset "d" was deleted`) {
			t.Errorf("got %v", err)
		}
	})
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
