package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
	"extraction-experiment/internal/textutil"
)

// Table is a part of a report. The terminal, Markdown and page forms are all written from it.
type Table struct {
	Title   string // untrusted text must be quoted
	Columns []Column
	Rows    []Row
	Items   bool     // the first column names items
	More    string   // says how many rows are not shown: "and 3 more types"
	Notes   []string // shown below the table on a terminal and on pages
	noun    string   // what a row is; defaults to the title of the first column
	folded  bool     // Markdown folds the table
}

// Column describes a column. Text, Markdown and Page replace Title in one form; the title hidden
// removes the column from that form.
type Column struct {
	Title, Text, Markdown, Page string

	Name   bool // untrusted text, which each form escapes
	Right  bool // right-aligned, for numbers
	Strong bool // the most important column

	Diff  bool   // a difference, which pages colour by the state of the row
	Pill  bool   // marked with the state of the row
	Below bool   // a terminal shows it on lines below the row
	Wide  int    // order in which columns are dropped from a narrow terminal, largest first; 0 means never
	Hint  string // explains the title

	// A terminal cuts flexible columns that are too wide: free text first, also in a pipe, and
	// keys, which tell rows apart, last.
	flex, free, key, faint, cyan bool

	// whole, if set, makes a terminal drop columns before it cuts this key; if it must, whole is a note.
	whole string
}

// Row is a row of a table.
type Row struct {
	Cells   []string // untrusted text must be quoted or in a Name column
	Primary bool     // the row of the primary score
	State   string   // "better", "worse" or the answer of a rule
	Trial   int      // trial of the item that the row is about, if it matters
}

// name returns a column of names that tell rows apart, number one of numbers.
func name(title string) Column   { return Column{Title: title, Name: true, flex: true, key: true} }
func number(title string) Column { return Column{Title: title, Right: true} }

func (c Column) strong() Column          { c.Strong = true; return c }
func (c Column) wide(order int) Column   { c.Wide = order; return c }
func (c Column) hint(text string) Column { c.Hint = text; return c }

// interval returns a column of intervals. It is dropped last, because a number without its
// interval claims too much.
func interval() Column { return number("95 % interval").wide(1) }

// hidden is a title that removes a column. Untrusted text cannot equal it.
const hidden = "\x00"

// quoted marks untrusted text in a cell. The marks cannot occur in clean text.
func quoted(s string) string { return "\x01" + label(Brief(s, maxQuoted)) + "\x02" }

// unquoted removes the marks.
func unquoted(cell string) string {
	return strings.ReplaceAll(strings.ReplaceAll(cell, "\x01", ""), "\x02", "")
}

// add appends a row, which the caller may change until the next add.
func (t *Table) add(cells ...string) *Row {
	t.Rows = append(t.Rows, Row{Cells: cells})
	return &t.Rows[len(t.Rows)-1]
}

// note adds a note if cond holds.
func (t *Table) note(cond bool, text string) {
	t.Notes = append(t.Notes, nonEmpty(textIf(cond, text))...)
}

// names adds a note that lists names, if there are any.
func (t *Table) names(about string, names []string) {
	t.note(len(names) > 0, about+": "+strings.Join(names, ", "))
}

// First keeps the first n rows, or all if n is negative, and sets More.
func (t Table) First(n int) Table {
	if more := len(t.Rows) - n; n >= 0 && more > 0 {
		t.Rows, t.More = t.Rows[:n], "and "+textutil.Counted(more, "more "+cmp.Or(t.noun, t.Columns[0].Title, "row"))
	}
	return t
}

// ForPage returns the table in the form for pages.
func (t Table) ForPage() Table {
	t.Title = unquoted(t.Title)
	return t.inForm(func(c Column) string { return c.Page }, func(_ Column, cell string) string { return unquoted(cell) })
}

// inForm returns the table for one form of report: with the columns and titles of that form, and
// with its cells escaped by clean.
func (t Table) inForm(title func(Column) string, clean func(Column, string) string) Table {
	out := t
	out.Rows, out.Columns = slices.Clone(t.Rows), nil
	for i := range out.Rows {
		out.Rows[i].Cells = nil
	}
	for i, c := range t.Columns {
		if c.Title = cmp.Or(title(c), c.Title); c.Title == hidden {
			continue
		}
		out.Columns = append(out.Columns, c)
		for r, row := range t.Rows {
			out.Rows[r].Cells = append(out.Rows[r].Cells, clean(c, row.Cells[i]))
		}
	}
	return out
}

// forText returns the table in the form for a terminal: the rows, and the cells below each row.
func (t Table) forText() (rows, below Table) {
	clean := func(c Column, cell string) string {
		if c.Name {
			return label(cell)
		}
		return unquoted(cell)
	}
	rows = t.inForm(func(c Column) string { return cmp.Or(textIf(c.Below, hidden), c.Text) }, clean)
	below = t.inForm(func(c Column) string { return cmp.Or(textIf(!c.Below, hidden), c.Text) }, clean)
	for _, row := range rows.Rows {
		if len(row.Cells) > 0 {
			row.Cells[0] += trialMark(row.Trial)
		}
	}
	return rows, below
}

// trialMark returns the suffix that names a trial; empty for the first, whose run in Langfuse has none either.
func trialMark(trial int) string { return textIf(trial > 1, fmt.Sprintf(" #%d", trial)) }

// Text returns the table in full, as written to a pipe.
func (t Table) Text() string {
	p := newPage(Options{Whole: true})
	p.table(t)
	return isolates(p.text.String())
}

