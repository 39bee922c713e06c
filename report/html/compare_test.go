package html

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"extraction-experiment/compare"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/report"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	runs := newPair(t, 40, nil)
	got := comparePage(t, compareRuns(t, runs, gateConfig(t)), runs, Config{Links: []string{"/runs/a", "/runs/b"}})
	// Of 40 items 6 fail in both runs (3, 10, 17, 24, 31, 38), and doc-0005 fails in the
	// candidate. Of the 20 odd items, doc-0039 has 1 already, and 3, 17, 31 and 5 fail: 20 − 1 −
	// 3 − 1 = 15 improve. Items 5, 4, 8 and 12 get worse.
	wantTexts(t, got,
		`<strong class="word">better</strong>`, "entity_f1 0.421 → 0.478", `href="#/items?state=better"><b>15</b> better`,
		`href="#/items?state=worse"><b>4</b> worse`, `<a href="/runs/a"><bdi>base</bdi></a>`, "Gate: failed",
		`<span class="pill g-pass">pass</span></td><th scope="row"><bdi>entity_f1 &gt;= base - 0.05</bdi>`,
		`<span class="pill g-fail">fail</span></td><th scope="row"><bdi>failures &lt;= 2</bdi>`, "21 of 40 items tie")
	rows := jsonBlocks(t, got)
	var row struct {
		Runs []rowPart `json:"runs"`
	}
	if err := json.Unmarshal(rows["row5"], &row); err != nil || row.Runs[1].Class != "rate_limited" || *row.Runs[1].Scores[0] != 0 {
		t.Errorf("a failed item does not count as 0: %s %v", rows["row5"], err)
	}
	var pair struct {
		Document []any
		Runs     []struct{ Document []any }
	}
	if err := json.Unmarshal(rows["detail7"], &pair); err != nil || len(pair.Document) == 0 || pair.Runs[0].Document != nil {
		t.Errorf("the document is not there once: %s %v", rows["detail7"], err)
	}
}

// TestCompare_trials checks that trials have their own rows, that the page says so, and that it
// counts items.
func TestCompare_trials(t *testing.T) {
	secondTrial := func(i int, v *report.ItemView) {
		if i%2 == 1 {
			v.Outcome.Item, v.Outcome.Trial = newView("", i-1, 8).Outcome.Item, 2
		}
	}
	runs := newPair(t, 8, secondTrial)
	got := comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{})
	if !strings.Contains(got, "Every trial of an item has a row of its own") || !strings.Contains(string(jsonBlocks(t, got)["row1"]), `"id":"doc-0000","trial":2`) {
		t.Errorf("%s", jsonBlocks(t, got)["row1"])
	}
	// Means of two trials: doc-0000 gains (0 + 0.2)/2, and doc-0004 loses (0.1 + 5/7)/2 = 0.407.
	// In doc-0002 one trial fails in both runs, in doc-0006 one has 1 already.
	wantTexts(t, got, `<b>1</b> better`, `<b>1</b> worse`, `<b>2</b> the same`)
}

// TestCompare_swapped checks that swapping the runs swaps better and worse.
func TestCompare_swapped(t *testing.T) {
	runs := newPair(t, 40, nil)
	runs[0], runs[1] = runs[1], runs[0]
	got := comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{})
	wantTexts(t, got, `<strong class="word">worse</strong>`, "entity_f1 0.478 → 0.421", `state=worse"><b>15</b>`)
}

func TestCompare_incompatible(t *testing.T) {
	runs := append(newPair(t, 12, nil), newRun("third", 12, improve))
	c := compareRuns(t, runs[:2], compare.Config{}, "0.8", "0.9")
	got := comparePage(t, c, runs[:2], Config{})
	if !strings.Contains(got, `<bdi>scoring option threshold</bdi></th><td><bdi>0.8</bdi></td><td><bdi>0.9</bdi>`) || strings.Contains(got, "<script") {
		t.Errorf("runs that cannot be compared:\n%.3000s", got)
	}
	// If only one of two candidates can be compared, the page has its items.
	c = compareRuns(t, runs, compare.Config{}, "0.8", "0.9", "0.8")
	got = comparePage(t, c, runs, Config{Trace: func(run int, o outcome.Outcome) string { return []string{"/a", "/b", "/c"}[run] }})
	var pair struct{ Runs []pane }
	if err := json.Unmarshal(jsonBlocks(t, got)["detail1"], &pair); err != nil || len(pair.Runs) != 2 || pair.Runs[1].Trace != "/c" {
		t.Errorf("%d runs, %v", len(pair.Runs), err)
	}
	wantTexts(t, got, "cannot be compared</strong>", `"name":"third"`, "Candidates by entity_f1")
}

