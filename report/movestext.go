package report

import (
	"fmt"
	"io"

	"extraction-experiment/internal/printable"
)

// MovesText writes what moved as a table: the scores that moved, then the
// items. It writes once; the error is that of the writer.
func MovesText(w io.Writer, r MovesResult, opt Options) error {
	p := newPage(opt)
	p.line(p.bold(printable.Line(r.Name)) + " · " + printable.Line(r.From.Name) + " scored again, " + counted(r.Items, "result"))
	g := &grid{columns: []column{{title: "score"}, {title: "before", right: true}, {title: "after", right: true},
		{title: "difference", right: true}, {title: "up", right: true}, {title: "down", right: true}, {title: "n", right: true}}}
	still := 0
	for _, s := range r.Scores {
		if s.Up+s.Down+s.Defined+s.Undefined == 0 {
			still++
			continue
		}
		difference, n := none, count(s.NNew)
		if s.NOld != s.NNew {
			n = count(s.NOld) + " → " + n
		}
		if s.Before != nil && s.After != nil {
			difference = delta(new(*s.After - *s.Before))
		}
		g.add(printable.Line(s.Score), score(s.Before, 3), score(s.After, 3), difference, count(s.Up), count(s.Down), n)
	}
	if len(g.rows) == 0 {
		p.line("no score moved")
		return p.writeTo(w)
	}
	p.title("Scores that moved")
	p.grid(g)
	if still > 0 {
		p.wrapped(counted(still, "other score")+" did not move", gap, 0, p.faint)
	}
	p.movedItems(r)
	return p.writeTo(w)
}

func (p *page) movedItems(r MovesResult) {
	if len(r.Moved) == 0 {
		return
	}
	p.title("Items that moved most, by " + printable.Line(r.Scorer.Primary))
	g := &grid{columns: []column{{title: "item", flex: true}, {title: "before", right: true}, {title: "after", right: true}, {title: "difference", right: true}}}
	for _, item := range r.Moved {
		name := printable.Line(item.Item)
		if item.Trial > 1 {
			name += fmt.Sprintf(" #%d", item.Trial)
		}
		g.add(name, ratio(item.Before), ratio(item.After), delta(new(item.After-item.Before)))
	}
	p.grid(g)
}
