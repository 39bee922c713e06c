package langfuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testServer returns a server in a mode, like Probe.
func testServer(mode Mode, version Version) Server {
	return Server{Project: Project{ID: "p1"}, Capabilities: Capabilities{Version: version}.WithMode(mode)}
}

const uuidOfRunA = "0d9f6c1e-7a55-4f0e-9a3e-2f6a1b7c8d90"

// runServer serves a run with the name "run A", in ViewRuns with a generated id, or no run.
func runServer(t *testing.T, hasRun bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/api/public/dataset-run-items" && hasRun:
			_, _ = w.Write(sample(t, "run_items_v3.json"))
		case strings.HasSuffix(path, "/runs") && hasRun:
			_, _ = w.Write(sample(t, "dataset_runs_v3.json"))
		case path == "/api/public/experiments" && hasRun:
			_, _ = w.Write(sample(t, "experiments.json"))
		case path == "/api/public/experiments" || path == "/api/public/experiment-items":
			_, _ = w.Write([]byte(`{"data":[],"meta":{}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"Dataset run not found","error":"LangfuseNotFoundError"}`))
		}
	}
}

func TestRunIDByMode(t *testing.T) {
	computed := ExperimentID("p1", "d1", "run A")
	named := RunRef{DatasetID: "d1", Name: "run A"}
	for name, test := range map[string]struct {
		mode     Mode
		ref      RunRef
		exists   bool
		want     string
		is       error
		requests int
	}{
		"known":                 {ModeLegacy, RunRef{ID: "x"}, false, "x", nil, 0},
		"v4 computes":           {ModeEventsOnly, named, false, computed, nil, 0},
		"v3 looks":              {ModeLegacy, named, true, uuidOfRunA, nil, 1},
		"v3, no such run":       {ModeLegacy, named, false, "", ErrNotFound, 1},
		"dual looks":            {ModeDual, named, true, uuidOfRunA, nil, 1},
		"dual, only computed":   {ModeDual, named, false, computed, nil, 1},
		"nothing to find it by": {ModeDual, RunRef{Name: "run A"}, true, "", nil, 0},
	} {
		client, record := serve(t, runServer(t, test.exists))
		got, err := client.RunID(t.Context(), testServer(test.mode, Version{4, 16, 0}), test.ref)
		if got != test.want || (err == nil) != (test.want != "") || !errors.Is(err, test.is) && test.is != nil || len(record.seen()) != test.requests {
			t.Errorf("%s: %q, %v, %d requests", name, got, err, len(record.seen()))
		}
	}
}

func TestGetRunInBothViews(t *testing.T) {
	client, record := serve(t, runServer(t, true))
	dual := testServer(ModeDual, Version{4, 16, 0})
	ref := RunRef{DatasetID: "d1", Name: "run A", DatasetName: "docs"}
	run, err := client.GetRun(t.Context(), dual, ViewRuns, ref)
	if err != nil || run.ID != uuidOfRunA || run.ItemCount != 2 || run.Description != "nightly" || string(run.Metadata) != `{"model":"gpt-x"}` {
		t.Errorf("%+v, %v", run, err)
	}
	ref.DatasetName = ""
	if run, err = client.GetRun(t.Context(), dual, ViewRuns, ref); err != nil || run.ID != uuidOfRunA || run.Description != "" || run.Name != "run A" {
		t.Errorf("%+v, %v", run, err)
	}
	ref.ID = "c1be4668d6593f0f"
	run, err = client.GetRun(t.Context(), dual, ViewExperiments, ref)
	if err != nil || run.ItemCount != 3 || run.Description != "nightly" || run.Time.IsZero() {
		t.Errorf("%+v, %v", run, err)
	}
	if got := record.seen()[3].uri; !strings.Contains(got, "id=c1be4668d6593f0f") || strings.Contains(got, "name=") {
		t.Errorf("asked %s", got)
	}
	absent, _ := serve(t, runServer(t, false))
	for _, view := range dual.Views() {
		if _, err := absent.GetRun(t.Context(), dual, view, ref); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"run A"`) {
			t.Errorf("%s: %v", view, err)
		}
	}
}

// Any name must reach the server unchanged in ViewRuns. ViewExperiments uses the id.
func TestOddRunNames(t *testing.T) {
	for _, name := range []string{"#2", "a  b", "Ünï 北京 🚀", "a/b/c", "a,b", "50%off", "100%2Fx", `?&="`, " lead", "..", "\t", "\u2028"} {
		var asked string
		client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.FormValue("runName")
			_, _ = w.Write(sample(t, "run_items_v3.json"))
		})
		ref := RunRef{DatasetID: "d1", Name: name}
		if _, err := client.GetRun(t.Context(), testServer(ModeLegacy, Version{3, 225, 4}), ViewRuns, ref); err != nil || asked != name {
			t.Errorf("%q: asked for %q, %v", name, asked, err)
		}
		for _, err := range client.ListRunItems(t.Context(), testServer(ModeLegacy, Version{3, 225, 4}), ViewRuns, ref) {
			if err != nil || asked != name {
				t.Errorf("%q: asked for %q, %v", name, asked, err)
			}
		}
	}
}

