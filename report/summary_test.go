package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/outcome"
)

// trialsSummary returns a run of three trials over twelve items, some of them flaky.
func trialsSummary() outcome.Summary {
	h := outcome.Header{Name: "nightly", Trials: 3, Dataset: outcome.Dataset{Name: "docs"}, System: outcome.System{Model: "gpt-4o", Provider: "openai"},
		Scorer: outcome.Scorer{Primary: "entity_f1"}}
	sum := outcome.NewSummariser(h, outcome.SummaryConfig{})
	for i := range 14 {
		for trial := 1; trial <= 3; trial++ {
			v := .5 + float64(i%7)/20 + float64(trial*i%3)/10
			o := outcome.Outcome{Item: fmt.Sprintf("item-%02d", i), Trial: trial, CostUSD: new(.01), Usage: outcome.Usage{Input: 100},
				Scores: []outcome.Score{{Name: "entity_f1", Value: &v}, {Name: "entity_recall", Value: new(.5)}}}
			if i == 5 && trial == 2 {
				o.Class, o.Scores = outcome.Timeout, []outcome.Score{{Name: "entity_f1"}, {Name: "entity_recall"}}
			}
			sum.Add(o)
		}
	}
	s := sum.Summary()
	s.Finish(outcome.Footer{Status: outcome.Complete, Planned: 42})
	s.Published = &outcome.PublishedCount{Outcomes: 40, Waiting: 2}
	for i := range s.Trials.Runs {
		s.Trials.Runs[i].Name = []string{"nightly", "nightly#2", "nightly#3"}[i]
	}
	return s
}

func TestText_trials(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		opt := Options{Width: width}
		goldenPage(t, fmt.Sprintf("summary-trials-%d.txt", width), opt, func(w io.Writer) error { return Text(w, trialsSummary(), opt) })
	}
}

// TestTrials_areNoItems checks that no format counts trials as items.
func TestTrials_areNoItems(t *testing.T) {
	runs := []Run{{Summary: trialsSummary(), Items: func(func(*ItemView, error) bool) {}}}
	for name, write := range map[string]func(io.Writer, []Run) error{
		"text": func(w io.Writer, _ []Run) error { return Text(w, trialsSummary(), Options{}) }, "markdown": Markdown, "github": GitHub,
	} {
		if page := printed(t, func(w io.Writer) error { return write(w, runs) }); !strings.Contains(page, "14 items × 3 trials") || strings.Contains(page, "42 items") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
}

// TestMarkdown_trials checks that Markdown shows the variation between trials.
func TestMarkdown_trials(t *testing.T) {
	golden(t, "run-trials.md", printed(t, func(w io.Writer) error {
		return Markdown(w, []Run{{Summary: trialsSummary(), Items: func(func(*ItemView, error) bool) {}}})
	}))
}

func TestText_trialsOfAnyName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := trialsSummary()
		s.Run.Primary = rapid.String().Draw(t, "primary")
		s.Trials.Runs[0].Name = rapid.String().Draw(t, "name")
		s.Trials.FlakyItems[0].ID = strings.Repeat(hostile, 3)
		s.Trials.Scores[1].Name = hostile
		opt := Options{Width: rapid.IntRange(40, 200).Draw(t, "width"), Color: rapid.Bool().Draw(t, "colour")}
		checkLayout(t, printed(t, func(w io.Writer) error { return Text(w, s, opt) }), opt)
	})
}

// answersRun returns a run of two questions with the weighted score (1·1 + 0·3)/4 = 0.25.
func answersRun() Run {
	h := outcome.Header{Name: "asked", Harness: "answers", Started: began, Trials: 1, Metadata: map[string]string{outcome.PDFSHA256: "aa", outcome.QuestionsSHA256: "bb"},
		Dataset: outcome.Dataset{Name: "q.jsonl"}, Scorer: outcome.Scorer{Primary: "question_score"}}
	var items []ItemView
	for i, id := range []string{"light", "heavy"} {
		o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Scores: []outcome.Score{{Name: "question_score", Value: new(float64(1 - i)), Weight: new(float64(1 + 2*i))}}}
		items = append(items, ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o})
	}
	return runOf(h, items)
}

