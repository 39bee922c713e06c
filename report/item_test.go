package report

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

func itemView() ItemView {
	return ItemView{
		Run: "gpt-prompt-3", Dataset: "extraction-eval",
		Text: "Ada Lovelace worked with Charles Babbage in London.\n\nBabbage designed the Analytical Engine; Lovelace wrote notes on it, " +
			"which are often called the first published program.\n" + strings.Repeat("More words follow here. ", 20),
		Extracted: &extraction.Extraction{
			Entities: []extraction.Entity{{Name: "Ada Lovelace", Type: "Person"}, {Name: "Charles Babage", Type: "Person"},
				{Name: "Analytical Engines", Type: "Organisation"}, {Name: "Paris", Type: "Place"}},
			Relationships: []extraction.Relationship{{Source: "Ada Lovelace", Target: "Charles Babage", Type: "works_with"},
				{Source: "Ada Lovelace", TargetRef: "e9", Type: "lives_in"}},
		},
		Matches: []Match{
			{What: "entity", Kind: "exact", Similarity: 1, Expected: "Ada Lovelace (Person)", Extracted: "Ada Lovelace (Person)", TypeCorrect: new(true)},
			{What: "entity", Kind: "fuzzy", Similarity: 1 - 1.0/15, Expected: "Charles Babbage (Person)", Extracted: "Charles Babage (Person)", TypeCorrect: new(true)},
			{What: "entity", Kind: "fuzzy", Similarity: 1 - 1.0/18, Expected: "Analytical Engine (Machine)", Extracted: "Analytical Engines (Organisation)", TypeCorrect: new(false)},
			{What: "relationship", Kind: "fuzzy", Similarity: 0.97, Expected: "Ada Lovelace works_with Charles Babbage", Extracted: "Ada Lovelace works_with Charles Babage"},
		},
		Missed:   []Miss{{What: "entity", Value: "London (Place)", Nearest: "Analytical Engines (Organisation)", Similarity: 0.2222, Reason: "similarity 0.222 is not over 0.85"}},
		Spurious: []Miss{{What: "entity", Value: "Paris (Place)"}, {What: "relationship", Value: "Ada Lovelace lives_in e9", Reason: "its target is not an entity"}},
		Outcome: outcome.Outcome{Item: "doc-05", Trial: 2, Attempt: 2, Latency: 1234 * time.Millisecond, CostUSD: new(0.00042),
			Usage: outcome.Usage{Input: 1200, Output: 300, Cached: 100, Reasoning: 50},
			Scores: []outcome.Score{{Name: "entity_f1", Value: new(0.75), Comment: "3 of 4 expected and 4 extracted entities matched"},
				{Name: "type_accuracy", Reason: "no matched pair is judged"}},
			Detail: outcome.Detail{
				Calls: []outcome.Call{
					{Name: "extract", Kind: "generation", Model: "gpt-4o-mini", Attempts: 2, Usage: outcome.Usage{Input: 1200, Output: 300}, Started: began, Ended: began.Add(1100 * time.Millisecond)},
					{Name: "repair", Kind: "span", Started: began, Ended: began.Add(200 * time.Microsecond), Error: "the answer ends in the middle of a string; " + strings.Repeat("closed it; ", 30)},
				},
				Warnings: []string{"a chunk was cut in the middle of a sentence"},
			}},
	}
}

func TestItem_golden(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		opt := Options{Width: width, Document: 250, Where: where[1:]}
		goldenPage(t, fmt.Sprintf("item-%d.txt", width), opt, func(w io.Writer) error { return Item(w, itemView(), opt) })
	}
}

func TestItem_failed(t *testing.T) {
	expected := &extraction.Extraction{Entities: []extraction.Entity{{Name: "Ada " + hostile, Type: "Person"}}}
	v := ItemView{Run: "r", Dataset: "d", Text: "文档" + hostile, Expected: expected, Outcome: outcome.Outcome{Item: "项目 " + hostile, Class: outcome.Timeout,
		Detail: outcome.Detail{Failure: &outcome.Failure{Class: outcome.Timeout, Message: "no answer within 30s " + hostile}}}}
	goldenPage(t, "item-failed.txt", Options{}, func(w io.Writer) error { return Item(w, v, Options{}) })
}

