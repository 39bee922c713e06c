package report

import (
	"io"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/printable"
)

// RunRow is one run as "experiment runs" lists it.
type RunRow struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Status  string `json:"status"`
	Items   int    `json:"items"`   // planned; trials are no more items
	Trials  int    `json:"trials"`  // of every item
	Failed  int    `json:"failed"`  // newest attempts that failed, in any trial
	Primary string `json:"primary"` // name of the primary score
	// Mean is that of the primary score over the items that did not fail, AsZero
	// with failed ones as 0, by which runs are told apart; nil when no item has it.
	Mean   *float64 `json:"mean"`
	AsZero *float64 `json:"mean_failures_as_zero"`
	// Unpublished counts outcomes that are not in Langfuse with all that is sent of them.
	Unpublished int `json:"unpublished"`
	// Weighted is weighted_score of answers about a document; nil of others.
	Weighted *float64  `json:"weighted_score,omitempty"`
	Started  time.Time `json:"started"`
}

// runColumn is a column of the list of runs.
type runColumn struct {
	column
	cell func(RunRow) string
}

// Runs writes a table of runs in the order given, times in the zone that they
// carry. Failed items count as 0; where there are any, the mean of the others
// stands beside. At a terminal the start, the model, the dataset and that mean
// are left out, in that order, before the name of a run is cut.
//
// It writes once; the error is that of the writer.
func Runs(w io.Writer, runs []RunRow, opt Options) error {
	p := newPage(opt)
	if len(runs) == 0 {
		p.line("no runs")
	}
	columns := p.runColumns(runs)
	g := &grid{}
	for _, c := range columns {
		g.columns = append(g.columns, c.column)
	}
	for _, r := range runs {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(r)
		}
		g.add(cells...)
	}
	dropped := p.fit(g, "started", "model", "dataset", ofScored)
	p.grid(g)
	if anyFailed(runs) {
		note := "failed items count as 0"
		if !slices.Contains(dropped, ofScored) {
			note += " · " + ofScored + ": the mean of the others"
		}
		p.wrapped(note, gap, 0, p.faint)
	}
	p.leftOut(dropped)
	p.where()
	return p.writeTo(w)
}

// ofScored is the title over means of items that did not fail.
const ofScored = "of scored"

func anyFailed(runs []RunRow) bool {
	return slices.ContainsFunc(runs, func(r RunRow) bool { return r.Failed > 0 })
}

// timesTrials counts items, and their trials where there are several.
func timesTrials(r RunRow) string {
	if r.Trials > 1 {
		return count(r.Items) + " × " + count(r.Trials)
	}
	return count(r.Items)
}

func (p *page) runColumns(runs []RunRow) []runColumn {
	primary := primaryTitle(runs)
	columns := []runColumn{
		{column{title: "run", flex: true, key: true, paint: p.bold}, func(r RunRow) string { return label(r.Name) }},
		{column{title: "dataset", flex: true}, func(r RunRow) string { return printable.Line(r.Dataset) }},
		{column{title: "model", flex: true}, func(r RunRow) string { return printable.Line(r.Model) }},
		{column{title: "status", flex: true}, func(r RunRow) string { return printable.Line(r.Status) }},
		{column{title: "items", right: true}, func(r RunRow) string { return timesTrials(r) }},
		{column{title: "failed", right: true}, func(r RunRow) string { return count(r.Failed) }},
		{column{title: primary, right: primary != mixed, flex: true}, func(r RunRow) string {
			if primary == mixed {
				return strings.TrimSpace(score(r.AsZero, 3) + " " + printable.Line(r.Primary))
			}
			return score(r.AsZero, 3)
		}},
		{column{title: ofScored, right: true}, func(r RunRow) string { return score(r.Mean, 3) }},
		{column{title: "started"}, func(r RunRow) string {
			if r.Started.IsZero() {
				return none
			}
			return r.Started.Format("2006-01-02 15:04")
		}},
	}
	if slices.ContainsFunc(runs, func(r RunRow) bool { return r.Weighted != nil }) {
		weighted := runColumn{column{title: "weighted", right: true}, func(r RunRow) string { return score(r.Weighted, 3) }}
		columns = slices.Insert(columns, len(columns)-1, weighted)
	}
	if slices.ContainsFunc(runs, func(r RunRow) bool { return r.Unpublished > 0 }) {
		unpublished := runColumn{column{title: "unsent", right: true}, func(r RunRow) string { return count(r.Unpublished) }}
		columns = slices.Insert(columns, len(columns)-1, unpublished)
	}
	if anyFailed(runs) {
		return columns
	}
	return slices.DeleteFunc(columns, func(c runColumn) bool { return c.title == ofScored })
}

// mixed is the title over different primary scores.
const mixed = "primary"

// primaryTitle is the primary score's name, if all runs have the same.
func primaryTitle(runs []RunRow) string {
	title := ""
	for i, r := range runs {
		if i > 0 && printable.Line(r.Primary) != title {
			return mixed
		}
		title = printable.Line(r.Primary)
	}
	if title == "" {
		return mixed
	}
	return title
}
