package main

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// readBack checks that a run is visible with n items, the newest attempt of every item and every
// score once, and for the run of a model a generation with prompt, version, cost and latency.
func (d deployment) readBack(name string, n int, prompted bool) {
	d.t.Helper()
	header, newest, id := d.newestOf(name)
	if len(newest) != n {
		d.t.Fatalf("%d outcomes in the run file, want %d", len(newest), n)
	}
	ref := langfuse.RunRef{ID: id, Name: name, DatasetID: header.Dataset.ID, DatasetName: header.Dataset.Name}
	for _, view := range d.server.Views() {
		run, err := d.client.GetRun(d.t.Context(), d.server, view, ref)
		if err != nil || run.Name != name {
			d.t.Errorf("%s: the run is %+v, %v", view, run, err)
		}
		seen := map[string]int{}
		for item, err := range d.client.ListRunItems(d.t.Context(), d.server, view, ref) {
			must(d.t, err)
			if o, ok := newest[item.TraceID]; ok && o.Item == item.ItemID {
				seen[item.ItemID]++
			} else if view == langfuse.ViewRuns {
				d.t.Errorf("%s: item %s leads to trace %s", view, item.ItemID, item.TraceID)
			}
		}
		if len(seen) != n || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
			d.t.Errorf("%s shows the newest attempts %v", view, seen)
		}
	}
	d.checkScores(newest)
	for trace, err := range d.client.ReadTraces(d.t.Context(), d.server.Capabilities, slices.Collect(maps.Keys(newest)), langfuse.TraceParts{}) {
		must(d.t, err)
		d.checkGenerations(trace, newest[trace.ID], prompted)
	}
}

// newestOf reads the newest attempts of a run, by trace id.
func (d deployment) newestOf(name string) (outcome.Header, map[string]outcome.Outcome, string) {
	d.t.Helper()
	r, err := runstore.Load(runstore.Path(settings.Folder, d.server.Project.ID, configs.SampleName, name))
	must(d.t, err)
	defer func() { must(d.t, r.Close()) }()
	header, err := r.Header(d.t.Context())
	must(d.t, err)
	newest := map[string]outcome.Outcome{}
	for o, err := range r.Outcomes(d.t.Context(), runstore.Query{Newest: true, Depth: runstore.Full}) {
		must(d.t, err)
		newest[tracking.TraceID(header, o)] = o
	}
	e, _, err := r.Experiment(d.t.Context(), 1)
	must(d.t, err)
	return header, newest, e.ID
}

// checkScores compares every score of the traces with the outcomes.
func (d deployment) checkScores(newest map[string]outcome.Outcome) {
	d.t.Helper()
	want, got, zeros := map[string]float64{}, map[string]float64{}, 0
	for trace, o := range newest {
		for name, value := range publishedScores(o) {
			want[trace+" "+name] = value
			if value == 0 {
				zeros++
			}
		}
	}
	for s, err := range d.client.ReadScores(d.t.Context(), d.server.Capabilities, langfuse.ScoresQuery{TraceIDs: slices.Collect(maps.Keys(newest)), Limit: 100}) {
		must(d.t, err)
		key := s.TraceID() + " " + s.Name
		if _, duplicate := got[key]; duplicate {
			d.t.Errorf("score %s is there twice", key)
		}
		got[key], _ = s.Value.Number()
	}
	if diff := cmp.Diff(want, got); diff != "" || zeros == 0 {
		d.t.Errorf("%d scores of 0; scores (-run file +Langfuse):\n%s", zeros, diff)
	}
}

// checkGenerations checks the spans of a trace below the root.
func (d deployment) checkGenerations(trace langfuse.Trace, o outcome.Outcome, prompted bool) {
	d.t.Helper()
	found := 0
	for _, span := range trace.Observations {
		if span.Type != "GENERATION" {
			continue
		}
		found++
		// 100 tokens at 2 USD and 20 at 8 USD a million: 0.0002 + 0.00016.
		if cost := float64(span.TotalCost); math.Abs(cost-0.00036) > 1e-12 {
			d.t.Errorf("%s: the generation cost %g USD, want 0.00036", o.Item, cost)
		}
		if span.PromptName != "extraction" || span.PromptVersion != 1 || span.ModelName() != "gpt-test-2026" {
			d.t.Errorf("%s: model %q, prompt %q, version %v", o.Item, span.ModelName(), span.PromptName, span.PromptVersion)
		}
	}
	root, ok := trace.Root()
	took, want := root.EndTime.Sub(root.StartTime), o.Latency // without waiting time
	if !ok || (took-want).Abs() > time.Millisecond {          // servers keep milliseconds
		d.t.Errorf("%s: the root took %s, the run file says %s", o.Item, took, want)
	}
	if (found > 0) != prompted {
		d.t.Errorf("%s: %d generations", o.Item, found)
	}
}