func TestItem_foreign(t *testing.T) {
	v := itemView()
	v.Text = "تأسست شركة الاتصالات في الرياض عام ١٩٩٨. " + strings.Repeat("北京大学成立于一八九八年。", 12)
	v.Extracted.Entities = []extraction.Entity{{Name: "شركة الاتصالات", Type: "منظمة"}, {Name: "北京大学", Type: "组织"}, {}}
	v.Matches = []Match{{Kind: "exact", Similarity: 1, Expected: "北京大学 (组织)", Extracted: "北京大学 (组织)"},
		{Kind: "fuzzy", Similarity: 0.9, Expected: "شركة الاتصالات", Extracted: "شركة الاتصال", TypeCorrect: new(true)}}
	v.Missed = []Miss{{What: "entity", Value: "الرياض", Nearest: "北京大学", Similarity: 0.1}}
	goldenPage(t, "item-foreign.txt", Options{}, func(w io.Writer) error { return Item(w, v, Options{}) })
}

func TestItem_documentOfTenMegabytes(t *testing.T) {
	v := ItemView{Text: strings.Repeat("é\x1b", 5<<20)}
	started := time.Now()
	got := printed(t, func(w io.Writer) error { return Item(w, v, Options{}) })
	// 2·5·2²⁰ characters less the 2,000 that are shown
	if !strings.Contains(got, "10,483,760 more characters") || len(got) > 20_000 {
		t.Errorf("%d bytes: %.300q", len(got), got)
	}
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestItem_nothingExtracted(t *testing.T) {
	got := printed(t, func(w io.Writer) error { return Item(w, ItemView{Extracted: &extraction.Extraction{}}, Options{}) })
	if !strings.Contains(got, "Extracted\n  nothing\n") {
		t.Errorf("%s", got)
	}
}

func runRows() []RunRow {
	return []RunRow{
		{Name: "baseline-v1", Dataset: "extraction-eval", Model: "baseline", Status: "complete", Items: 24, Primary: "entity_f1", Mean: new(0.41234), AsZero: new(0.41234), Started: began},
		{Name: "gpt-prompt-3-with-a-rather-long-name", Dataset: "extraction-eval", Model: "gpt-4o-mini-2024-07-18", Status: "interrupted", Items: 1024, Trials: 3, Failed: 3, Unpublished: 12, Primary: "entity_f1", Mean: new(0.72), AsZero: new(0.7), Started: began.Add(time.Hour)},
		{Name: "実験" + hostile, Dataset: "بيانات", Model: "模型", Status: "unfinished", Items: 0, Primary: "entity_f1"},
	}
}

func TestRuns_golden(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120} {
		opt := Options{Width: width}
		goldenPage(t, fmt.Sprintf("runs-%d.txt", width), opt, func(w io.Writer) error { return Runs(w, runRows(), opt) })
	}
	whole := printed(t, func(w io.Writer) error { return Runs(w, runRows(), Options{Whole: true}) })
	golden(t, "runs-whole.txt", whole)
}

// TestRuns_names checks that columns are dropped before a name is cut, which could not be given to
// another command. Beside a name of 70 are 120-70-2-8 = 40 cells for status, items, failed and primary.
func TestRuns_names(t *testing.T) {
	name := strings.Repeat("long-name-", 7)
	row := RunRow{Name: name, Dataset: "d", Model: "m", Status: "complete", Items: 24, Primary: "entity_f1", Started: began}
	got := printed(t, func(w io.Writer) error { return Runs(w, []RunRow{row}, Options{Width: 120}) })
	wantTexts(t, got, "  "+name+"  ", "columns that do not fit: started")
	if strings.Contains(got, "experiment runs") {
		t.Errorf("a note without a name that was cut: %s", got)
	}
}

func TestRuns_differentPrimaries(t *testing.T) {
	rows := runRows()
	rows[0].Primary = "question_score"
	got := printed(t, func(w io.Writer) error { return Runs(w, rows, Options{Width: 150}) })
	wantTexts(t, got, "primary", "0.412 question_score", "0.700 entity_f1")
}

func TestRuns_none(t *testing.T) {
	if got := printed(t, func(w io.Writer) error { return Runs(w, nil, Options{}) }); got != "no runs\n" {
		t.Errorf("%q", got)
	}
}
