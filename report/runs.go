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
	Name    string    `json:"name"`
	Dataset string    `json:"dataset"`
	Model   string    `json:"model"`
	Status  string    `json:"status"`
	Items   int       `json:"items"`   // planned
	Failed  int       `json:"failed"`  // newest attempts that failed
	Primary string    `json:"primary"` // name of the primary score
	Mean    *float64  `json:"mean"`    // of the primary score; nil when no item has it
	Started time.Time `json:"started"`
}

// runColumn is a column of the list of runs.
type runColumn struct {
	column
	cell func(RunRow) string
}

// Runs writes a table of runs in the order given, times in the zone that they
// carry. Names are cut where the line would not fit; before they become
// unreadable, the start, the model and the dataset are left out, in that order.
//
// It writes once; the error is that of the writer.
func Runs(w io.Writer, runs []RunRow, opt Options) error {
	p := newPage(opt)
	if len(runs) == 0 {
		p.line("no runs")
	}
	columns := p.runColumns(runs)
	g := runGrid(columns, runs)
	for _, title := range []string{"started", "model", "dataset"} {
		if g.fitsReadably(p.Width) {
			break
		}
		columns = slices.DeleteFunc(columns, func(c runColumn) bool { return c.title == title })
		g = runGrid(columns, runs)
	}
	p.grid(g)
	p.where()
	return p.writeTo(w)
}

func runGrid(columns []runColumn, runs []RunRow) *grid {
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
	return g
}

func (p *page) runColumns(runs []RunRow) []runColumn {
	primary := primaryTitle(runs)
	return []runColumn{
		{column{title: "run", flex: true, paint: p.bold}, func(r RunRow) string { return label(r.Name) }},
		{column{title: "dataset", flex: true}, func(r RunRow) string { return printable.Line(r.Dataset) }},
		{column{title: "model", flex: true}, func(r RunRow) string { return printable.Line(r.Model) }},
		{column{title: "status", flex: true}, func(r RunRow) string { return printable.Line(r.Status) }},
		{column{title: "items", right: true}, func(r RunRow) string { return count(r.Items) }},
		{column{title: "failed", right: true}, func(r RunRow) string { return count(r.Failed) }},
		{column{title: primary, right: primary != mixed, flex: true}, func(r RunRow) string {
			if primary == mixed {
				return strings.TrimSpace(score(r.Mean, 3) + " " + printable.Line(r.Primary))
			}
			return score(r.Mean, 3)
		}},
		{column{title: "started"}, func(r RunRow) string {
			if r.Started.IsZero() {
				return none
			}
			return r.Started.Format("2006-01-02 15:04")
		}},
	}
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
