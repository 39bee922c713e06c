package report

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// gap is the space before every column; that before the first indents the grid.
const gap = 2

// column describes one column of a grid. Where it is too wide, flexible columns
// are cut with "…": free text first and even in a pipe, names that tell the lines
// apart last.
type column struct {
	title string
	right bool // numbers stand at the right
	flex  bool
	free  bool // free text
	key   bool // tells the lines apart
	paint func(string) string
}

// grid is a table without borders, under a line of titles.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// widths returns the natural width of every column and of a line.
func (g *grid) widths() ([]int, int) {
	widths := make([]int, len(g.columns))
	total := gap * len(g.columns)
	for i, c := range g.columns {
		widths[i] = text.StringWidthWithoutEscSequences(c.title)
		for _, row := range g.rows {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(row[i]))
		}
		total += widths[i]
	}
	return widths, total
}

// narrowest is the least width that a flexible column is cut to.
const narrowest = 6

// readable is the width at which a cut name can still be told from others.
const readable = 11

// fits reports whether the line fits with no flexible column cut to less than
// readable; keys only to half of the width, unless cutKeys says so.
func (g *grid) fits(width int, cutKeys bool) bool {
	widths, total := g.widths()
	for i, c := range g.columns {
		least := readable
		if c.key && !cutKeys {
			least = width / 2
		}
		if c.flex {
			total -= max(0, widths[i]-least)
		}
	}
	return total <= width
}

// shrink takes from the flexible columns until the line fits: from free text,
// from keys what is over half of the width, and from all but keys, down to what is
// readable; at last from all. Where the grid is to be whole it takes from free
// text only.
func (g *grid) shrink(width int, whole bool) []int {
	widths, total := g.widths()
	steps := []struct {
		least int
		gives func(column) bool
	}{
		{readable, func(c column) bool { return c.free }},
		{max(readable, width/2), func(c column) bool { return c.key }},
		{readable, func(c column) bool { return !c.key }},
		{narrowest, func(column) bool { return true }},
	}
	if whole {
		steps = steps[:1]
	}
	for _, step := range steps {
		for total > width {
			widest := -1
			for i, c := range g.columns {
				if c.flex && step.gives(c) && widths[i] > step.least && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	return widths
}

// render draws the grid in lines of at most width cells, if its fixed columns
// leave room for that and it need not be whole.
func (g *grid) render(width int, whole bool) string {
	widths := g.shrink(width, whole)
	t := table.NewWriter()
	t.SetStyle(plain())
	t.SuppressTrailingSpaces()
	configs := make([]table.ColumnConfig, len(g.columns))
	titles := make(table.Row, len(g.columns))
	titled := false
	for i, c := range g.columns {
		configs[i] = table.ColumnConfig{Number: i + 1}
		if c.right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		titles[i] = c.title
		titled = titled || c.title != ""
	}
	t.SetColumnConfigs(configs)
	if titled {
		t.AppendHeader(titles)
	}
	for _, row := range g.rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			cell = isolate(text.Snip(cell, widths[i], "…"))
			if g.columns[i].paint != nil && cell != "" {
				cell = g.columns[i].paint(cell)
			}
			cells[i] = cell
		}
		t.AppendRow(cells)
	}
	return t.Render() + "\n"
}

// plain is the style of every grid: a line under the titles, and nothing else.
func plain() table.Style {
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format = table.FormatOptions{}
	style.Box.PaddingLeft = strings.Repeat(" ", gap)
	style.Box.PaddingRight = ""
	return style
}
