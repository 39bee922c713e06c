package experiment_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"slices"
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

func (f full) ForItem(item dataset.Item) (experiment.ItemScorer, error) { return f, nil }

func (full) Score(json.RawMessage) (experiment.Scored, error) {
	one := 1.0
	return experiment.Scored{Scores: []outcome.Score{{Name: "half", Value: &one}}, Warnings: []string{"seen"}}, nil
}

// TestRescore scores a run with an item of two attempts, a failure of the provider, one of the
// scoring and two more results. The task is not called, and the newest attempts are judged
// again.
func TestRescore(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 5)))
	noError(t, from.CompleteListing(t.Context(), "print"))
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
		noError(t, from.Commit(t.Context(), o))
	}
	commit("i00", 1, "", outcome.Timeout)
	commit("i00", 2, `{"n":0}`, outcome.OK)
	commit("i01", 1, "", outcome.Provider)
	commit("i02", 1, `{"n":2}`, outcome.InvalidOutput)
	commit("i03", 1, `{"n":3}`, outcome.OK)
	noError(t, from.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 5, Ended: began}))
	moved := 0
	footer, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(before, after outcome.Outcome) { moved++ }}, to, nil)
	if err != nil || footer.Status != outcome.Interrupted || footer.Planned != 5 || moved != 4 {
		t.Fatalf("%v, %+v, %d moved", err, footer, moved)
	}
	want := map[string]outcome.Class{"i00": "", "i01": outcome.Provider, "i02": "", "i03": ""}
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Depth: runstore.Full}) {
		noError(t, err)
		class, known := want[o.Item]
		delete(want, o.Item)
		attempt := map[string]int{"i00": 2}[o.Item] // of the copies too, a summary says how many were asked again
		if !known || o.Class != class || o.Attempt != max(1, attempt) || o.Latency != time.Second || *o.CostUSD != 0 || !o.Calls[0].Cached || *o.Calls[0].CostUSD != 0 {
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

// TestRescore_carries checks that scores of evaluators are copied unchanged, with the calls of
// their models at no cost, and that calls of other scores are not.
func TestRescore_carries(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 1)))
	noError(t, from.CompleteListing(t.Context(), "print"))
	began, cost, value := time.Unix(1e9, 0).UTC(), 0.5, 0.75
	judging := func(name string) outcome.Call {
		return outcome.Call{Name: name, Kind: outcome.JudgingKind, CostUSD: &cost, Started: began, Ended: began}
	}
	o := outcome.Outcome{Item: "i00", Trial: 1, Attempt: 1, Started: began, Ended: began,
		Scores: []outcome.Score{{Name: "half"}, {Name: "judge", Value: &value, Comment: "it said so"}, {Name: "silent", Reason: "the evaluator gave no score"}, {Name: "other", Value: &value}}}
	o.Output, o.Judging = json.RawMessage(`{}`), outcome.JudgingOf([]outcome.Call{judging("judge"), judging("other")})
	o.Calls = []outcome.Call{judging("judge"), judging("other")}
	noError(t, from.Commit(t.Context(), o))
	if _, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(outcome.Outcome, outcome.Outcome) {}}, to, []string{"judge", "silent"}); err != nil {
		t.Fatal(err)
	}
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Depth: runstore.Full}) {
		noError(t, err)
		judge, _ := outcome.Lookup(o.Scores, "judge")
		silent, ok := outcome.Lookup(o.Scores, "silent")
		_, other := outcome.Lookup(o.Scores, "other")
		if judge.Value == nil || *judge.Value != value || judge.Comment != "it said so" || !ok || silent.Reason == "" || other {
			t.Errorf("the scores are %+v", o.Scores)
		}
		if len(o.Calls) != 1 || o.Calls[0].Name != "judge" || *o.Calls[0].CostUSD != 0 || o.Judging != nil {
			t.Errorf("the calls are %+v, judging %+v", o.Calls, o.Judging)
		}
	}
}

// TestRescore_failed checks that an item whose gold cannot be used any more has no value of an
// evaluator, and that what was said of the gold then is not said again.
func TestRescore_failed(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 1)))
	noError(t, from.CompleteListing(t.Context(), "print"))
	o := outcome.Outcome{Item: "i00", Trial: 1, Attempt: 1, Started: time.Unix(1e9, 0), Ended: time.Unix(1e9, 0),
		Scores: []outcome.Score{{Name: "judge", Value: new(0.75)}}}
	o.Output, o.Warnings = json.RawMessage(`{}`), []string{experiment.GoldWarning + "unknown keys", "expected: 1 repetition", "seen"}
	noError(t, from.Commit(t.Context(), o))
	bad := half{judge: func(dataset.Item) error { return &outcome.Failure{Class: outcome.Item, Message: "no gold"} }}
	_, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: bad}, to, []string{"judge"})
	noError(t, err)
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Depth: runstore.Full}) {
		noError(t, err)
		if judge, ok := outcome.Lookup(o.Scores, "judge"); !ok || judge.Value != nil || !o.Failed() {
			t.Errorf("%+v", o)
		}
		if !slices.Equal(o.Warnings, []string{"seen"}) {
			t.Errorf("%q", o.Warnings)
		}
	}
}

