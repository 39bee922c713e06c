package html

import (
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
)

func TestTypeTables(t *testing.T) {
	var groups []outcome.GroupStat
	for i := range mostGroups + 1 {
		groups = append(groups, outcome.GroupStat{Kind: "entity_type", Name: strings.Repeat("x", i), F1: new(0.5)})
	}
	groups = append(groups, outcome.GroupStat{Kind: "relationship_type", Name: "knows"})
	tables := groupTables(groups)
	if len(tables) != 2 || tables[0].Title != "By entity type" || tables[0].Types != mostGroups+1 || len(tables[0].Rows) != mostGroups || tables[0].More != "and 1 more type" {
		t.Errorf("%+v", tables)
	}
	if first, second := tables[0].Rows[0], tables[1]; first.Name != "(no type)" || first.Bar != 30 || second.Types != 1 || second.More != "" || second.Rows[0].F1 != "–" || second.Rows[0].Bar != 0 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestNewGroupDifference_nothing: the base has nothing of the type, so that there is
// nothing to compare with.
func TestNewGroupDifference_nothing(t *testing.T) {
	row := newGroupDifference(compare.Group{Name: "city", Candidate: outcome.GroupStat{Extracted: 1, F1: new(0.0)}})
	if row.BaseF1 != "–" || row.CandidateF1 != "0.000" || row.Delta != "–" || row.State != "" || row.BarWidth != 0 {
		t.Errorf("%+v", row)
	}
}
