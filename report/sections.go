package report

import (
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"

	"github.com/jedib0t/go-pretty/v6/text"
)

// messageLines is how many lines of a failure's message are shown.
const messageLines = 3

func (p *page) failures(list []outcome.FailureCount) {
	if len(list) == 0 {
		return
	}
	p.title("Failures")
	for _, f := range list {
		class := text.Snip(label(string(f.Class)), p.Width/2, "…")
		p.line("  " + p.red(isolate(class)) + " " + count(f.Count))
		for _, item := range f.Items {
			p.wrapped(label(item.ID)+": "+label(item.Message), 4, messageLines, nil)
		}
		if more := f.Count - len(f.Items); more > 0 && len(f.Items) > 0 {
			p.line("    " + p.faint(fmt.Sprintf("and %s more", count(more))))
		}
	}
}

// breakdown draws one table per kind of group.
func (p *page) breakdown(groups []outcome.GroupStat) {
	for _, list := range Kinds(groups, func(g outcome.GroupStat) string { return g.Kind }) {
		p.groupTable(list[0].Kind, list)
	}
}

func (p *page) groupTable(kind string, groups []outcome.GroupStat) {
	p.title("By " + label(plainWords(kind)))
	titles := []string{"expected", "extracted", "matched"}
	if p.Width < 80 {
		titles = []string{"exp", "ext", "match"}
	}
	g := &grid{columns: []column{
		{title: "type", flex: true}, {title: titles[0], right: true}, {title: titles[1], right: true},
		{title: titles[2], right: true}, {title: "P", right: true}, {title: "R", right: true},
		{title: "F1", right: true, paint: p.bold},
	}}
	shown := groups
	if p.Groups >= 0 && len(groups) > p.Groups {
		shown = groups[:p.Groups]
	}
	for _, s := range shown {
		g.add(label(s.Name), count(s.Expected), count(s.Extracted), count(s.Matched),
			score(s.Precision, 3), score(s.Recall, 3), score(s.F1, 3))
	}
	p.grid(g)
	if more := len(groups) - len(shown); more > 0 {
		p.line("  " + p.faint("and "+counted(more, "more type")))
	}
}

// causes lists what is wrong most often, with the items that have most of it.
func (p *page) causes(causes []outcome.CauseCount) {
	if len(causes) == 0 {
		return
	}
	p.title("Top causes")
	g := &grid{columns: []column{{title: "cause", flex: true}, {title: "faults", right: true, paint: p.bold},
		{title: "items", right: true}, {title: "most in", flex: true, free: true, paint: p.faint}}}
	for _, c := range causes {
		var items []string
		for _, item := range c.Worst[:min(3, len(c.Worst))] {
			items = append(items, label(item.ID)+" "+count(item.Count))
		}
		g.add(plainWords(c.What+" "+c.Name), count(c.Count), count(c.Items), strings.Join(items, ", "))
	}
	p.grid(g)
}

func (p *page) worst(s outcome.Summary) {
	if len(s.Worst) == 0 {
		return
	}
	p.title("Lowest " + label(s.Run.Primary))
	g := &grid{columns: []column{{flex: true, key: true}, {right: true, paint: p.bold}, {flex: true, free: true, paint: p.faint}}}
	for _, w := range s.Worst {
		id := label(w.ID)
		if w.Trial > 0 {
			id += fmt.Sprintf(" #%d", w.Trial)
		}
		g.add(id, ratio(w.Score), printable.Line(w.Comment))
	}
	p.grid(g)
}

// label is a name as one line, and says so when there is none.
func label(name string) string {
	if s := printable.Line(name); s != "" {
		return s
	}
	return "(none)"
}