// TestFormats_answers checks that every format shows the weighted score, and the weights of items.
func TestFormats_answers(t *testing.T) {
	for name, form := range map[string]struct {
		write func(io.Writer, []Run) error
		want  string
	}{
		"md":    {Markdown, "**weighted_score** 0.2500"},
		"junit": {JUnit, `<property name="weighted_score" value="0.25">`},
	} {
		t.Run(name, func(t *testing.T) {
			wantTexts(t, printed(t, func(w io.Writer) error { return form.write(w, []Run{answersRun()}) }), form.want)
		})
	}
	text := printed(t, func(w io.Writer) error { return CSV(w, []Run{answersRun()}) })
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v, %v", rows, err)
	}
	at := slices.Index(rows[0], "weight")
	if at < 0 || rows[1][at] != "1" || rows[2][at] != "3" {
		t.Errorf("%q", rows)
	}
}

// TestRuns_weighted checks that the list has a column for the weighted score if a run has one.
func TestRuns_weighted(t *testing.T) {
	rows := []RunRow{{Name: "a", Primary: "question_score", Mean: new(0.5), Weighted: new(0.25), Started: began}, {Name: "b", Primary: "entity_f1", Mean: new(0.75), Started: began}}
	wantTexts(t, printed(t, func(w io.Writer) error { return Runs(w, rows, Options{Width: 100}) }), "weighted", "0.250")
	if without := printed(t, func(w io.Writer) error { return Runs(w, rows[1:], Options{Width: 100}) }); strings.Contains(without, "weighted") {
		t.Error(without)
	}
}

func TestKinds(t *testing.T) {
	first := func(s string) string { return s[:1] }
	for name, tt := range map[string]struct {
		groups []string
		want   [][]string
	}{
		"none":    {nil, nil},
		"one":     {[]string{"a1"}, [][]string{{"a1"}}},
		"several": {[]string{"a1", "a2", "b1", "c1", "c2"}, [][]string{{"a1", "a2"}, {"b1"}, {"c1", "c2"}}},
	} {
		if diff := cmp.Diff(tt.want, kinds(tt.groups, first)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestScoreTable_nothingToFind: if 4 of 20 items have nothing to find, a mean of 0.6 is (0.6·20 − 4)/16
// = 0.5 in the others. There is no note for 1 of 20 items, or if the others are as good.
func TestScoreTable_nothingToFind(t *testing.T) {
	v := SummaryView{Summary: outcome.Summary{Scores: outcome.Stats{
		{Name: "entity_f1", Mean: new(0.6), N: 20, Vacuous: 4}, {Name: "entity_recall", Mean: new(0.2), N: 20, Vacuous: 4},
		{Name: "relationship_f1", Mean: new(1.0), N: 7, Vacuous: 7}, {Name: "item_perfect", Mean: new(0.3), N: 20, Vacuous: 1}, {Name: "entity_exact_f1", Mean: new(1.0), N: 20, Vacuous: 4},
		{Name: "type_accuracy", N: 0},
	}}}
	want := []string{
		"value 1 in 4 of 20 items, as there is nothing to count; the mean of the others: entity_f1 0.500, entity_recall 0.000",
		"value 1 in 7 of 7 items, as there is nothing to count; the mean of the others: relationship_f1 –",
	}
	if diff := cmp.Diff(want, v.ScoreTable().Notes); diff != "" {
		t.Error(diff)
	}
}

// TestSpreadTable_unanswered checks that the note says which trials count as 0.
func TestSpreadTable_unanswered(t *testing.T) {
	v := SummaryView{Summary: outcome.Summary{Trials: &outcome.Trials{}, Scores: outcome.Stats{{Name: "judge"}}}}
	for unanswered, want := range map[int]string{
		0: "failed trials count as 0 ·", 2: "failed trials, and those that an evaluator gave no score for, count as 0 ·",
	} {
		v.Scores[0].Unanswered = unanswered
		if got := v.SpreadTable().Notes[0]; !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s", unanswered, got)
		}
	}
}