// TestCompare_hostile checks that untrusted text never becomes markup.
func TestCompare_hostile(t *testing.T) {
	runs := newPair(t, 30, poison)
	for i := range runs {
		runs[i].Summary.Run.Name, runs[i].Summary.Run.Dataset, runs[i].Summary.Run.Model = hostile, hostile, hostile
	}
	c := compareRuns(t, runs, gateConfig(t))
	r := &c.Candidates[0]
	r.Warnings, r.Gate.Rules[0].Rule, r.Gate.Rules[0].Reason = []string{hostile}, hostile, hostile
	r.Changed[0].Gained, r.Changed[0].Lost, r.Changed[0].BaseFailure = []string{hostile}, []string{hostile}, hostile
	got := comparePage(t, c, runs, Config{})
	jsonBlocks(t, got)
	mismatched := comparePage(t, compareRuns(t, runs, compare.Config{}, "0.8", `"`+strings.ReplaceAll(hostile, `"`, ``)+`"`), runs, Config{})
	for _, page := range []string{got, mismatched, runList(t), tracePageOf(t), askedPage(t)} {
		for _, forbidden := range []string{"<img", "window.pwned=1</script>", "<svg onload", "\u2028", "<!--<", " style=", `href="javascript`} {
			if strings.Contains(page, forbidden) {
				t.Errorf("the page has %q", forbidden)
			}
		}
	}
	if n := strings.Count(got, "<script"); n != 4 {
		t.Errorf("%d scripts", n)
	}
	for _, page := range []string{runList(t), tracePageOf(t), askedPage(t)} {
		if strings.Contains(page, "<script") || !strings.Contains(page, "script-src &#39;none&#39;") {
			t.Error("a page without script has one, or may have")
		}
	}
	wantTexts(t, runList(t), "1,234 not published")
}

// TestRunList_suggested checks which runs are selected: the newest, and as the base the next one
// of the same dataset and size.
func TestRunList_suggested(t *testing.T) {
	var runs []RunLink
	for _, row := range []report.RunRow{{Name: "new", Dataset: "d", Items: 38}, {Name: "other", Dataset: "e", Items: 38},
		{Name: "part", Dataset: "d", Items: 20}, {Name: "base", Dataset: "d", Items: 38}, {Name: "old", Dataset: "d", Items: 38}} {
		runs = append(runs, RunLink{RunRow: row, Path: row.Name})
	}
	page := written(t, func(w io.Writer) error { return RunList(w, "runs", runs, "", nil) })
	wantTexts(t, page, `aria-label="candidate: new" checked`, `aria-label="base: base" required checked`)
	if n := strings.Count(page, " checked"); n != 2 {
		t.Errorf("%d runs are selected", n)
	}
}

func runList(t *testing.T) string {
	t.Helper()
	mean := 0.5
	row := report.RunRow{Name: hostile, Dataset: hostile, Model: hostile, Status: hostile, Primary: hostile, Mean: &mean, AsZero: &mean, Items: 3, Failed: 1, Unpublished: 1234, Started: time.Now()}
	runs := []RunLink{{RunRow: row, Address: "/runs/a.run", Path: strings.ReplaceAll(hostile, "\u2028", "")},
		{RunRow: row, Address: "/runs/b.run", Path: "b"}}
	return written(t, func(w io.Writer) error { return RunList(w, hostile, runs, "/trigger", []string{hostile}) })
}

func askedPage(t *testing.T) string {
	t.Helper()
	row := RequestedRun{Time: time.Now(), Dataset: hostile, Settings: hostile, Run: hostile, State: hostile, Reason: hostile, Address: "/runs/a.run"}
	return written(t, func(w io.Writer) error { return WriteRequests(w, []RequestedRun{row}) })
}

