package runstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// smallRun returns the export of a run with everything in it: 8 lines.
func smallRun(t testing.TB) string {
	run := newRun(t, 3)
	noError(t, run.SetExperiment(t.Context(), Experiment{1, "e1", "https://example.org/1"}))
	for n := range 2 {
		noError(t, run.Commit(t.Context(), testOutcome(n, 100)))
	}
	noError(t, run.Finish(t.Context(), testFooter()))
	return export(t, run.Reader)
}

func TestExport_lines(t *testing.T) {
	var kinds []string
	for line := range strings.Lines(smallRun(t)) {
		var l struct{ Kind string }
		noError(t, json.Unmarshal([]byte(line), &l))
		kinds = append(kinds, l.Kind)
	}
	want := "header experiment item item item outcome outcome footer"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("kinds %q, want %q", got, want)
	}
}

func TestExport_orderOfCommitDoesNotShow(t *testing.T) {
	var texts [2]string
	for i, order := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		run := newRun(t, 3)
		for _, n := range order {
			noError(t, run.Commit(t.Context(), testOutcome(n, 100)))
			if i == 1 { // interrupted after each
				noError(t, run.Finish(t.Context(), testFooter()))
			}
		}
		noError(t, run.Finish(t.Context(), testFooter()))
		texts[i] = export(t, run.Reader)
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Error(diff)
	}
}

