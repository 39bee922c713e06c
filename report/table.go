package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
)

// Table is a part of a report from which every form is written: a terminal takes
// the columns that fit, Markdown and pages those that are for them.
type Table struct {
	Title   string // with text of strangers in quotes
	Columns []Column
	Rows    []Row
	Items   bool     // the first column names items
	More    string   // how many rows are not shown: "and 3 more types"
	Notes   []string // remarks of a terminal and of pages
	noun    string   // of a row; the title of the first column for ""
	folded  bool     // Markdown hides it at first
}

// Column describes a column. Title is above it in every form but those for which
// it has another; no leaves the column out of a form.
type Column struct {
	Title, Text, Markdown, Page string

	Name   bool // text of strangers, as it is: each form makes it harmless in its way
	Right  bool // numbers are at the right
	Strong bool // what matters most in a row

	Diff  bool   // a difference: a page colours it by the state of the row
	Pill  bool   // the words are marked with the state of the row
	Below bool   // lines that a terminal shows below the row
	Wide  int    // where there is little room it is left out, the largest number first; 0 never
	Hint  string // about the title, where that does not say enough

	// At a terminal flexible columns are cut with "…" where they are too wide: free
	// text first and even in a pipe, names that tell the rows apart last.
	flex, free, key, faint, cyan bool
}

// Row is a row of a table.
type Row struct {
	Cells   []string // with text of strangers in quotes, or in columns of names
	Primary bool     // of the primary score
	State   string   // "better" or "worse", or the answer of a rule
	Trial   int      // of the item that the row is about, where that is to be said
}

// name is a column of names by which the rows are told apart, number one of numbers.
func name(title string) Column   { return Column{Title: title, Name: true, flex: true, key: true} }
func number(title string) Column { return Column{Title: title, Right: true} }

func (c Column) strong() Column          { c.Strong = true; return c }
func (c Column) wide(order int) Column   { c.Wide = order; return c }
func (c Column) hint(text string) Column { c.Hint = text; return c }

// interval is the column that goes last of all: a number without its interval says too
// much.
func interval() Column { return number("95 % interval").wide(1) }

// no, as a title, leaves a column out; no text of strangers is the same.
const no = "\x00"

// quoted marks a text of strangers in a cell; clean text has no such characters.
func quoted(s string) string { return "\x01" + label(Brief(s, mostQuoted)) + "\x02" }

// unquoted takes the marks away.
func unquoted(cell string) string {
	return strings.ReplaceAll(strings.ReplaceAll(cell, "\x01", ""), "\x02", "")
}

// add appends a row; it may be completed until the next one is added.
func (t *Table) add(cells ...string) *Row {
	t.Rows = append(t.Rows, Row{Cells: cells})
	return &t.Rows[len(t.Rows)-1]
}

// note adds a remark where something holds.
func (t *Table) note(holds bool, text string) { t.Notes = append(t.Notes, given(when(holds, text))...) }

// names adds a remark about some names, if there are any.
func (t *Table) names(about string, names []string) {
	t.note(len(names) > 0, about+": "+strings.Join(names, ", "))
}

// First keeps so many rows, all for a negative number, and says how many more
// there are.
func (t Table) First(n int) Table {
	if more := len(t.Rows) - n; n >= 0 && more > 0 {
		t.Rows, t.More = t.Rows[:n], "and "+Counted(more, "more "+cmp.Or(t.noun, t.Columns[0].Title, "row"))
	}
	return t
}

// ForPage is the table as a page shows it.
func (t Table) ForPage() Table {
	t.Title = unquoted(t.Title)
	return t.in(func(c Column) string { return c.Page }, func(_ Column, cell string) string { return unquoted(cell) })
}

// in is the table with the columns of one form, under its titles, and its cells made
// harmless in the way of that form.
func (t Table) in(title func(Column) string, clean func(Column, string) string) Table {
	out := t
	out.Rows, out.Columns = slices.Clone(t.Rows), nil
	for i := range out.Rows {
		out.Rows[i].Cells = nil
	}
	for i, c := range t.Columns {
		if c.Title = cmp.Or(title(c), c.Title); c.Title == no {
			continue
		}
		out.Columns = append(out.Columns, c)
		for r, row := range t.Rows {
			out.Rows[r].Cells = append(out.Rows[r].Cells, clean(c, row.Cells[i]))
		}
	}
	return out
}

// forText is the table as a terminal shows it: the rows, and what is below them.
func (t Table) forText() (rows, below Table) {
	clean := func(c Column, cell string) string {
		if c.Name {
			return label(cell)
		}
		return unquoted(cell)
	}
	rows = t.in(func(c Column) string { return cmp.Or(when(c.Below, no), c.Text) }, clean)
	below = t.in(func(c Column) string { return cmp.Or(when(!c.Below, no), c.Text) }, clean)
	for _, row := range rows.Rows {
		if len(row.Cells) > 0 {
			row.Cells[0] += trialMark(row.Trial)
		}
	}
	return rows, below
}

