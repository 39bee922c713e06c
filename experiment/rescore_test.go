package experiment_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// full is a Scorer that gives every output 1.
type full struct{ half }

func (f full) Judge(item dataset.Item) (experiment.Judge, error) { return f, nil }

func (full) Score(json.RawMessage) (experiment.Scored, error) {
	one := 1.0
	return experiment.Scored{Scores: []outcome.Score{{Name: "half", Value: &one}}, Warnings: []string{"seen"}}, nil
}

// TestRescore: two attempts, a failure of the provider, one of the scoring and
// three results; no task is called, and the newest attempts are judged anew.
func TestRescore(t *testing.T) {
	from := create(t)
	if err := from.AddItems(t.Context(), itemsOf(t, 5), dataset.Hash); err != nil {
		t.Fatal(err)
	}
	if err := from.CompleteListing(t.Context(), "print"); err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1e9, 0).UTC()
	cost := 0.5
	commit := func(item string, attempt int, output string, class outcome.Class) {
		t.Helper()
		o := outcome.Outcome{Item: item, Trial: 1, Attempt: attempt, Class: class, Started: began, Ended: began.Add(time.Second), Latency: time.Second, CostUSD: &cost}
		if class != outcome.OK {
			o.Failure = &outcome.Failure{Class: class, Message: "then"}
		}
		if output != "" {
			o.Output = json.RawMessage(output)
		}
		o.Warnings = []string{"seen"}
		o.Calls = []outcome.Call{{Name: "ask", Kind: "generation", CostUSD: &cost, Started: began, Ended: began}}
		if err := from.Commit(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	commit("i00", 1, "", outcome.Timeout)
	commit("i00", 2, `{"n":0}`, outcome.OK)
	commit("i01", 1, "", outcome.Provider)
	commit("i02", 1, `{"n":2}`, outcome.InvalidOutput)
	commit("i03", 1, `{"n":3}`, outcome.OK)
	if err := from.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 5, Ended: began}); err != nil {
		t.Fatal(err)
	}
	to, err := runstore.Create(filepath.Join(t.TempDir(), "to.run"), outcome.Header{RunUID: strings.Repeat("b", 32), Name: "to", Trials: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	moved := 0
	footer, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(before, after outcome.Outcome) { moved++ }}, to, nil)
	if err != nil || footer.Status != outcome.Interrupted || footer.Planned != 5 || moved != 4 {
		t.Fatalf("%v, %+v, %d moved", err, footer, moved)
	}
	want := map[string]outcome.Class{"i00": "", "i01": outcome.Provider, "i02": "", "i03": ""}
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Detail: true}) {
		if err != nil {
			t.Fatal(err)
		}
		class, known := want[o.Item]
		delete(want, o.Item)
		if !known || o.Class != class || o.Attempt != 1 || o.Latency != time.Second || *o.CostUSD != 0 || !o.Calls[0].Cached || *o.Calls[0].CostUSD != 0 {
			t.Errorf("%+v", o)
		}
		if len(o.Warnings) != 1 {
			t.Errorf("the same warning is not told twice: %q", o.Warnings)
		}
		if value := o.Scores[0].Value; (class == "") != (value != nil && *value == 1) {
			t.Errorf("%s has the score %v", o.Item, value)
		}
	}
	if len(want) != 0 {
		t.Errorf("not there: %v", want)
	}
	header, err := to.Header(t.Context())
	if err != nil || header.Dataset.Fingerprint == "" {
		t.Errorf("%v, %+v", err, header)
	}
}