// If a link is created during the iteration, it shifts the other links by one. A link that
// moves to the next page must not be yielded twice.
func TestRunItemsThatMoveComeOnce(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.FormValue("page"))
		first := (page - 1) * 100
		if page > 1 {
			first--
		}
		items := []map[string]any{}
		for i := first; i < min(first+100, 150); i++ {
			items = append(items, map[string]any{"datasetItemId": fmt.Sprint("i", i), "traceId": fmt.Sprint("t", i), "createdAt": "2026-11-21T03:00:00.000Z"})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": items, "meta": map[string]any{"page": page, "totalPages": 2, "totalItems": 150}})
	})
	items := collect(t, client.ListRunItems(t.Context(), testServer(ModeLegacy, Version{3, 225, 4}), ViewRuns, RunRef{DatasetID: "d1", Name: "r"}))
	seen := map[string]bool{}
	for _, item := range items {
		seen[item.ItemID] = true
	}
	if len(items) != 150 || len(seen) != 150 {
		t.Errorf("%d items, %d of them different, want 150", len(items), len(seen))
	}
}

func TestRunItemsInTheExperimentsView(t *testing.T) {
	// The second row of the sample is another attempt of i1. The first row appears twice, as if
	// its span had been sent twice.
	var answer struct {
		Data []json.RawMessage `json:"data"`
		Meta json.RawMessage   `json:"meta"`
	}
	if err := json.Unmarshal(sample(t, "experiment_items.json"), &answer); err != nil {
		t.Fatal(err)
	}
	answer.Data = append(answer.Data, answer.Data[0])
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	ref := RunRef{DatasetID: "d1", Name: "run A", Since: testVersion}
	items := collect(t, client.ListRunItems(t.Context(), testServer(ModeEventsOnly, Version{4, 16, 0}), ViewExperiments, ref))
	if len(items) != 2 || items[0] != (RunItem{"i1", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", time.Date(2026, 11, 21, 3, 0, 1, 0, time.UTC), "DEFAULT"}) || items[1].Level != "ERROR" {
		t.Errorf("%+v", items)
	}
	want := "/api/public/experiment-items?experimentId=c1be4668d6593f0f&fields=core%2Cdataset&fromStartTime=2026-11-21T02%3A00%3A00.123Z&limit=100"
	if got := record.seen()[0].uri; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}

func TestRunThatIsNotThereHasNoItems(t *testing.T) {
	client, _ := serve(t, runServer(t, false))
	dual := testServer(ModeDual, Version{4, 16, 0})
	for _, view := range dual.Views() {
		for item, err := range client.ListRunItems(t.Context(), dual, view, RunRef{DatasetID: "d1", Name: "no"}) {
			t.Errorf("%s: %+v, %v", view, item, err)
		}
	}
}

// A forced mode that the server does not have must lead to an error with the name of the run,
// not to an empty result.
func TestViewThatTheServerLacksIsAnError(t *testing.T) {
	for view, failure := range map[View]string{ViewRuns: "404_events_only.json", ViewExperiments: "404_write_mode.json"} {
		client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(sample(t, "errors/"+failure))
		})
		var last error
		for _, err := range client.ListRunItems(t.Context(), testServer(ModeDual, Version{4, 16, 0}), view, RunRef{ID: "x", DatasetID: "d1", Name: "run A"}) {
			last = err
		}
		if !errors.Is(last, ErrEndpointGone) || !strings.Contains(last.Error(), `run "run A"`) {
			t.Errorf("%s: %v", view, last)
		}
	}
}
