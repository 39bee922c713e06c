package tracking_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// TestModes_readRun reads a run from Langfuse in each mode, before its end, and when it is complete
// and an item was run again. Its outcomes equal those of the run file; those of an older version
// are built from scores.
func TestModes_readRun(t *testing.T) {
	t.Parallel()
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) { testReadRun(t, newWorldIn(t, mode), (*world).checkOutcomes) })
		t.Run(string(mode)+"/of before", func(t *testing.T) {
			w := newWorldIn(t, mode)
			w.publication = outcome.Publication{}
			testReadRun(t, w, (*world).checkScores)
		})
	}
}

func testReadRun(t *testing.T, w *world, check func(*world, *testing.T, *runstore.Run, tracking.Remote)) {
	run := w.newRun(t, "base", 7)
	if err := run.CompleteListing(t.Context(), "f00d"); err != nil {
		t.Fatal(err)
	}
	w.mustPublish(t, run)
	got := w.read(t, "base")
	if got.Footer.Status == outcome.Complete || !strings.Contains(string(got.Footer.Status), "trial 1 has no score items_planned") {
		t.Errorf("a run that goes on is %q", got.Footer.Status)
	}
	commitSecond(t, run, 2, 1)
	finish(t, run, start.Add(time.Minute))
	w.mustPublish(t, run)
	check(w, t, run, w.read(t, "base"))
}

// checkOutcomes compares the outcomes with the run file, except calls, comments and explanations,
// and checks that Unchecked lists nothing more.
func (w *world) checkOutcomes(t *testing.T, run *runstore.Run, got tracking.Remote) {
	t.Helper()
	var want []outcome.Outcome
	for _, o := range collect(t, run.Outcomes(t.Context(), runstore.Query{Newest: true, Depth: runstore.Full})) {
		o.Calls, o.Explanation = nil, nil
		for i := range o.Scores {
			o.Scores[i].Comment = ""
		}
		want = append(want, o)
	}
	if diff := cmp.Diff(want, got.Outcomes); len(want) != 7 || diff != "" {
		t.Errorf("of the run file (-), read (+):\n%s", diff)
	}
	if unchecked := strings.Join(got.Unchecked, "\n"); len(got.Unchecked) != 2 || strings.Contains(unchecked, "cost") {
		t.Error(unchecked)
	}
}

func (w *world) read(t *testing.T, name string) tracking.Remote {
	t.Helper()
	got, err := tracking.ReadRun(t.Context(), w.site(), "d", name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// checkScores compares the scores with those of the seven outcomes of newRun, and of the second
// attempt of item 2.
func (w *world) checkScores(t *testing.T, _ *runstore.Run, got tracking.Remote) {
	t.Helper()
	h := got.Header
	if got.Footer.Status != outcome.Complete || got.Footer.Planned != 7 || h.Dataset.Fingerprint != "f00d" || h.System.Model != "m" || h.Trials != 1 {
		t.Errorf("%+v, %+v", got.Footer, h)
	}
	if !strings.Contains(got.Where, "Langfuse http://") || !strings.Contains(strings.Join(got.Unchecked, "\n"), "of 7 of 7 results Langfuse has scores alone") {
		t.Errorf("%q, %q", got.Where, got.Unchecked)
	}
	var ids []string
	for i, o := range got.Outcomes {
		ids = append(ids, o.Item)
		want := outcomeAt(i)
		if i == 2 {
			want.Class, want.Scores[0] = outcome.OK, outcome.Score{Value: new(1.0), Ratio: &outcome.Ratio{Num: 4, Den: 4}}
		}
		f1, exists := outcome.Lookup(o.Scores, "entity_f1")
		failed, _ := outcome.Lookup(o.Scores, "error")
		if !exists || o.Failed() != want.Failed() || !failed.Boolean || (*failed.Value == 1) != want.Failed() {
			t.Errorf("%s: %+v", o.Item, o)
			continue
		}
		if i != 2 && (f1.Weight == nil || *f1.Weight != *want.Scores[0].Weight) { // the second attempt has no weight
			t.Errorf("%s: %+v has another weight than %v", o.Item, f1, *want.Scores[0].Weight)
		}
		if want.Failed() {
			if f1.Value != nil || o.Failure.Message != "Langfuse does not say why" {
				t.Errorf("%s failed: %+v, %+v", o.Item, f1, o.Failure)
			}
			continue
		}
		if *f1.Value != *want.Scores[0].Value || *f1.Ratio != *want.Scores[0].Ratio {
			t.Errorf("%s: %+v, want %+v", o.Item, f1, want.Scores[0])
		}
	}
	if len(ids) != 7 || !slices.IsSorted(ids) {
		t.Errorf("%q", ids)
	}
}

func TestReadRun_problems(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 4)
	w.mustPublish(t, run)
	for dataset, name := range map[string]string{"d": "other", "nowhere": "base"} {
		if _, err := tracking.ReadRun(t.Context(), w.site(), dataset, name); !errors.Is(err, langfuse.ErrNotFound) {
			t.Errorf("%s of %s: %v", name, dataset, err)
		}
	}
	w.refuse("/scores", http.StatusInternalServerError)
	if _, err := tracking.ReadRun(t.Context(), w.site(), "d", "base"); err == nil || errors.Is(err, langfuse.ErrNotFound) {
		t.Errorf("scores that cannot be read: %v", err)
	}
}

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

// TestReadRun_twoOfOneName: of two runs that began at once under one name, no mixture is read as a
// complete run, also if the scores of one of them on the run were deleted.
func TestReadRun_twoOfOneName(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorldIn(t, mode)
			first := w.newRun(t, "base", 7)
			w.uid = strings.Repeat("cd", 16)
			second := w.newRun(t, "base", 7)
			w.mustPublish(t, first)
			w.intercept(func(rw http.ResponseWriter, r *http.Request) bool { // nothing is there yet
				if r.Method == http.MethodGet {
					rw.Header().Set("Content-Type", "application/json")
					fmt.Fprint(rw, `{"data": [], "meta": {"page": 1, "limit": 100, "totalItems": 0, "totalPages": 0}}`)
				}
				return r.Method == http.MethodGet
			})
			w.mustPublish(t, second)
			w.intercept(func(http.ResponseWriter, *http.Request) bool { return false })
			for _, run := range []*runstore.Run{first, second} {
				finish(t, run, start.Add(time.Minute))
				w.mustPublish(t, run)
			}
			check := func(when string) {
				if got := w.read(t, "base").Footer.Status; !strings.Contains(string(got), "two runs") {
					t.Errorf("%s: status %q", when, got)
				}
			}
			check("published")
			if mode == embedded.ModeV4 { // elsewhere all links lead to the second then
				if _, _, err := w.repair(t, second); err != nil {
					t.Fatal(err)
				}
				check("repaired")
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