// gap is the number of spaces before every column.
const gap = 2

// Smallest widths to which flexible columns are cut: one at which names can still be told apart,
// and the smallest of all.
const readable, narrowest = 11, 6

// table writes each table that has rows, with its title, hints, notes, and the titles of columns
// that did not fit. In a pipe all columns fit.
func (p *page) table(tables ...Table) {
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		if t.Title != "" {
			p.title(unquoted(t.Title))
		}
		rows, below := t.forText()
		var dropped, hints []string
		if !p.Whole {
			dropped = rows.dropColumns(p.Width)
		}
		cut := p.render(rows, below)
		for _, c := range rows.Columns {
			hints = append(hints, nonEmpty(textIf(c.Hint != "", c.Title+": "+c.Hint))...)
		}
		rows.Notes = append([]string{t.More, strings.Join(hints, " · ")}, t.Notes...)
		rows.names("columns that do not fit", dropped)
		rows.note(cut != "", cut)
		p.notes(rows.Notes...)
	}
}

// dropColumns drops columns, those with the largest Wide first, until the table fits with flexible
// columns cut to at most readable, and keys to at most half of the width. If it does not fit when
// they are cut to narrowest either, dropColumns drops the last columns. It returns the dropped titles.
func (t *Table) dropColumns(width int) (dropped []string) {
	for {
		widest, steps := 0, allButNarrowest
		for _, c := range t.Columns {
			widest = max(widest, c.Wide)
		}
		if widest == 0 {
			steps = allSteps
		}
		if _, total := t.fitWidths(width, steps); total <= width || len(t.Columns) == 1 {
			return dropped
		}
		at := len(t.Columns) - 1
		if widest > 0 {
			at = slices.IndexFunc(t.Columns, func(c Column) bool { return c.Wide == widest })
		}
		dropped = append(dropped, nonEmpty(t.Columns[at].Title)...)
		t.Columns = slices.Delete(t.Columns, at, at+1)
		for i := range t.Rows {
			t.Rows[i].Cells = slices.Delete(t.Rows[i].Cells, at, at+1)
		}
	}
}

// widths returns the width of each column, and of a whole line.
func (t *Table) widths() (widths []int, total int) {
	for i, c := range t.Columns {
		width := text.StringWidthWithoutEscSequences(c.Title)
		for _, row := range t.Rows {
			width = max(width, text.StringWidthWithoutEscSequences(row.Cells[i]))
		}
		widths = append(widths, width)
		total += gap + width
	}
	return widths, total
}

// Numbers of steps of fitWidths.
const onlyFreeText, allButNarrowest, allSteps = 1, 3, 4

// fitWidths returns the column widths that fit, and the width of a whole line. It narrows the widest
// column first, in these steps: free text to readable, keys to half of the width, other flexible
// columns to readable, and at last all flexible columns to narrowest.
func (t *Table) fitWidths(width, steps int) (widths []int, total int) {
	widths, total = t.widths()
	for _, step := range []struct {
		least int
		gives func(Column) bool
	}{
		{readable, func(c Column) bool { return c.free }},
		{max(readable, width/2), func(c Column) bool { return c.key && c.whole == "" }},
		{readable, func(c Column) bool { return c.flex && !c.key }},
		{narrowest, func(c Column) bool { return c.flex }},
	}[:steps] {
		for total > width {
			widest := -1
			for i, c := range t.Columns {
				least := max(step.least, text.StringWidthWithoutEscSequences(c.Title)) // titles are never cut
				if step.gives(c) && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
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
	return widths, total
}

// render writes the rows of a table, cut to the width of the page as far as its fixed columns
// allow. It returns the note of a column that should have been whole.
func (p *page) render(t, below Table) (note string) {
	steps := allSteps
	if p.Whole {
		steps = onlyFreeText
	}
	fitting, _ := t.fitWidths(p.Width, steps)
	for i, width := range fitting {
		for _, row := range t.Rows {
			whole := row.Cells[i]
			if row.Cells[i] = text.Snip(whole, width, "…"); row.Cells[i] != whole {
				note = cmp.Or(note, t.Columns[i].whole)
			}
		}
	}
	widths, total := t.widths()
	write := func(cell func(int, Column) string) {
		line := ""
		for i, c := range t.Columns {
			cell := cell(i, c)
			space := strings.Repeat(" ", widths[i]-text.StringWidthWithoutEscSequences(cell))
			line += strings.Repeat(" ", gap) + textIf(c.Right, space) + cell + textIf(!c.Right, space)
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
		write(func(i int, c Column) string { return p.style(c, row.State, isolate(row.Cells[i])) })
		for _, cell := range below.Rows[r].Cells {
			for line := range strings.SplitSeq(cell, "\n") {
				if line != "" {
					p.wrapped(line, gap*(1+min(2, len(t.Columns))), messageLines, p.faint)
				}
			}
		}
	}
	return note
}

func (p *page) style(c Column, state, cell string) string {
	switch {
	case c.Strong:
		return p.bold(cell)
	case c.faint:
		return p.faint(cell)
	case c.cyan, c.Pill && (state == string(compare.Better) || state == string(compare.Pass)):
		return p.cyan(cell)
	case c.Pill && (state == string(compare.Worse) || state == string(compare.Fail)):
		return p.red(cell)
	case c.Pill && state == string(compare.Inconclusive):
		return p.yellow(cell)
	}
	return cell
}
