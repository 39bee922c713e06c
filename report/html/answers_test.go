package html

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"

	"extraction-experiment/internal/browsertest"
)

// answered is a run of questions of which each answer has one term, lacks
// another one and a page, and has a forbidden term.
func answered(name string, changes ...func(*report.ItemView)) report.Run {
	run := built(name, 3, func(_ int, v *report.ItemView) {
		v.Text, v.Expected, v.Extracted, v.Faults = "How heavy?\n\n42 kg", nil, nil, nil
		v.Matches = []report.Match{{What: "term", Kind: "must include", Similarity: 1, Expected: "42", Extracted: "…42 kg…"}}
		v.Missed = []report.Miss{{What: "term", Index: 1, Value: "tons", Reason: "not in the answer"}, {What: "citation", Index: 2, Value: "стр. N", Reason: "the answer cites no page"}}
		v.Spurious = []report.Miss{{What: "term", Index: 2, Value: "kg", Reason: "forbidden, at character 3"}}
		v.Outcome.Causes, v.Outcome.Groups, v.Outcome.Output = nil, nil, encoded(map[string]string{"answer": "42 kg of " + name})
		v.Outcome.Explanation = []byte("{}")
		for _, change := range changes {
			change(v)
		}
	})
	run.Summary.Answers = &outcome.Answers{WeightedScore: new(0.25), PDFSHA256: "aa"}
	return run
}

// citing makes an answer one that cites a page, of which nothing is said then.
func citing(v *report.ItemView) { v.Missed = v.Missed[:1] }

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
		Runs []struct{ Terms []itemRow }
	}
	var m meta
	if err := json.Unmarshal(blocks["detail0"], &d); err != nil || len(d.Runs) != 1 || len(d.Runs[0].Terms) != 4 {
		t.Errorf("%v %s", err, blocks["detail0"])
	}
	if err := json.Unmarshal(blocks["meta0"], &m); err != nil || !m.Answers || !slices.Equal(m.Causes, []string{"term · missed", "term · forbidden", "citation · missed"}) {
		t.Errorf("%v %s", err, blocks["meta0"])
	}
	var row struct{ Runs []rowPart }
	faults := map[string]int{"term · missed": 1, "term · forbidden": 1, "citation · missed": 1}
	if err := json.Unmarshal(blocks["row0"], &row); err != nil || !maps.Equal(row.Runs[0].Faults, faults) {
		t.Errorf("%v %s", err, blocks["row0"])
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
	b.Choose("#cause", "citation · missed")
	want(b, rowCount, 3)
	want(b, `document.querySelector("#list tbody td:nth-last-child(3)").textContent`, "3") // before latency and cost
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

// TestBrowser_citation: an answer that cites a page has what one lacks that does
// not, and of one that was not judged nothing is said.
func TestBrowser_citation(t *testing.T) {
	chromium := browsertest.Start(t)
	failing := func(v *report.ItemView) {
		fail(v, "timeout", "no answer within 30s")
		v.Outcome.Explanation = nil
	}
	for name, tt := range map[string]struct {
		base, candidate []func(*report.ItemView)
		row, faults     string
	}{
		"gained":  {nil, []func(*report.ItemView){citing}, "стр. N|nothing|a page is citedcitation|gained", "3 → 2"},
		"lost":    {[]func(*report.ItemView){citing}, nil, "стр. N|a page is citedcitation|nothing|lost", "2 → 3"},
		"neither": {nil, nil, "стр. N|nothing|nothing|missed by both", "3 → 3"},
		"both":    {[]func(*report.ItemView){citing}, []func(*report.ItemView){citing}, "", "2 → 2"},
		"failed":  {nil, []func(*report.ItemView){failing}, "стр. N|nothing|–|missed by both", "3 → –"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := []report.Run{answered("first", tt.base...), answered("second", tt.candidate...)}
			b := openPage(t, chromium, comparePage(t, compared(t, runs, compare.Config{}), runs, Config{}))
			b.Click(`nav a[data-view="items"]`)
			want(b, `document.querySelector("#list tbody td.extra").textContent`, tt.faults)
			b.Click(`#list tbody td a`)
			want(b, `Array.from(document.querySelectorAll("#item .terms tbody tr")).filter(tr => tr.textContent.includes("стр. N")).map(tr => Array.from(tr.cells, td => td.textContent).join("|")).join()`, tt.row)
			b.Quiet()
		})
	}
}
