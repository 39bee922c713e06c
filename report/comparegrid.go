package report

import (
	"slices"
	"strings"
)

// drop removes the column of that title.
func (g *grid) drop(title string) {
	at := slices.IndexFunc(g.columns, func(c column) bool { return c.title == title })
	if at < 0 {
		return
	}
	g.columns = slices.Delete(g.columns, at, at+1)
	for i, row := range g.rows {
		g.rows[i] = slices.Delete(row, at, at+1)
	}
}

// shorten drops columns, in the order given, until the grid fits, and returns
// which.
func (g *grid) shorten(fits func() bool, titles ...string) []string {
	var dropped []string
	for _, title := range titles {
		if fits() {
			break
		}
		g.drop(title)
		dropped = append(dropped, title)
	}
	return dropped
}

// intervals is the title of the column that goes last of all: a number without
// its interval says too much.
const intervals = "95 % interval"

// fit drops columns, in the order given, until the line fits without cutting the
// names that it is told by, and returns which. In a pipe there is always room.
func (p *page) fit(g *grid, titles ...string) []string {
	if p.Whole || len(g.rows) == 0 {
		return nil
	}
	dropped := g.shorten(func() bool { return g.fits(p.Width, false) }, titles...)
	if slices.ContainsFunc(g.columns, func(c column) bool { return c.title == intervals }) {
		dropped = append(dropped, g.shorten(func() bool { return g.fits(p.Width, true) }, intervals)...)
	}
	return dropped
}

// narrow draws a grid without the columns that do not fit, and names them.
func (p *page) narrow(g *grid, titles ...string) {
	dropped := p.fit(g, titles...)
	p.grid(g)
	p.leftOut(dropped)
}

func (p *page) leftOut(dropped []string) {
	if len(dropped) > 0 {
		p.wrapped("left out for want of width: "+strings.Join(dropped, ", "), gap, 0, p.faint)
	}
}
