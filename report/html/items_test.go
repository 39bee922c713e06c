package html

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/compare"
	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

func TestHighlight(t *testing.T) {
	gold := extraction.Extraction{Entities: []extraction.Entity{{Name: "University of London"}, {Name: "Ada", Aliases: []string{"Lovelace"}}}}
	found := extraction.Extraction{Entities: []extraction.Entity{{Name: "London"}, {Name: "of London"}}}
	const text = "Ada, or Lovelace, left the University of London."
	shown := highlight(text, maxText, &gold, &found)
	raw, err := json.Marshal(shown.Document)
	if err != nil || shown.Cut != 0 {
		t.Fatal(err, shown.Cut)
	}
	want := `[["Ada",[1],[]],", or ",["Lovelace",[1],[]],", left the ",["University ",[0],[]],["of ",[0],[1]],["London",[0],[0,1]],"."]`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	shown = highlight(text, 20, &gold, &found)
	if last := shown.Document[len(shown.Document)-1]; last.text != ", le" || shown.Cut != 28 { // 48 characters in all
		t.Errorf("%v, %d left out", shown.Document, shown.Cut)
	}
	// In a comparison the document has the places of every run; one has none.
	shown = highlight(text, maxText, &gold, nil, &found)
	if raw, err = json.Marshal(shown.Document[len(shown.Document)-2]); err != nil || string(raw) != `["London",[0],[],[0,1]]` {
		t.Errorf("%s %v", raw, err)
	}
}

// TestSplitSegments checks that segments add up to the text, and that each has exactly the spans
// that cover it.
func TestSplitSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []rune(rapid.StringN(1, 40, -1).Draw(t, "text"))
		var spans []span
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
			spans = append(spans, span{from, rapid.IntRange(from+1, len(text)).Draw(t, "to"), rapid.IntRange(0, 3).Draw(t, "entity"), rapid.IntRange(0, 2).Draw(t, "extraction")})
		}
		at := 0
		var all strings.Builder
		for _, s := range splitSegments(text, slices.Clone(spans), 3) {
			all.WriteString(s.text)
			for range []rune(s.text) {
				var covering [3][]int
				for _, p := range spans {
					if p.from <= at && at < p.to {
						covering[p.extraction] = append(covering[p.extraction], p.entity)
					}
				}
				for number, want := range covering {
					slices.Sort(want)
					var got []int
					if s.entities != nil {
						got = s.entities[number]
					}
					if !slices.Equal(slices.Compact(want), got) {
						t.Fatalf("character %d has %v, want %v of extraction %d", at, got, want, number)
					}
				}
				at++
			}
		}
		if all.String() != string(text) {
			t.Fatalf("%q became %q", string(text), all.String())
		}
	})
}

