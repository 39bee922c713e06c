package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a part of a report from which every form is written: a terminal takes
// the columns that fit, Markdown and pages those that are for them.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	More    string // how many rows are not shown: "and 3 more types"
}

// Column describes a column. Title is above it in every form but those for which
// it has another; no leaves the column out of a form.
type Column struct {
	Title, Text, Markdown, Page string

	Name   bool // text of strangers, as it is: each form makes it harmless in its way
	Right  bool // numbers stand at the right
	Strong bool // what matters most in a row

	Diff bool   // a difference: a page colours it by the state of the row
	Pill bool   // a page marks the words with the state of the row
	Note bool   // a page shows the remark of the row in it
	Wide bool   // a page leaves it out where there is little room
	Hint string // of a page, about the title

	// At a terminal flexible columns are cut with "…" where they are too wide: free
	// text first and even in a pipe, names that tell the rows apart last.
	flex, free, key bool
	faint, cyan     bool
}

// Row is a row of a table.
type Row struct {
	Cells   []string
	Primary bool   // of the primary score
	State   string // "better" or "worse": a page colours it
	Note    string // a remark, which may have text of strangers
	Trial   int    // of the item that the row is about, where that is to be said
}

// no, as a title, leaves a column out; no text of strangers is the same.
const no = "\x00"

// add appends a row; it may be completed until the next one is added.
func (t *Table) add(cells ...string) *Row {
	t.Rows = append(t.Rows, Row{Cells: cells})
	return &t.Rows[len(t.Rows)-1]
}

// First keeps so many rows, all for a negative number, and says how many more
// there are of what they are.
func (t Table) First(n int, noun string) Table {
	if more := len(t.Rows) - n; n >= 0 && more > 0 {
		t.Rows, t.More = t.Rows[:n], "and "+Counted(more, "more "+noun)
	}
	return t
}

// ForPage is the table as a page shows it.
func (t Table) ForPage() Table { return t.in(func(c Column) string { return c.Page }) }

// in is the table with the columns of one form, under its titles.
func (t Table) in(title func(Column) string) Table {
	out := Table{Title: t.Title, Rows: slices.Clone(t.Rows), More: t.More}
	for i := range out.Rows {
		out.Rows[i].Cells = nil
	}
	for i, c := range t.Columns {
		if c.Title = cmp.Or(title(c), c.Title); c.Title == no {
			continue
		}
		out.Columns = append(out.Columns, c)
		for r, row := range t.Rows {
			out.Rows[r].Cells = append(out.Rows[r].Cells, row.Cells[i])
		}
	}
	return out
}

// forText is the table as a terminal shows it.
func (t Table) forText() Table {
	t = t.in(func(c Column) string { return c.Text })
	for i, c := range t.Columns {
		for _, row := range t.Rows {
			if c.Name {
				row.Cells[i] = label(row.Cells[i])
			}
			if i == 0 && row.Trial > 0 {
				row.Cells[i] += fmt.Sprintf(" #%d", row.Trial)
			}
		}
	}
	return t
}

// Text is the table as it stands in a pipe: no column is left out and no name is cut.
func (t Table) Text() string {
	p := newPage(Options{Whole: true})
	p.draw(t)
	return isolates(p.text.String())
}

// gap is the space before every column; that before the first indents the table.
const gap = 2

// The least widths that a flexible column is cut to: that at which a cut name can
// still be told from others, and the least of all.
const readable, narrowest = 11, 6

// intervals is the title of the column that goes last of all: a number without
// its interval says too much.
const intervals = "95 % interval"

// table draws a table without the columns that do not fit, which go in the order
// given and are named.
func (p *page) table(t Table, drop ...string) {
	if t.Title != "" {
		p.title(t.Title)
	}
	dropped := p.draw(t, drop...)
	p.leftOut(dropped)
	if t.More != "" {
		p.line("  " + p.faint(t.More))
	}
}

func (p *page) leftOut(dropped []string) {
	if len(dropped) > 0 {
		p.note("left out for want of width: " + strings.Join(dropped, ", "))
	}
}