// TestRescore_carries takes scores of evaluators over as they are, with the calls
// of their models, which cost nothing now; a call of a score that is not carried
// stays behind.
func TestRescore_carries(t *testing.T) {
	from := create(t)
	if err := from.AddItems(t.Context(), itemsOf(t, 1), dataset.Hash); err != nil {
		t.Fatal(err)
	}
	if err := from.CompleteListing(t.Context(), "print"); err != nil {
		t.Fatal(err)
	}
	began, cost, kept := time.Unix(1e9, 0).UTC(), 0.5, 0.75
	judging := func(name string) outcome.Call {
		return outcome.Call{Name: name, Kind: outcome.JudgingKind, CostUSD: &cost, Started: began, Ended: began}
	}
	o := outcome.Outcome{Item: "i00", Trial: 1, Attempt: 1, Started: began, Ended: began,
		Scores: []outcome.Score{{Name: "half"}, {Name: "judge", Value: &kept, Comment: "it said so"}, {Name: "silent", Reason: "the evaluator gave no score"}, {Name: "other", Value: &kept}}}
	o.Output, o.Judging = json.RawMessage(`{}`), outcome.JudgingOf([]outcome.Call{judging("judge"), judging("other")})
	o.Calls = []outcome.Call{judging("judge"), judging("other")}
	if err := from.Commit(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	to, err := runstore.Create(filepath.Join(t.TempDir(), "to.run"), outcome.Header{RunUID: strings.Repeat("b", 32), Name: "to", Trials: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	if _, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(outcome.Outcome, outcome.Outcome) {}}, to, []string{"judge", "silent"}); err != nil {
		t.Fatal(err)
	}
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Detail: true}) {
		if err != nil {
			t.Fatal(err)
		}
		judge, _ := outcome.Lookup(o.Scores, "judge")
		silent, there := outcome.Lookup(o.Scores, "silent")
		_, other := outcome.Lookup(o.Scores, "other")
		if judge.Value == nil || *judge.Value != kept || judge.Comment != "it said so" || !there || silent.Reason == "" || other {
			t.Errorf("the scores are %+v", o.Scores)
		}
		if len(o.Calls) != 1 || o.Calls[0].Name != "judge" || *o.Calls[0].CostUSD != 0 || o.Judging != nil {
			t.Errorf("the calls are %+v, judging %+v", o.Calls, o.Judging)
		}
	}
}

// TestRescore_stops: a damaged or foreign result ends it with an error.
func TestRescore_stops(t *testing.T) {
	from, to := create(t), create(t)
	if err := from.AddItems(t.Context(), itemsOf(t, 1), dataset.Hash); err != nil {
		t.Fatal(err)
	}
	if err := to.AddItems(t.Context(), itemsOf(t, 1), dataset.Hash); err != nil {
		t.Fatal(err)
	}
	if _, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}}, to, nil); !errors.Is(err, runstore.ErrDuplicate) {
		t.Errorf("into a run that is not empty: %v", err)
	}
}

func itemsOf(t *testing.T, n int) []dataset.Item {
	t.Helper()
	var items []dataset.Item
	for page, err := range list(n).Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, page...)
	}
	return items
}

// TestRescore_unfinished: of a run that is still being listed and run, what is
// there is scored, and the footer says when.
func TestRescore_unfinished(t *testing.T) {
	from, to := create(t), create(t)
	if err := from.AddItems(t.Context(), itemsOf(t, 3), dataset.Hash); err != nil {
		t.Fatal(err)
	}
	if err := from.Commit(t.Context(), outcome.Outcome{Item: "i01", Trial: 1, Attempt: 1, Detail: outcome.Detail{Output: json.RawMessage(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	if pid, writing, err := from.Writer(); err != nil || !writing || pid != strconv.Itoa(os.Getpid()) {
		t.Errorf("the writer is %q, %v, %v", pid, writing, err)
	}
	before := time.Now()
	footer, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(before, after outcome.Outcome) {}}, to, nil)
	if err != nil || footer.Status != outcome.Interrupted || footer.Planned != 3 || footer.Ended.Before(before) {
		t.Errorf("%+v, %v", footer, err)
	}
	path := from.Path()
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := runstore.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, writing, err := r.Writer(); err != nil || writing {
		t.Errorf("nobody writes it any more: %v, %v", writing, err)
	}
}