func TestBinOf(t *testing.T) {
	for v, want := range map[float64]int{0: 0, 0.049: 0, 0.05: 1, 0.5: 10, 0.999: 19, 1: 19, 7: 19, -3: 0} {
		if got := binOf(v); got != want {
			t.Errorf("%v is in bin %d, want %d", v, got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	for raw, want := range map[string][][2]string{
		``: nil, `"plain"`: {{"", "plain"}}, `[]`: {{"", "[]"}},
		`[{"role":"user","content":"hi"}]`:                         {{"user", "hi"}},
		`[{"role":"user","content":[{"type":"text","text":"a"}]}]`: {{"user", "[\n  {\n    \"type\": \"text\",\n    \"text\": \"a\"\n  }\n]"}},
		`[{"x":1}]`: {{"", "[\n  {\n    \"x\": 1\n  }\n]"}}, `{bad`: {{"", "{bad"}},
	} {
		var got [][2]string
		for _, m := range (&pane{}).call(outcome.Call{Input: []byte(raw)}, limits{maxText, maxList}).Messages {
			got = append(got, [2]string{m.Role, m.Text})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

func TestTypeTables(t *testing.T) {
	var groups []outcome.GroupStat
	for i := range maxGroups + 1 {
		groups = append(groups, outcome.GroupStat{Group: outcome.Group{Kind: "entity_type", Name: strings.Repeat("x", i)}, F1: new(0.5)})
	}
	groups = append(groups, outcome.GroupStat{Group: outcome.Group{Kind: "relationship_type", Name: "knows"}})
	summary := outcome.Summary{Groups: groups}
	tables := newOverview(report.SummaryView{Summary: summary}, newTally(summary)).Groups
	if len(tables) != 2 || tables[0].Title != "By entity type" || tables[0].Count != maxGroups+1 || len(tables[0].Rows) != maxGroups || tables[0].More != "and 1 more type" {
		t.Errorf("%+v", tables)
	}
	if second := tables[1]; second.Count != 1 || second.More != "" || second.Rows[0].Cells[6] != "–" {
		t.Errorf("%+v", second)
	}
}

// TestCandidateView_groups checks a type that the base does not have, so that there is nothing
// to compare with.
func TestCandidateView_groups(t *testing.T) {
	runs := newPair(t, 8, nil)
	c := compareRuns(t, runs, compare.Config{})
	c.Candidates[0].Groups = []compare.Group{{Name: "city", Candidate: outcome.GroupStat{Group: outcome.Group{Extracted: 1}, F1: new(0.0)}}}
	got := comparePage(t, c, runs, Config{})
	wantTexts(t, got, `<bdi>city</bdi></th><td class="num wide">0</td><td class="num">0</td><td class="num wide">0→1</td><td class="num">–</td><td class="num">0.000</td><td class="num strong">–</td>`)
}

// TestListRow checks that a row of the list is small for every outcome.
func TestListRow(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	v := report.ItemView{Text: long}
	v.Outcome.Item, v.Outcome.Class = long, outcome.Class(long)
	v.Outcome.Failure = &outcome.Failure{Class: v.Outcome.Class, Message: long}
	raw, err := json.Marshal((&writer{scores: []string{"f1"}}).row([]*report.ItemView{&v}))
	if err != nil || len(raw) > 2<<10 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// TestRowsOf_unjudged checks that entities and relationships without a judgement have rows.
func TestRowsOf_unjudged(t *testing.T) {
	gold := &extraction.Extraction{Entities: []extraction.Entity{{Name: "Ada", Type: "Person"}, {Name: "London", Type: "City"}}}
	found := &extraction.Extraction{Entities: []extraction.Entity{{Name: "Ada", Type: "Person"}},
		Relationships: []extraction.Relationship{{Source: "Ada", Type: "lives_in", Target: "London"}}}
	matched := report.Match{What: "entity", Kind: "exact", Similarity: 1, Expected: "Ada (Person)", Extracted: "Ada (Person)"}
	scored := report.ItemView{Expected: gold, Extracted: found, Matches: []report.Match{matched}, Missed: []report.Miss{{What: "entity", Index: 1, Value: "London (City)"}}}
	failed := report.ItemView{Expected: gold}
	failed.Outcome.Class = outcome.Provider
	quoted := report.ItemView{Extracted: &extraction.Extraction{Entities: found.Entities},
		Matches: []report.Match{{What: "record", Kind: "quoted", Similarity: 1, ExpectedIndex: -1}}}
	again := scored // a collapsed repetition in gold
	again.Missed = nil
	for name, tt := range map[string]struct {
		view report.ItemView
		kind string
		want []string
	}{
		"all judged":      {scored, "entity", []string{"ok Ada Ada ", "missed London - "}},
		"not annotated":   {scored, "relationship", []string{"unjudged - Ada not annotated"}},
		"a failed item":   {failed, "entity", []string{"unjudged Ada - the item failed", "unjudged London - the item failed"}},
		"and none there":  {failed, "relationship", nil},
		"counts nowhere":  {again, "entity", []string{"ok Ada Ada ", "unjudged London - "}},
		"a record quoted": {quoted, "entity", []string{"ok - Ada "}},
		"not of answers":  {again, "term", nil},
	} {
		var got []string
		nameOf := func(s *side) string {
			if s == nil {
				return "-"
			}
			return s.Name
		}
		for _, r := range rowsOf(&tt.view)[tt.kind] {
			got = append(got, strings.Join([]string{r.State, nameOf(r.Expected), nameOf(r.Extracted), r.Why}, " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