// draw draws the rows of a table under a line of titles, and returns the titles of
// the columns that did not fit. In a pipe there is always room.
func (p *page) draw(t Table, drop ...string) (dropped []string) {
	t = t.forText()
	if len(t.Rows) == 0 {
		return nil
	}
	if !p.Whole {
		dropped = t.shorten(p.Width, drop)
	}
	p.render(t)
	return dropped
}

// shorten drops columns, in the order given and intervals last, until the line fits
// with no flexible column cut to less than readable, and returns which. For the sake of
// all but the intervals keys are not cut to less than half of the width.
func (t *Table) shorten(width int, titles []string) (dropped []string) {
	for _, title := range append(titles, intervals) {
		leastKey := width / 2
		if title == intervals {
			leastKey = readable
		}
		is := func(c Column) bool { return c.Title == title }
		if _, total := t.widths(readable, leastKey); total <= width {
			break
		}
		if title == intervals && !slices.ContainsFunc(t.Columns, is) {
			break
		}
		*t = t.in(func(c Column) string { return map[bool]string{true: no, false: c.Title}[is(c)] })
		dropped = append(dropped, title)
	}
	return dropped
}

// uncut is the least width of what is not cut.
const uncut = math.MaxInt

// widths returns the width of every column and of a line, where flexible columns are
// cut to so many cells and keys to so many.
func (t *Table) widths(least, leastKey int) (widths []int, total int) {
	for i, c := range t.Columns {
		width := text.StringWidthWithoutEscSequences(c.Title)
		for _, row := range t.Rows {
			width = max(width, text.StringWidthWithoutEscSequences(row.Cells[i]))
		}
		if c.key {
			width = min(width, leastKey)
		} else if c.flex {
			width = min(width, least)
		}
		widths, total = append(widths, width), total+gap+width
	}
	return widths, total
}

// shrink takes from the widest of the flexible columns until the line fits: from free
// text, from keys what is over half of the width, and from all but keys, down to what is
// readable; at last from all. Where the table is to be whole it takes from free
// text only.
func (t *Table) shrink(width int, whole bool) []int {
	widths, total := t.widths(uncut, uncut)
	for i, step := range []struct {
		least int
		gives func(Column) bool
	}{
		{readable, func(c Column) bool { return c.free }},
		{max(readable, width/2), func(c Column) bool { return c.key }},
		{readable, func(c Column) bool { return c.flex && !c.key }},
		{narrowest, func(c Column) bool { return c.flex }},
	} {
		for total > width && (i == 0 || !whole) {
			widest := -1
			for i, c := range t.Columns {
				if step.gives(c) && widths[i] > step.least && (widest < 0 || widths[i] > widths[widest]) {
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

// render draws a table in lines of at most the width of the page, if its fixed
// columns leave room for that and it need not be whole.
func (p *page) render(t Table) {
	for i, width := range t.shrink(p.Width, p.Whole) {
		for _, row := range t.Rows {
			row.Cells[i] = text.Snip(row.Cells[i], width, "…")
		}
	}
	widths, total := t.widths(uncut, uncut) // a title is never cut
	write := func(cell func(int, Column) string) {
		line := ""
		for i, c := range t.Columns {
			cell := cell(i, c)
			space := strings.Repeat(" ", widths[i]-text.StringWidthWithoutEscSequences(cell))
			line += strings.Repeat(" ", gap)
			if c.Right {
				line += space + cell
			} else {
				line += cell + space
			}
		}
		p.line(strings.TrimRight(line, " "))
	}
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Title != "" }) {
		write(func(_ int, c Column) string { return c.Title })
		p.line(strings.Repeat("─", total))
	}
	for _, row := range t.Rows {
		write(func(i int, c Column) string { return p.look(c, isolate(row.Cells[i])) })
	}
}

func (p *page) look(c Column, cell string) string {
	switch {
	case c.Strong:
		return p.bold(cell)
	case c.faint:
		return p.faint(cell)
	case c.cyan:
		return p.cyan(cell)
	}
	return cell
}
