package html

import (
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

func TestTypeTables(t *testing.T) {
	var groups []outcome.GroupStat
	for i := range mostGroups + 1 {
		groups = append(groups, outcome.GroupStat{Kind: "entity_type", Name: strings.Repeat("x", i), F1: new(0.5)})
	}
	groups = append(groups, outcome.GroupStat{Kind: "relationship_type", Name: "knows"})
	summary := outcome.Summary{Groups: groups}
	tables := newOverview(report.SummaryView{Summary: summary}, newTally(summary)).Groups
	if len(tables) != 2 || tables[0].Title != "By entity type" || tables[0].Count != mostGroups+1 || len(tables[0].Body) != mostGroups || tables[0].More != "and 1 more type" {
		t.Errorf("%+v", tables)
	}
	if cells := tables[0].Body[0].Cells; cells[0].Text != "(none)" || cells[7].Drawing.Rects[1].Width != 30 {
		t.Errorf("%+v", cells)
	}
	if second := tables[1]; second.Count != 1 || second.More != "" || second.Body[0].Cells[6].Text != "–" || len(second.Body[0].Cells[7].Drawing.Rects) != 1 {
		t.Errorf("%+v", second)
	}
}

// TestVersus_groups: the base has nothing of the type, so that there is nothing to
// compare with.
func TestVersus_groups(t *testing.T) {
	runs := pairOf(t, 8, nil)
	c := compared(t, runs, compare.Config{})
	c.Candidates[0].Groups = []compare.Group{{Name: "city", Candidate: outcome.GroupStat{Extracted: 1, F1: new(0.0)}}}
	got := comparePage(t, c, runs, Config{})
	want := `<bdi>city</bdi></th><td class="num">0</td><td class="num wide">0/0</td><td class="num wide">0/1</td><td class="num">–</td><td class="num">0.000</td><td class="num strong">–</td>`
	if !strings.Contains(got, want) {
		t.Errorf("the page has no %s", want)
	}
}
