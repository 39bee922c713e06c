package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// answered is a run of two questions: (1·1 + 0·3)/4 = 0.25.
func answered() Run {
	h := outcome.Header{Name: "asked", Harness: "answers", Started: began, Trials: 1, Metadata: map[string]string{outcome.PDFSHA256: "aa", outcome.QuestionsSHA256: "bb"},
		Dataset: outcome.Dataset{Name: "q.jsonl"}, Scorer: outcome.Scorer{Primary: "question_score"}}
	var items []ItemView
	for i, id := range []string{"light", "heavy"} {
		o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Scores: []outcome.Score{{Name: "question_score", Value: ptr(float64(1 - i)), Weight: ptr(float64(1 + 2*i))}}}
		items = append(items, ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o})
	}
	return runOf(h, items)
}

// TestFormats_answers: the headline of answers is in every form of a report, and
// weights stand beside the items.
func TestFormats_answers(t *testing.T) {
	for name, form := range map[string]struct {
		write func(io.Writer, []Run) error
		want  string
	}{
		"md":    {Markdown, "**weighted_score** 0.2500"},
		"junit": {JUnit, `<property name="weighted_score" value="0.25">`},
	} {
		var b bytes.Buffer
		if err := form.write(&b, []Run{answered()}); err != nil || !strings.Contains(b.String(), form.want) {
			t.Errorf("%s: no %s in\n%s%v", name, form.want, &b, err)
		}
	}
	var b bytes.Buffer
	if err := CSV(&b, []Run{answered()}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v, %v", rows, err)
	}
	at := slices.Index(rows[0], "weight")
	if at < 0 || rows[1][at] != "1" || rows[2][at] != "3" {
		t.Errorf("%q", rows)
	}
}

// TestRuns_weighted: the list has a column for it where a run has it.
func TestRuns_weighted(t *testing.T) {
	rows := []RunRow{{Name: "a", Primary: "question_score", Mean: ptr(0.5), Weighted: ptr(0.25), Started: began}, {Name: "b", Primary: "entity_f1", Mean: ptr(0.75), Started: began}}
	var both, without bytes.Buffer
	if err := Runs(&both, rows, Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if err := Runs(&without, rows[1:], Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(both.String(), "weighted") || !strings.Contains(both.String(), "0.250") || strings.Contains(without.String(), "weighted") {
		t.Errorf("%s%s", &both, &without)
	}
}
