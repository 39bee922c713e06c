package html

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// answered is a run of questions of which each answer has one term, lacks
// another one and a page, and has a forbidden term.
func answered(name string, n int, changes ...func(*report.ItemView)) report.Run {
	run := built(name, n, func(_ int, v *report.ItemView) {
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

// citing makes an answer one that cites a page.
func citing(v *report.ItemView) {
	v.Missed = v.Missed[:1]
	v.Matches = append(v.Matches, report.Match{What: "citation", Kind: "citation", Similarity: 1, Expected: "стр. N", Extracted: "a page is cited", ExpectedIndex: 2, ExtractedIndex: 2})
}

// TestWrite_answers: questions are not shown as if they were extractions.
func TestWrite_answers(t *testing.T) {
	got := page(t, []report.Run{answered("r", 3)}, Config{})
	visible := got[strings.Index(got, "<main"):strings.LastIndex(got, "<script>")]
	for _, want := range []string{`<span class="name">weighted_score</span><strong>0.2500</strong>`} {
		if !strings.Contains(visible, want) {
			t.Errorf("the overview does not say %q", want)
		}
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

// answerAlone and answersCompared: the page of a question names what was missing,
// alone and in a comparison, where both answers stand.

const item_ = `document.getElementById("item").textContent`

func answerAlone(t *testing.T, chromium *testkit.Chromium) {
	b := open(t, chromium, []report.Run{answered("r", 3)}, Config{})
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

func answersCompared(t *testing.T, chromium *testkit.Chromium) {
	runs := []report.Run{answered("first", 3), answered("second", 3)}
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

// citations: an answer that cites a page has what one lacks that does not, and of
// one that was not judged nothing is said.
func citations(t *testing.T, chromium *testkit.Chromium) {
	tests := []struct {
		name            string
		base, candidate func(*report.ItemView)
		row, faults     string
	}{
		{"gained", nil, citing, "стр. N|nothing|a page is citedcitation|gained", "3 → 2"},
		{"lost", citing, nil, "стр. N|a page is citedcitation|nothing|lost", "2 → 3"},
		{"neither", nil, nil, "стр. N|nothing|nothing|missed by both", "3 → 3"},
		{}, // of every seven items the fourth one fails in both
		{"both", citing, citing, "стр. N|a page is citedcitation|a page is citedcitation|as before", "2 → 2"},
		{"failed", nil, func(v *report.ItemView) {
			fail(v, "timeout", "no answer within 30s")
			v.Outcome.Explanation = nil
		}, "стр. N|nothing|–|missed by both", "3 → –"},
	}
	side := func(name string, change func(i int) func(*report.ItemView)) report.Run {
		i := -1
		return answered(name, len(tests), func(v *report.ItemView) {
			if i++; change(i) != nil {
				change(i)(v)
			}
		})
	}
	runs := []report.Run{side("first", func(i int) func(*report.ItemView) { return tests[i].base }),
		side("second", func(i int) func(*report.ItemView) { return tests[i].candidate })}
	b := openPage(t, chromium, comparePage(t, compared(t, runs, compare.Config{}), runs, Config{}))
	b.Click(`nav a[data-view="items"]`)
	b.Click(`#list thead button[data-key="id"]`)
	for i, tt := range tests {
		if tt.name != "" {
			want(b, fmt.Sprintf(`"%s ".concat(document.querySelectorAll("#list tbody td.extra")[%d].textContent)`, tt.name, i), tt.name+" "+tt.faults)
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
	b.Quiet()
}
