package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// checkLangfuse reads everything in a Langfuse and checks that it equals the run files without
// duplicates or additions: runs with metadata, items, spans and scores.
func checkLangfuse(t *testing.T, client *langfuse.Client, runFiles ...string) {
	t.Helper()
	wantSpans, gotSpans := map[string]int{}, map[string]int{}
	wantScores, gotScores := map[string]float64{}, map[string]float64{}
	for _, path := range runFiles {
		header, found := outcomes(t, path)
		checkItems(t, client, experimentID(t, path), header, found)
		for _, o := range found {
			trace := tracking.TraceID(header, o)
			wantSpans[trace] = 1 + len(o.Calls)
			for name, value := range publishedScores(o) {
				wantScores[trace+" "+name] = value
			}
		}
	}
	spans := map[string]bool{}
	for o, err := range client.ListObservations(t.Context(), langfuse.ObservationsQuery{From: time.Unix(0, 0), Limit: 1000}) {
		must(t, err)
		if spans[o.ID] {
			t.Errorf("span %s of trace %s is there twice", o.ID, o.TraceID)
		}
		spans[o.ID] = true
		gotSpans[o.TraceID]++
	}
	totals := map[string]map[string]float64{}
	for s, err := range client.ListScores(t.Context(), langfuse.ScoresQuery{Limit: 100}) {
		must(t, err)
		if s.Subject.Kind == "experiment" {
			addTotal(t, totals, s)
			continue
		}
		key := s.Subject.TraceID + " " + s.Name
		if _, duplicate := gotScores[key]; duplicate {
			t.Errorf("score %s is there twice", key)
		}
		value, isNumber := s.Value.Number()
		if !isNumber {
			t.Errorf("score %s has the value %v", key, s.Value)
		}
		gotScores[key] = value
	}
	for _, path := range runFiles {
		header, found := outcomes(t, path)
		got := totals[experimentID(t, path)]
		if done := got["items_scored"] + got["items_failed"]; done != float64(len(found)) {
			t.Errorf("run %s has %d outcomes, and the scores %v", header.Name, len(found), got)
		}
	}
	if diff := cmp.Diff(wantSpans, gotSpans); diff != "" {
		t.Error("spans by trace (-run files +Langfuse):\n", diff)
	}
	if diff := cmp.Diff(wantScores, gotScores); diff != "" {
		t.Error("scores (-run files +Langfuse):\n", diff)
	}
	if !slices.Contains(slices.Collect(maps.Values(wantScores)), 0) {
		t.Error("no score of 0 to look for: the test shows less than it says")
	}
}

// publishedScores returns the score values of an outcome in Langfuse if no additional scores
// were requested.
func publishedScores(o outcome.Outcome) map[string]float64 {
	values := map[string]float64{}
	for _, name := range append(scoring.Headlines(), outcome.ErrorScore) {
		if s, _ := outcome.Lookup(o.Scores, name); s.Value != nil {
			values[name] = *s.Value
		}
	}
	return values
}

// addTotal records a score of the run as a whole.
func addTotal(t *testing.T, totals map[string]map[string]float64, s langfuse.Score) {
	t.Helper()
	if totals[s.Subject.ID] == nil {
		totals[s.Subject.ID] = map[string]float64{}
	}
	if _, duplicate := totals[s.Subject.ID][s.Name]; duplicate {
		t.Errorf("score %s of run %s is there twice", s.Name, s.Subject.ID)
	}
	totals[s.Subject.ID][s.Name], _ = s.Value.Number()
}

// checkItems checks one run: its metadata, every item once, and one error score for each item.
func checkItems(t *testing.T, client *langfuse.Client, id string, header outcome.Header, found map[string]outcome.Outcome) {
	t.Helper()
	since := time.Unix(0, 0)
	runs := 0
	for e, err := range client.ListExperiments(t.Context(), since, id) {
		must(t, err)
		runs++
		checkMetadata(t, e, header)
	}
	if runs != 1 {
		t.Errorf("run %s is in Langfuse %d times", header.Name, runs)
	}
	seen := map[string]int{}
	for item, err := range client.ListExperimentItems(t.Context(), since, id) {
		must(t, err)
		seen[item.ItemID]++
		errorScores := 0
		for _, s := range item.Scores {
			if s.Name != outcome.ErrorScore {
				continue
			}
			errorScores++
			if n, _ := s.Value.Number(); (n == 1) != found[item.ItemID].Failed() {
				t.Errorf("%s of %s: failed %v, error score %v", item.ItemID, header.Name, found[item.ItemID].Failed(), n)
			}
		}
		if errorScores != 1 {
			t.Errorf("%s of %s has %d error scores", item.ItemID, header.Name, errorScores)
		}
	}
	want := map[string]int{}
	for item := range found {
		want[item] = 1
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("items of %s, and how often (-run file +Langfuse):\n%s", header.Name, diff)
	}
}

// checkMetadata checks the fixed metadata keys of a run, with the values of its header.
func checkMetadata(t *testing.T, e langfuse.Run, header outcome.Header) {
	t.Helper()
	var fields map[string]any
	must(t, json.Unmarshal(e.Metadata, &fields))
	for key, value := range fields {
		if value == "" {
			t.Errorf("the metadata of run %s have an empty %s", e.Name, key)
		}
	}
	for key, want := range map[string]string{
		"model": header.System.Model, "dataset_fingerprint": header.Dataset.Fingerprint, "scorer_version": header.Scorer.Version, "trial": "1",
		"provider": header.System.Provider, "pipeline": header.System.Pipeline, "runner_version": header.Runner,
	} {
		if got := fmt.Sprint(fields[key]); got != want || want == "" {
			t.Errorf("the metadata of run %s: %s is %q, want %q", e.Name, key, got, want)
		}
	}
}

// experimentID returns the experiment id in Langfuse, from the run file.
func experimentID(t *testing.T, path string) string {
	t.Helper()
	r, err := runstore.Load(path)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	e, known, err := r.Experiment(t.Context(), 1)
	must(t, err)
	if !known {
		t.Fatalf("%s does not know what Langfuse calls it", path)
	}
	return e.ID
}