// trialMark tells a trial from the first one, which has the name of the item alone.
func trialMark(trial int) string { return when(trial > 1, fmt.Sprintf(" #%d", trial)) }

// Text is the table as it is in a pipe: no column is left out and no name is cut.
func (t Table) Text() string {
	p := newPage(Options{Whole: true})
	p.table(t)
	return isolates(p.text.String())
}

// gap is the space before every column; that before the first indents the table.
const gap = 2

// The least widths that a flexible column is cut to: that at which a cut name can
// still be told from others, and the least of all.
const readable, narrowest = 11, 6

// table draws tables.
func (p *page) table(tables ...Table) {
	for _, t := range tables {
		p.draw(t)
	}
}

// draw draws a table under its title, and below it what its titles mean, remarks, and
// the columns that did not fit. In a pipe there is always room.
func (p *page) draw(t Table) {
	if t.Title != "" {
		p.title(unquoted(t.Title))
	}
	if len(t.Rows) == 0 {
		return
	}
	rows, below := t.forText()
	var dropped, hints []string
	if !p.Whole {
		dropped = rows.shorten(p.Width)
	}
	p.render(rows, below)
	for _, c := range rows.Columns {
		hints = append(hints, given(when(c.Hint != "", c.Title+": "+c.Hint))...)
	}
	rows.Notes = append([]string{t.More, strings.Join(hints, " · ")}, t.Notes...)
	rows.names("left out for want of width", dropped)
	p.notes(rows.Notes...)
}

// shorten drops wide columns until the line fits with no flexible column cut to less than
// readable, and keys to no less than half of the width. It returns the titles that are missed.
func (t *Table) shorten(width int) (dropped []string) {
	least := func(c Column) int {
		switch {
		case c.key:
			return max(readable, width/2)
		case c.flex:
			return readable
		}
		return uncut
	}
	for {
		at, widest := 0, 0
		for i, c := range t.Columns {
			if c.Wide > widest {
				at, widest = i, c.Wide
			}
		}
		if _, total := t.widths(least); total <= width || widest == 0 {
			return dropped
		}
		dropped = append(dropped, given(t.Columns[at].Title)...)
		t.Columns = slices.Delete(t.Columns, at, at+1)
		for i := range t.Rows {
			t.Rows[i].Cells = slices.Delete(t.Rows[i].Cells, at, at+1)
		}
	}
}

// uncut is the least width of what is not cut.
const uncut = math.MaxInt

// widths returns the width of every column and of a line, where columns are cut to
// what is the least of them.
func (t *Table) widths(least func(Column) int) (widths []int, total int) {
	for i, c := range t.Columns {
		width := text.StringWidthWithoutEscSequences(c.Title)
		for _, row := range t.Rows {
			width = max(width, text.StringWidthWithoutEscSequences(row.Cells[i]))
		}
		widths = append(widths, min(width, least(c)))
		total += gap + widths[i]
	}
	return widths, total
}

// shrink takes from the widest of the flexible columns until the line fits: from free
// text, from keys what is over half of the width, and from all but keys, down to what is
// readable; at last from all. Where the table is to be whole it takes from free text only.
func (t *Table) shrink(width int, whole bool) []int {
	widths, total := t.widths(func(Column) int { return uncut })
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
func (p *page) render(t, below Table) {
	for i, width := range t.shrink(p.Width, p.Whole) {
		for _, row := range t.Rows {
			row.Cells[i] = text.Snip(row.Cells[i], width, "…")
		}
	}
	widths, total := t.widths(func(Column) int { return uncut }) // a title is never cut
	write := func(cell func(int, Column) string) {
		line := ""
		for i, c := range t.Columns {
			cell := cell(i, c)
			space := strings.Repeat(" ", widths[i]-text.StringWidthWithoutEscSequences(cell))
			line += strings.Repeat(" ", gap) + when(c.Right, space) + cell + when(!c.Right, space)
		}
		if line = strings.TrimRight(line, " "); line != "" {
			p.line(line)
		}
	}
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Title != "" }) {
		write(func(_ int, c Column) string { return c.Title })
		p.line(strings.Repeat("─", total))
	}
	for r, row := range t.Rows {
		write(func(i int, c Column) string { return p.look(c, row.State, isolate(row.Cells[i])) })
		for _, cell := range below.Rows[r].Cells {
			for line := range strings.SplitSeq(cell, "\n") {
				if line != "" {
					p.wrapped(line, gap*(1+min(2, len(t.Columns))), messageLines, p.faint)
				}
			}
		}
	}
}

func (p *page) look(c Column, state, cell string) string {
	states := map[string]func(string) string{string(compare.Better): p.cyan, string(compare.Pass): p.cyan,
		string(compare.Worse): p.red, string(compare.Fail): p.red, string(compare.Inconclusive): p.yellow}
	switch {
	case c.Strong:
		return p.bold(cell)
	case c.faint:
		return p.faint(cell)
	case c.cyan:
		return p.cyan(cell)
	case c.Pill && states[state] != nil:
		return states[state](cell)
	}
	return cell
}
