package html

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// newAnswerRun returns a run of questions. Each answer has one term, lacks another term and a
// page, and has a forbidden term.
func newAnswerRun(name string, n int, changes ...func(*report.ItemView)) report.Run {
	run := newRun(name, n, func(_ int, v *report.ItemView) {
		v.Text, v.Expected, v.Extracted, v.Faults = "How heavy?\n\n42 kg", nil, nil, nil
		v.Matches = []report.Match{{What: "term", Kind: "must include", Similarity: 1, Expected: "42", Extracted: "…42 kg…"}}
		v.Missed = []report.Miss{{What: "term", Index: 1, Value: "tons", Reason: "not in the answer"}, {What: "citation", Index: 2, Value: "стр. N", Reason: "the answer cites no page"}}
		v.Spurious = []report.Miss{{What: "term", Index: 2, Value: "kg", Reason: "forbidden, at character 3"}}
		v.Outcome.Causes, v.Outcome.Groups, v.Outcome.Output = nil, nil, mustJSON(map[string]string{"answer": "42 kg of " + name})
		v.Outcome.Explanation = []byte("{}")
		for _, change := range changes {
			change(v)
		}
	})
	run.Summary.Answers = &outcome.Answers{WeightedScore: new(0.25), PDFSHA256: "aa"}
	return run
}

// addCitation makes the answer cite a page.
func addCitation(v *report.ItemView) {
	v.Missed = v.Missed[:1]
	v.Matches = append(v.Matches, report.Match{What: "citation", Kind: "citation", Similarity: 1, Expected: "стр. N", Extracted: "a page is cited", ExpectedIndex: 2, ExtractedIndex: 2})
}

// TestWrite_answers checks that questions are not shown as extractions.
func TestWrite_answers(t *testing.T) {
	got := page(t, []report.Run{newAnswerRun("r", 3)}, Config{})
	visible := got[strings.Index(got, "<main"):strings.LastIndex(got, "<script>")]
	wantTexts(t, visible, `<span class="name">weighted_score</span><strong>0.2500</strong>`)
	blocks := jsonBlocks(t, got)
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

// answerAlone and answersCompared check that the page of a question names what is missing, alone
// and in a comparison, which shows both answers.

const itemText = `document.getElementById("item").textContent`

func answerAlone(t *testing.T, chromium context.Context) {
	b := open(t, chromium, []report.Run{newAnswerRun("r", 3)}, Config{})
	b.Click(`nav a[data-view="items"]`)
	b.Choose("#cause", "citation · missed")
	want(b, rowCount, 3)
	want(b, `document.querySelector("#list tbody td:nth-last-child(3)").textContent`, "3") // before latency and cost
	b.Click(`#list tbody td a`)
	for _, text := range []string{"Question and answer", "Terms 4", "tons", "not in the answer", "the answer cites no page", "forbidden, at character 3"} {
		want(b, itemText+`.includes("`+text+`")`, true)
	}
	for _, text := range []string{"Entities", "none expected", "Relationships", "Extraction"} {
		want(b, itemText+`.includes("`+text+`")`, false)
	}
}

func answersCompared(t *testing.T, chromium context.Context) {
	runs := []report.Run{newAnswerRun("first", 3), newAnswerRun("second", 3)}
	c := compareRuns(t, runs, compare.Config{})
	c.Candidates[0].Scores[0].Weighted = &compare.Weighted{Base: 0.25, Candidate: 0.5, Difference: 0.25}
	b := openPage(t, chromium, comparePage(t, c, runs, Config{}))
	want(b, `document.getElementById("overview").textContent.includes("weighted 0.2500 → 0.5000")`, true)
	b.Click(`nav a[data-view="items"]`)
	b.Click(`#list tbody td a`)
	for _, text := range []string{"Terms 4", "tons", "missed by both", "42 kg of first", "42 kg of second"} {
		want(b, itemText+`.includes("`+text+`")`, true)
	}
	want(b, itemText+`.includes("Entities")`, false)
}

// citations checks that an answer with a citation gains what an answer without one lacks, and
// that nothing is shown of an answer that was not judged.
func citations(t *testing.T, chromium context.Context) {
	tests := []struct {
		name            string
		base, candidate func(*report.ItemView)
		row, faults     string
	}{
		{"gained", nil, addCitation, "стр. N|nothing|a page is citedcitation|gained", "3 → 2"},
		{"lost", addCitation, nil, "стр. N|a page is citedcitation|nothing|lost", "2 → 3"},
		{"neither", nil, nil, "стр. N|nothing|nothing|missed by both", "3 → 3"},
		{}, // newRun makes the fourth of every seven items fail, here in both runs
		{"both", addCitation, addCitation, "стр. N|a page is citedcitation|a page is citedcitation|as before", "2 → 2"},
		{"failed", nil, func(v *report.ItemView) {
			fail(v, "timeout", "no answer within 30s")
			v.Outcome.Explanation = nil
		}, "стр. N|nothing|–|missed by both", "3 → –"},
	}
	side := func(name string, change func(i int) func(*report.ItemView)) report.Run {
		i := -1
		return newAnswerRun(name, len(tests), func(v *report.ItemView) {
			if i++; change(i) != nil {
				change(i)(v)
			}
		})
	}
	runs := []report.Run{side("first", func(i int) func(*report.ItemView) { return tests[i].base }),
		side("second", func(i int) func(*report.ItemView) { return tests[i].candidate })}
	b := openPage(t, chromium, comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{}))
	b.Click(`nav a[data-view="items"]`)
	b.Click(`#list thead button[data-key="id"]`)
	for i, tt := range tests {
		if tt.name != "" {
			want(b, fmt.Sprintf(`"%s ".concat(document.querySelectorAll("#list tbody td:last-child")[%d].textContent)`, tt.name, i), tt.name+" "+tt.faults)
		}
	}
	for i, tt := range tests {
		if tt.name == "" {
			continue
		}
		id := fmt.Sprintf("doc-%04d", i)
		value[string](b, `location.hash = "#/item/`+id+`/1"`)
		want(b, heading, id)
		want(b, `Array.from(document.querySelectorAll("#item .terms tbody tr")).filter(tr => tr.textContent.includes("стр. N")).map(tr => Array.from(tr.cells, td => td.textContent).join("|")).join()`, tt.row)
	}
	b.WantNoComplaints()
}
