package html

import (
	"cmp"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// The most rows of a breakdown, and the most breakdowns.
const (
	mostGroups = 60
	mostTables = 8
)

// typeTable is the breakdown by one kind of type, of a run or of a comparison.
type typeTable[Row any] struct {
	Title string
	Types int
	Rows  []Row
	More  string // how many types are not shown
}

// typeTables makes a table for each kind of group.
func typeTables[G, Row any](groups []G, kind func(G) string, row func(G) Row) []typeTable[Row] {
	var tables []typeTable[Row]
	kinds := report.Kinds(groups, kind)
	for _, list := range kinds[:min(len(kinds), mostTables)] {
		t := typeTable[Row]{Title: "By " + report.FormatWords(kind(list[0])), Types: len(list)}
		for _, g := range list[:min(len(list), mostGroups)] {
			t.Rows = append(t.Rows, row(g))
		}
		if more := len(list) - mostGroups; more > 0 {
			t.More = "and " + report.FormatCounted(more, "more type")
		}
		tables = append(tables, t)
	}
	return tables
}

// typeName is the name of a type, and says so when there is none.
func typeName(name string) string { return cmp.Or(named(name), "(no type)") }

// barOf is the length of the bar of a score; 0 where there is none.
func barOf(v *float64) float64 {
	if v == nil {
		return 0
	}
	return 60 * min(1, max(0, *v))
}

type groupRow struct {
	Name, Expected, Extracted, Matched, Precision, Recall, F1 string
	Bar                                                       float64 // of F1, in the units of the drawing
}

func groupTables(groups []outcome.GroupStat) []typeTable[groupRow] {
	return typeTables(groups, func(g outcome.GroupStat) string { return g.Kind }, newGroupRow)
}

func newGroupRow(g outcome.GroupStat) groupRow {
	return groupRow{
		Name: typeName(g.Name), Expected: report.FormatCount(g.Expected), Extracted: report.FormatCount(g.Extracted), Matched: report.FormatCount(g.Matched),
		Precision: report.FormatScore(g.Precision, 3), Recall: report.FormatScore(g.Recall, 3), F1: report.FormatScore(g.F1, 3),
		Bar: barOf(g.F1),
	}
}