// TestRescore_ownClass checks that an item that failed with a class of the task's own stays failed,
// although there is an output.
func TestRescore_ownClass(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 1)))
	noError(t, from.CompleteListing(t.Context(), "print"))
	failure := outcome.Failure{Class: "quota", Message: "none left"}
	o := outcome.Outcome{Item: "i00", Trial: 1, Attempt: 1, Class: failure.Class, Detail: outcome.Detail{Output: json.RawMessage(`{}`), Failure: &failure}}
	noError(t, from.Commit(t.Context(), o))
	_, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: half{}}, to, nil)
	noError(t, err)
	for o, err := range to.Outcomes(t.Context(), runstore.Query{Depth: runstore.Full}) {
		noError(t, err)
		if o.Class != failure.Class {
			t.Errorf("%q, %+v", o.Class, o.Scores)
		}
	}
}

// TestRescore_ends scores a run that ends meanwhile. The last outcome is committed behind those that
// were read, so that the new run is not complete.
func TestRescore_ends(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 2)))
	noError(t, from.CompleteListing(t.Context(), "print"))
	noError(t, from.Commit(t.Context(), outcome.Outcome{Item: "i01", Trial: 1, Attempt: 1, Detail: outcome.Detail{Output: json.RawMessage(`{}`)}}))
	ends := func(before, after outcome.Outcome) {
		noError(t, from.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 2, Ended: time.Unix(1e9, 0)}))
	}
	footer, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: ends}, to, nil)
	if err != nil || footer.Status != outcome.Interrupted {
		t.Errorf("%+v, %v", footer, err)
	}
}

// TestRescore_stops checks that Rescore into a run that is not empty is an error.
func TestRescore_stops(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 1)))
	noError(t, to.AddItems(t.Context(), itemsOf(t, 1)))
	if _, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}}, to, nil); !errors.Is(err, runstore.ErrDuplicate) {
		t.Errorf("into a run that is not empty: %v", err)
	}
}

// TestRescore_damaged checks that an outcome that cannot be read is an error, and not left out. A summary
// does not leave it out, either.
func TestRescore_damaged(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 2)))
	noError(t, from.Commit(t.Context(), outcome.Outcome{Item: "i01", Trial: 1, Attempt: 1, Detail: outcome.Detail{Output: json.RawMessage(`{}`)}}))
	noError(t, from.Close())
	db, err := sql.Open("sqlite", from.Path())
	noError(t, err)
	_, err = db.Exec("UPDATE outcome SET scores = x'01ff'")
	noError(t, errors.Join(err, db.Close()))
	r, err := runstore.Load(from.Path())
	noError(t, err)
	defer func() { _ = r.Close() }()
	if _, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: r, Scorer: full{}}, to, nil); !errors.Is(err, runstore.ErrDamaged) {
		t.Error(err)
	}
	if _, err := experiment.Summarise(t.Context(), r, nil, runstore.Full); !errors.Is(err, runstore.ErrDamaged) {
		t.Errorf("the summary: %v", err)
	}
}

