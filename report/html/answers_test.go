package html

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"

	"extraction-experiment/internal/browsertest"
)

// answered is a run of questions of which each answer has one term, lacks
// another one and a page, and has a forbidden term.
func answered(name string) report.Run {
	run := built(name, 3, func(_ int, v *report.ItemView) {
		v.Text, v.Expected, v.Extracted, v.Faults = "How heavy?\n\n42 kg", nil, nil, nil
		v.Matches = []report.Match{{What: "term", Kind: "must include", Similarity: 1, Expected: "42", Extracted: "…42 kg…"}}
		v.Missed = []report.Miss{{What: "term", Index: 1, Value: "tons", Reason: "not in the answer"}, {What: "citation", Index: 2, Value: "стр. N", Reason: "the answer cites no page"}}
		v.Spurious = []report.Miss{{What: "term", Index: 2, Value: "kg", Reason: "forbidden, at character 3"}}
		v.Outcome.Causes, v.Outcome.Groups, v.Outcome.Output = nil, nil, encoded(map[string]string{"answer": "42 kg of " + name})
	})
	run.Summary.Answers = &outcome.Answers{WeightedScore: new(0.25), PDFSHA256: "aa"}
	return run
}

// TestWrite_answers: questions are not shown as if they were extractions.
func TestWrite_answers(t *testing.T) {
	got := page(t, []report.Run{answered("r")}, Config{})
	visible := got[strings.Index(got, "<main"):strings.LastIndex(got, "<script>")]
	for _, want := range []string{"weighted_score", "0.250", "by the weights of the questions"} {
		if !strings.Contains(visible, want) {
			t.Errorf("the overview does not say %q", want)
		}
	}
	if strings.Contains(visible, "Confusion:") {
		t.Error("there is a confusion of types")
	}
	blocks := details(t, got)
	var d struct {
		Runs []struct{ Terms []thing }
	}
	var m meta
	if err := json.Unmarshal(blocks["detail0"], &d); err != nil || len(d.Runs) != 1 || len(d.Runs[0].Terms) != 4 {
		t.Errorf("%v %s", err, blocks["detail0"])
	}
	if err := json.Unmarshal(blocks["meta0"], &m); err != nil || !m.Answers {
		t.Errorf("%v %s", err, blocks["meta0"])
	}
}

// TestBrowser_answers: the page of a question names what was missing, alone and
// in a comparison, where both answers stand.
func TestBrowser_answers(t *testing.T) {
	chromium := browsertest.Start(t)
	t.Run("run", func(t *testing.T) { answerAlone(t, chromium) })
	t.Run("comparison", func(t *testing.T) { answersCompared(t, chromium) })
}

const item_ = `document.getElementById("item").textContent`

func answerAlone(t *testing.T, chromium context.Context) {
	b := open(t, chromium, []report.Run{answered("r")}, Config{})
	b.Click(`nav a[data-view="items"]`)
	b.Click(`#list tbody td a`)
	for _, text := range []string{"Question and answer", "Terms 4", "tons", "not in the answer", "the answer cites no page", "forbidden, at character 3"} {
		want(b, item_+`.includes("`+text+`")`, true)
	}
	for _, text := range []string{"Entities", "none expected", "Relationships", "Extraction"} {
		want(b, item_+`.includes("`+text+`")`, false)
	}
}

func answersCompared(t *testing.T, chromium context.Context) {
	runs := []report.Run{answered("first"), answered("second")}
	c := compared(t, runs, compare.Config{})
	c.Candidates[0].Scores[0].Weighted = &compare.Weighted{Base: 0.25, Candidate: 0.5, Difference: 0.25}
	b := openPage(t, chromium, comparePage(t, c, runs, Config{}))
	want(b, `document.getElementById("overview").textContent.includes("weighted 0.2500 → 0.5000")`, true)
	b.Click(`nav a[data-view="items"]`)
	b.Click(`#list tbody td a`)
	for _, text := range []string{"Terms 4", "tons", "missed by both", "42 kg of first", "42 kg of second"} {
		want(b, item_+`.includes("`+text+`")`, true)
	}
	want(b, item_+`.includes("Entities")`, false)
}