func TestImport_errors(t *testing.T) {
	lines := strings.SplitAfter(smallRun(t), "\n")[:8]
	with := func(n int, line string) string { // the n-th line, from 1, replaced
		changed := append([]string(nil), lines...)
		changed[n-1] = line
		return strings.Join(changed, "")
	}
	tests := map[string]struct {
		text, want string
	}{
		"empty":             {"", "line 1: the export ends without its footer"},
		"no JSON":           {with(4, "{\n"), "line 4: it is no JSON object"},
		"blank line":        {with(4, "\n"), "line 4"},
		"unknown kind":      {with(4, `{"kind":"x"}`+"\n"), `line 4: its kind is "x"`},
		"unknown key":       {with(4, strings.Replace(lines[3], `"seq"`, `"sequence"`, 1)), "line 4: it is not as an export"},
		"item twice":        {with(4, lines[2]), `line 4: item "item-000000": is in the run already`},
		"outcome twice":     {with(7, lines[5]), "line 7: outcome of item"},
		"unknown item":      {with(7, strings.Replace(lines[6], "item-000001", "item-9", 1)), "line 7: outcome of item \"item-9\""},
		"header later":      {with(2, lines[0]), `line 2: its kind is "header"`},
		"no header":         {strings.Join(lines[1:], ""), "line 1: its kind is"},
		"item after":        {with(6, lines[3]), ""},
		"after the footer":  {strings.Join(lines, "") + lines[7], "line 9"},
		"a line is missing": {with(7, ""), "line 7: the footer counts 3 items and 2 outcomes"},
		"later format":      {with(1, strings.Replace(lines[0], `"format":1`, `"format":9,"news":1`, 1)), "line 1: the export has a newer format"},
		"no uid":            {with(1, `{"kind":"header","format":1}`+"\n"), "line 1: the header"},
		"cut between lines": {strings.Join(lines[:7], ""), "line 8: the export ends without its footer"},
		"cut in a line":     {strings.Join(lines[:6], "") + lines[6][:50], "line 7: it is no JSON object"},
	}
	for name, test := range tests {
		folder := t.TempDir()
		err := Import(t.Context(), strings.NewReader(test.text), filepath.Join(folder, "x.run"))
		var at *LineError
		if !errors.As(err, &at) || at.ExitCode() != 64 || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if left := files(t, folder); len(left) != 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
}

func TestOpenAny(t *testing.T) {
	text := smallRun(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	jsonl := filepath.Join(t.TempDir(), "run.jsonl")
	noError(t, os.WriteFile(jsonl, []byte(text), 0o600))
	path := filepath.Join(t.TempDir(), "x.run")
	noError(t, Import(t.Context(), strings.NewReader(text), path))
	if err := Import(t.Context(), strings.NewReader(text), path); !errors.Is(err, ErrExists) {
		t.Errorf("import over a run: %v", err)
	}
	for _, name := range []string{jsonl, path} {
		r, err := OpenAny(t.Context(), name)
		noError(t, err)
		if diff := cmp.Diff(text, export(t, r)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		noError(t, r.Close())
	}
	if left := files(t, folder); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
	noError(t, os.WriteFile(jsonl, []byte(text[:len(text)/2]), 0o600))
	if _, err := OpenAny(t.Context(), jsonl); err == nil || !strings.Contains(err.Error(), jsonl+": line ") {
		t.Errorf("cut off: %v", err)
	}
	noError(t, os.WriteFile(jsonl, []byte("text"), 0o600))
	if _, err := OpenAny(t.Context(), jsonl); !errors.Is(err, ErrNotRun) {
		t.Errorf("text: %v", err)
	}
}

// drawOutcome makes outcomes with everything that can be odd about them.
func drawOutcome(t *rapid.T, item string, attempt int) outcome.Outcome {
	text := rapid.String()
	o := outcome.Outcome{Item: item, Trial: rapid.IntRange(1, 2).Draw(t, "trial"), Attempt: attempt,
		Latency: time.Duration(rapid.Int64().Draw(t, "latency"))}
	if rapid.Bool().Draw(t, "timed") {
		o.Started = time.Unix(0, rapid.Int64().Draw(t, "started"))
		o.Ended = o.Started.Add(time.Second)
		if o.Ended.UnixNano() < o.Started.UnixNano() || o.Started.Year() < 1680 {
			o.Started, o.Ended = testTime, testTime
		}
	}
	if rapid.Bool().Draw(t, "failed") {
		o.Class = outcome.Timeout
		o.Failure = &outcome.Failure{Class: o.Class, Message: text.Draw(t, "message")}
	}
	o.Usage = outcome.Usage{Input: rapid.Int64().Draw(t, "in"), Reasoning: rapid.Int64().Draw(t, "reasoning")}
	for range rapid.IntRange(0, 5).Draw(t, "scores") {
		s := outcome.Score{Name: text.Draw(t, "name"), Reason: text.Draw(t, "reason"), Comment: text.Draw(t, "comment"),
			Boolean: rapid.Bool().Draw(t, "boolean"), Vacuous: rapid.Bool().Draw(t, "vacuous")}
		if rapid.Bool().Draw(t, "defined") {
			s.Value = value(rapid.Float64().Draw(t, "value"))
		}
		if rapid.Bool().Draw(t, "pooled") {
			s.Ratio = &outcome.Ratio{Num: rapid.Int64Range(-3, 9).Draw(t, "num"), Den: rapid.Int64Range(0, 9).Draw(t, "den")}
			if s.Value != nil && s.Ratio.Den != 0 {
				s.Value = value(quotient(*s.Ratio))
			}
		}
		if rapid.Bool().Draw(t, "counted") {
			s.Counts = map[string]int64{text.Draw(t, "key"): 1}
		}
		o.Scores = append(o.Scores, s)
	}
	o.Warnings = rapid.SliceOfN(text, 0, 2).Draw(t, "warnings")
	return o
}

// drawnItem is an item with its outcomes.
type drawnItem struct {
	dataset.Item
	outcomes []outcome.Outcome
}

func drawItems(t *rapid.T) []drawnItem {
	var items []drawnItem
	for _, id := range rapid.SliceOfNDistinct(rapid.StringN(1, 8, 30), 1, 20, rapid.ID[string]).Draw(t, "ids") {
		metadata, err := json.Marshal(rapid.String().Draw(t, "metadata"))
		if err != nil {
			t.Fatal(err)
		}
		item := drawnItem{Item: dataset.Item{ID: id, Input: metadata, Metadata: metadata, SourceTraceID: rapid.String().Draw(t, "trace")}}
		for attempt := range rapid.IntRange(0, 3).Draw(t, "attempts") {
			item.outcomes = append(item.outcomes, drawOutcome(t, id, attempt+1))
		}
		items = append(items, item)
	}
	return items
}

// A run takes several syncs of the disk, so that these are examples of a fixed
// seed, large ones, and not the hundred cases of a Check.
func TestImport_ofExportIsIdentity(t *testing.T) {
	runs := rapid.Custom(drawItems)
	for seed := range 12 {
		run := newRun(t, 0)
		ctx := t.Context()
		for _, item := range runs.Example(seed) {
			noError(t, run.AddItems(ctx, []dataset.Item{item.Item}, testHash))
			for _, o := range item.outcomes {
				noError(t, run.Commit(ctx, o))
			}
		}
		text := export(t, run.Reader)
		second := filepath.Join(t.TempDir(), "second.run")
		noError(t, Import(ctx, strings.NewReader(text), second))
		again, err := Load(second)
		noError(t, err)
		if diff := cmp.Diff(text, export(t, again)); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
		same := cmp.Diff(collect(t, run.Reader, Query{Newest: true, Detail: true}), collect(t, again, Query{Newest: true, Detail: true}))
		if same != "" {
			t.Errorf("seed %d, newest: %s", seed, same)
		}
		noError(t, again.Close())
	}
}

// Scores come back as they were, bit by bit.
func TestScores_decodeIsTheInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawOutcome(rt, "x", 1).Scores
		w := &words{index: map[string]int{}}
		got, err := decodeScores(appendScores(nil, w, want), w)
		noError(t, err)
		for i := range want {
			want[i].Comment, want[i].Counts = "", nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func FuzzScores(f *testing.F) {
	w := &words{index: map[string]int{}}
	f.Add(appendScores(nil, w, testOutcome(1, 0).Scores))
	f.Fuzz(func(t *testing.T, b []byte) {
		scores, err := decodeScores(b, w)
		if err == nil && len(scores) > len(b) {
			t.Errorf("%d scores of %d bytes", len(scores), len(b))
		}
	})
}

// What is imported without an error comes out the same once it was exported.
func FuzzImport(f *testing.F) {
	f.Add([]byte(smallRun(f)))
	f.Add([]byte(`{"kind":"header","format":1,"run_uid":"a"}` + "\n" + `{"kind":"footer","items":0,"outcomes":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		folder := t.TempDir()
		first, second := filepath.Join(folder, "1.run"), filepath.Join(folder, "2.run")
		if Import(t.Context(), bytes.NewReader(text), first) != nil {
			return
		}
		one, err := Load(first)
		noError(t, err)
		defer one.Close()
		exported := export(t, one)
		noError(t, Import(t.Context(), strings.NewReader(exported), second))
		two, err := Load(second)
		noError(t, err)
		defer two.Close()
		if diff := cmp.Diff(exported, export(t, two)); diff != "" {
			t.Error(diff)
		}
	})
}