// TestRescore_large checks that Rescore commits more bytes than it holds at once.
func TestRescore_large(t *testing.T) {
	from, to := create(t), create(t)
	items := itemsOf(t, 3)
	noError(t, from.AddItems(t.Context(), items))
	large := json.RawMessage(`"` + strings.Repeat("x", 9<<20) + `"`)
	for _, item := range items {
		noError(t, from.Commit(t.Context(), outcome.Outcome{Item: item.ID, Trial: 1, Attempt: 1, Detail: outcome.Detail{Output: large}}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := experiment.RescoreRun(ctx, experiment.RescoreConfig{From: from.Reader, Scorer: full{}}, to, nil); err != nil {
		t.Fatal(err)
	}
	if counts, err := to.Counts(t.Context()); err != nil || counts.Done != 3 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func itemsOf(t *testing.T, n int) []dataset.Item {
	t.Helper()
	var items []dataset.Item
	for page, err := range list(n).Pages(t.Context()) {
		noError(t, err)
		items = append(items, page...)
	}
	return items
}

// TestRescore_unfinished checks that Rescore of a run that is still being listed and run scores
// its outcomes, and that the footer has the current time.
func TestRescore_unfinished(t *testing.T) {
	from, to := create(t), create(t)
	noError(t, from.AddItems(t.Context(), itemsOf(t, 3)))
	noError(t, from.Commit(t.Context(), outcome.Outcome{Item: "i01", Trial: 1, Attempt: 1, Detail: outcome.Detail{Output: json.RawMessage(`{}`)}}))
	holder := "process " + strconv.Itoa(os.Getpid()) + " writes it"
	if err := runstore.Writing(from.Path()); !errors.Is(err, runstore.ErrLocked) || !strings.Contains(err.Error(), holder) {
		t.Errorf("who writes it: %v, want %s", err, holder)
	}
	before := time.Now()
	footer, err := experiment.RescoreRun(t.Context(), experiment.RescoreConfig{From: from.Reader, Scorer: full{}, Moved: func(before, after outcome.Outcome) {}}, to, nil)
	if err != nil || footer.Status != outcome.Interrupted || footer.Planned != 3 || footer.Ended.Before(before) {
		t.Errorf("%+v, %v", footer, err)
	}
	path := from.Path()
	noError(t, from.Close())
	r, err := runstore.Load(path)
	noError(t, err)
	defer func() { _ = r.Close() }()
	if err := runstore.Writing(path); err != nil {
		t.Errorf("nobody writes it any more: %v", err)
	}
}

// pagesOf is a Source of these items.
type pagesOf []dataset.Item

func (p pagesOf) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) { yield(p, nil) }
}

// TestRescore_gold scores results against changed gold: of four items, one has another expected
// output, one has another input, one is gone, and one is unchanged. A fifth item is new and
// ignored.
func TestRescore_gold(t *testing.T) {
	t.Chdir(t.TempDir())
	item := func(id, input, expected string) dataset.Item {
		return dataset.Item{ID: id, Input: json.RawMessage(input), Expected: json.RawMessage(expected)}
	}
	h := outcome.Header{RunUID: strings.Repeat("a", 32), Name: "before", Trials: 1, Dataset: outcome.Dataset{Name: "d", ID: "d1", Version: "then"}}
	from, err := runstore.Create(runstore.Path(experiment.Folder, "", "d", "before"), h)
	noError(t, err)
	defer func() { _ = from.Close() }()
	before := []dataset.Item{item("asis", `"a"`, `1`), item("gone", `"g"`, `1`), item("gold", `"o"`, `1`), item("input", `"i"`, `1`)}
	noError(t, errors.Join(from.AddItems(t.Context(), before), from.CompleteListing(t.Context(), "print")))
	for _, i := range before {
		o := outcome.Outcome{Item: i.ID, Trial: 1, Attempt: 1, Started: time.Unix(1e9, 0), Ended: time.Unix(1e9, 0)}
		o.Output = json.RawMessage(`2`)
		noError(t, from.Commit(t.Context(), o))
	}
	noError(t, from.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 4, Ended: time.Unix(1e9, 0)}))
	left := map[string]string{}
	made, path, err := experiment.Rescore(t.Context(), experiment.RescoreConfig{
		From: from.Reader, Name: "after", Scorer: exact{}, Moved: func(before, after outcome.Outcome) {},
		Gold: pagesOf{item("asis", `"a"`, `1`), item("gold", `"o"`, `2`), item("input", `"x"`, `2`), item("new", `"n"`, `2`)}, GoldVersion: "now",
		Left: func(item, why string) { left[item] = why },
	})
	noError(t, err)
	if made.Dataset.Version != "now" || made.Rescored.DatasetVersion != "then" || made.Dataset.ID != "d1" {
		t.Errorf("%+v, from %+v", made.Dataset, made.Rescored)
	}
	if len(left) != 2 || left["gone"] == "" || left["input"] == "" {
		t.Errorf("left out: %v", left)
	}
	to, err := runstore.Load(path)
	noError(t, err)
	defer func() { _ = to.Close() }()
	got := map[string]float64{}
	for o, err := range to.Outcomes(t.Context(), runstore.Query{}) {
		noError(t, err)
		got[o.Item] = *o.Scores[0].Value
	}
	if len(got) != 2 || got["asis"] != 0 || got["gold"] != 1 {
		t.Errorf("%v", got)
	}
	header, err := to.Header(t.Context())
	footer, _, errFooter := to.Footer(t.Context())
	if err != nil || errFooter != nil || header.Dataset.Fingerprint == "" || header.Dataset.Fingerprint == "print" || footer.Planned != 2 || footer.Status != outcome.Complete {
		t.Errorf("%v %v %+v %+v", err, errFooter, header.Dataset, footer)
	}
	if _, _, err := experiment.Rescore(t.Context(), experiment.RescoreConfig{From: from.Reader, Name: "none", Scorer: exact{}, Gold: pagesOf{item("new", `"n"`, `2`)}}); !errors.Is(err, experiment.ErrNoItems) {
		t.Errorf("no item is left: %v", err)
	}
	again := experiment.RescoreConfig{From: to, Name: "same", Scorer: exact{}, Gold: pagesOf{item("asis", `"a"`, `1`), item("gold", `"o"`, `2`)}}
	if _, path, err := experiment.Rescore(t.Context(), again); !errors.Is(err, experiment.ErrSameGold) || exists(path) {
		t.Errorf("the same gold: %v", err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
