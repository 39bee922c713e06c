package html

import (
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// The most rows of a breakdown, and the most breakdowns.
const (
	mostGroups = 60
	mostTables = 8
)

// groupTable is the breakdown by one kind of type.
type groupTable struct {
	Title string
	Types int
	Rows  []groupRow
	More  int // types that are not shown
}

type groupRow struct {
	Name, Expected, Extracted, Matched, Precision, Recall, F1 string
	Bar                                                       float64 // of F1, in the units of the drawing
}

func groupTables(groups []outcome.GroupStat) []groupTable {
	var tables []groupTable
	for len(groups) > 0 && len(tables) < mostTables {
		n := 1
		for n < len(groups) && groups[n].Kind == groups[0].Kind {
			n++
		}
		t := groupTable{Title: "By " + plainWords(groups[0].Kind), Types: n, More: max(0, n-mostGroups)}
		for _, g := range groups[:min(n, mostGroups)] {
			name := named(g.Name)
			if name == "" {
				name = "(no type)"
			}
			t.Rows = append(t.Rows, groupRow{
				Name: name, Expected: report.FormatCount(g.Expected), Extracted: report.FormatCount(g.Extracted), Matched: report.FormatCount(g.Matched),
				Precision: report.FormatScore(&g.Precision, 3), Recall: report.FormatScore(&g.Recall, 3), F1: report.FormatScore(&g.F1, 3),
				Bar: 60 * min(1, max(0, g.F1)),
			})
		}
		tables = append(tables, t)
		groups = groups[n:]
	}
	return tables
}