func tracePageOf(t *testing.T) string {
	t.Helper()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	trace := Trace{ID: hostile, Name: hostile, Time: now, About: []string{hostile}, Scores: []TraceScore{{hostile, hostile, hostile, hostile}}}
	for _, id := range []string{"a", "b"} {
		trace.Observations = append(trace.Observations, Observation{ID: id, Parent: map[string]string{"b": "a"}[id], Name: hostile, Type: hostile, Level: "ERROR", Status: hostile,
			Start: now, End: now.Add(time.Second), Facts: []string{hostile}, Texts: [][2]string{{"Input", hostile}, {"Output", hostile}}})
	}
	return written(t, func(w io.Writer) error { return WriteTrace(w, trace) })
}

// TestWriteTrace_levels checks that errors and warnings are marked on closed observations.
func TestWriteTrace_levels(t *testing.T) {
	for level, want := range map[string]string{"ERROR": ">error</span>", "WARNING": ">warning</span>", "DEFAULT": "", "": ""} {
		trace := Trace{Observations: []Observation{{ID: "a", Name: "extract", Level: level}}}
		page := written(t, func(w io.Writer) error { return WriteTrace(w, trace) })
		if marked := strings.Contains(page, `<span class="pill`); marked != (want != "") || !strings.Contains(page, want) {
			t.Errorf("%q is not shown as %q", level, want)
		}
	}
}

func TestCompare_bounded(t *testing.T) {
	long := func(i int, v *report.ItemView) { v.Text = strings.Repeat("Ada Lovelace <b>\u2028</b> ", 500) }
	runs := newPair(t, 30, long)
	got := comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{MaxBytes: 100_000, MaxItems: 20})
	sum, listed := 0, 0
	for id, raw := range jsonBlocks(t, got) {
		if strings.HasPrefix(id, "detail") {
			sum, listed = sum+len(raw), listed+1
		}
	}
	if listed != 20 || sum > 100_000+20*len(noDetail) {
		t.Errorf("%d items of %d bytes", listed, sum)
	}
	wantTexts(t, got, "10 more items are not in this file", "20 item pages are shortened")
	text := strings.Repeat("x", suite.SampleOr(25_000, 70_000))
	trace := Trace{}
	for range 600 {
		trace.Observations = append(trace.Observations, Observation{Texts: [][2]string{{"Input", text}, {"Output", text}}})
	}
	var b strings.Builder
	if err := WriteTrace(&b, trace); err != nil || b.Len() > 12<<20 {
		t.Errorf("a trace of %d bytes became %d bytes: %v", 2*600*len(text), b.Len(), err)
	}
	if !strings.Contains(b.String(), "and 100 more observations") || !regexp.MustCompile(`… [\d,]+ more characters`).MatchString(b.String()) {
		t.Error("nothing says what is left out of the trace")
	}
}

func TestCompare_errors(t *testing.T) {
	runs := newPair(t, 8, nil)
	c := compareRuns(t, runs, compare.Config{})
	if err := Compare(io.Discard, c, runs[:1], Config{}); err == nil {
		t.Error("a comparison without its candidate")
	}
	if err := Compare(fullWriter{}, c, runs, Config{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	gone := errors.New("gone")
	runs[1].Items = func(yield func(*report.ItemView, error) bool) { yield(nil, gone) }
	if err := Compare(io.Discard, c, runs, Config{}); !errors.Is(err, gone) {
		t.Errorf("a run that breaks off: %v", err)
	}
}

func TestScaleOf(t *testing.T) {
	d := -0.02
	for name, tt := range map[string]struct {
		scores []compare.Score
		want   float64
	}{
		"nothing":      {nil, 0.05},
		"a difference": {[]compare.Score{{Difference: &d}}, 0.05},
		"an interval":  {[]compare.Score{{Difference: &d, CI95: &[2]float64{-0.12, 0.08}}}, 0.15},
		"exactly":      {[]compare.Score{{CI95: &[2]float64{-0.1, 0.15}}}, 0.15},
		"too far":      {[]compare.Score{{CI95: &[2]float64{-4, 2}}}, 1},
	} {
		if got := scaleOf(tt.scores); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestDepthsOf checks that cycles of parents end.
func TestDepthsOf(t *testing.T) {
	got := depthsOf([]Observation{{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "b"}, {ID: "d", Parent: "gone"},
		{ID: "x", Parent: "y"}, {ID: "y", Parent: "x"}, {ID: "self", Parent: "self"}})
	want := map[string]int{"b": 1, "c": 2, "x": maxDepth, "y": maxDepth, "self": maxDepth}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
