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

// shorten drops columns, in the order given, until the line fits with no name
// cut beyond recognition, and returns which.
func (g *grid) shorten(width int, titles ...string) []string {
	var dropped []string
	for _, title := range titles {
		if g.fitsReadably(width) {
			break
		}
		g.drop(title)
		dropped = append(dropped, title)
	}
	return dropped
}

// shortenWhole drops columns, in the order given, until the line fits with no
// name cut at all, and returns which.
func (g *grid) shortenWhole(width int, titles ...string) []string {
	var dropped []string
	for _, title := range titles {
		if _, total := g.widths(); total <= width {
			break
		}
		g.drop(title)
		dropped = append(dropped, title)
	}
	return dropped
}

// narrow draws a grid without the columns that do not fit, and names them.
func (p *page) narrow(g *grid, titles ...string) {
	if len(g.rows) == 0 {
		return
	}
	dropped := g.shorten(p.Width, titles...)
	p.grid(g)
	p.leftOut(dropped)
}

func (p *page) leftOut(dropped []string) {
	if len(dropped) > 0 {
		p.wrapped("left out for want of width: "+strings.Join(dropped, ", "), gap, 0, p.faint)
	}
}
