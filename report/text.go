package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// messageLines is how many lines of a failure's message are shown.
const messageLines = 3

// page is a report in the making; it is written at once when complete.
type page struct {
	Options
	text  strings.Builder
	begun string // the title of a section in which nothing stands yet
}

func newPage(opt Options) *page { return &page{Options: opt.filled()} }

func (p *page) writeTo(w io.Writer) error { return write(w, isolates(p.text.String())) }

// title begins a section. It is written with its first line: a section in which
// nothing stands has none.
func (p *page) title(s string) { p.begun = s }

// line writes one line as it is.
func (p *page) line(s string) {
	p.heading()
	p.text.WriteString(s + "\n")
}

// heading writes the title of a section, if that was not done.
func (p *page) heading() {
	if p.begun != "" {
		p.text.WriteString("\n" + p.bold(isolate(text.Snip(p.begun, p.Width, "…"))) + "\n")
		p.begun = ""
	}
}

// wrapped writes text in lines that fit, each after the indent; at most so
// many lines, 0 for all.
func (p *page) wrapped(s string, indent, most int, paint func(string) string) {
	p.hang(strings.Repeat(" ", indent), s, most, paint)
}

// hang writes text in lines that fit, after a lead, and its further lines below the
// text; at most so many lines, 0 for all.
func (p *page) hang(lead, s string, most int, paint func(string) string) {
	indent := text.StringWidthWithoutEscSequences(lead)
	lines := Wrap(s, p.Width-indent)
	if most > 0 && len(lines) > most {
		lines = lines[:most]
		lines[most-1] = text.Trim(lines[most-1], p.Width-indent-2) + " …"
	}
	for _, line := range lines {
		line = isolate(strings.ReplaceAll(strings.TrimSuffix(line, unbroken+"·"), unbroken, " "))
		if paint != nil && line != "" {
			line = paint(line)
		}
		p.line(strings.TrimRight(lead+line, " "))
		lead = strings.Repeat(" ", indent)
	}
}

// parts writes what is not empty, with dots between, after a label; lines are
// broken only between parts.
func (p *page) parts(label string, parts ...string) {
	const indent = 10
	whole := cli.Each(given(parts...), func(part string) string {
		return strings.ReplaceAll(isolate(text.Snip(part, p.Width-indent-2, "…")), " ", unbroken)
	})
	if len(whole) > 0 {
		p.hang(p.faint(text.Pad(label, indent, ' ')), strings.Join(whole, unbroken+"· "), 0, nil)
	}
}

// unbroken is a space at which no line is broken.
const unbroken = "\u00a0"

// notes writes remarks below a table, those that are there.
func (p *page) notes(list ...string) {
	for _, s := range given(list...) {
		p.wrapped(textutil.Line(s), gap, 0, p.faint)
	}
}

// warnings lists texts of strangers under a title, each in so many lines, 0 for
// all.
func (p *page) warnings(title string, list []string, most int) {
	p.title(title)
	for _, warning := range list {
		p.wrapped(textutil.Line(warning), gap, most, p.yellow)
	}
}

func (p *page) where() {
	p.title("Where to look")
	for _, line := range p.Where {
		if line = textutil.Line(line); line != "" {
			p.line("  " + line)
		}
	}
}

func (p *page) paint(code, s string) string {
	if !p.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *page) bold(s string) string   { return p.paint("1", s) }
func (p *page) faint(s string) string  { return p.paint("2", s) }
func (p *page) red(s string) string    { return p.paint("31", s) }
func (p *page) yellow(s string) string { return p.paint("33", s) }
func (p *page) cyan(s string) string   { return p.paint("36", s) }

// Wrap breaks text into lines of at most width cells: at its own line ends, at
// spaces, and inside words that are longer than a line. No line ends in a
// space.
func Wrap(s string, width int) []string {
	width = max(4, width)
	var lines []string
	var line strings.Builder
	used := 0
	flush := func() {
		lines = append(lines, strings.TrimRight(line.String(), " "))
		line.Reset()
		used = 0
	}
	for paragraph := range strings.SplitSeq(s, "\n") {
		for i, word := range strings.Split(paragraph, " ") {
			size := text.StringWidthWithoutEscSequences(word)
			if i > 0 && used > 0 && used+1+size > width {
				flush()
			} else if i > 0 {
				line.WriteByte(' ')
				used++
			}
			if used+size <= width { // it may have colours
				line.WriteString(word)
				used += size
				continue
			}
			for _, r := range word {
				cells := text.RuneWidth(r)
				if used > 0 && used+cells > width {
					flush()
				}
				line.WriteRune(r)
				used += cells
			}
		}
		flush()
	}
	return lines
}

// isolate keeps right-to-left text from reordering the columns beside it. It
// marks the text with control characters, which clean text has none of and
// which the table library rightly gives no width, unlike the real marks.
func isolate(s string) string {
	if strings.ContainsFunc(s, rightToLeft) {
		return "\x01" + s + "\x02"
	}
	return s
}

// isolates turns the marks of isolate into FIRST STRONG ISOLATE and POP
// DIRECTIONAL ISOLATE, which take no space on a terminal.
func isolates(page string) string {
	return strings.NewReplacer("\x01", "\u2068", "\x02", "\u2069").Replace(page)
}

func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// label is a name as one line, and says so when there is none.
func label(name string) string { return cmp.Or(textutil.Line(name), "(none)") }

// listed shows the first of some texts, so many, and how many more there are.
func listed(list []string, most int, show func(string) string) (out []string) {
	out = cli.Each(list[:min(len(list), most)], show)
	more := len(list) - len(out)
	return append(out, given(when(more > 0, "and "+Count(more)+" more"))...)
}

// FirstRunes returns the first n runes of s and how many are left; all for a
// negative n.
func FirstRunes(s string, n int) (string, int) {
	if n >= 0 && len(s) > n {
		for end := range s {
			if n == 0 {
				return s[:end], utf8.RuneCountInString(s[end:])
			}
			n--
		}
	}
	return s, 0
}

// markdown is a page of Markdown in the making.
type markdown struct{ text strings.Builder }

// line writes a line.
func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// warnings lists texts of strangers.
func (m *markdown) warnings(list []string) {
	for _, warning := range list {
		m.line("- ⚠️ %s", excerpt(warning))
	}
	m.line("")
}

// paragraph writes a line with an empty one after it.
func (m *markdown) paragraph(format string, args ...any) { m.line(format+"\n", args...) }

// note writes a paragraph, if there is one.
func (m *markdown) note(s string) {
	if s != "" {
		m.paragraph("%s", s)
	}
}

// table writes the tables that have rows, each under its title or folded. What matters
// most in the row of the primary score is bold.
func (m *markdown) table(tables ...Table) {
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		if t.folded {
			m.paragraph("<details><summary>%s</summary>", summaryOf(t.Title))
		} else if t.Title != "" {
			m.paragraph("### %s", spans(t.Title))
		}
		m.rows(t)
		m.note(when(t.folded, "</details>"))
	}
}

// summaryOf is a title of what is folded, where code spans are none: it has no character
// that means something in Markdown or HTML.
func summaryOf(title string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("<>&@#*[]()`|\\!", r) {
			return -1
		}
		return r
	}, unquoted(title))
}

func (m *markdown) rows(t Table) {
	t = t.in(func(c Column) string { return c.Markdown }, func(c Column, cell string) string {
		if c.Name {
			cell = excerpt(cell)
		}
		return spans(cell)
	})
	// A bar within a cell is shown as a broken one: it would end the cell even inside of
	// code, and an escaped one too if a backslash precedes it.
	cellOf := func(s string) string { return " " + strings.ReplaceAll(s, "|", "¦") + " |" }
	titles, rules := "|", "|"
	for _, c := range t.Columns {
		titles += cellOf(c.Title)
		rules += map[bool]string{true: " ---: |", false: " --- |"}[c.Right]
	}
	m.line("%s\n%s", titles, rules)
	for _, row := range t.Rows {
		line := "|"
		for i, cell := range row.Cells {
			if c := t.Columns[i]; row.Primary && (c.Name || c.Strong) {
				cell = "**" + cell + "**"
			}
			line += cellOf(cell + when(i == 0, trialMark(row.Trial)))
		}
		m.line("%s", line)
	}
	m.line("")
	m.note(t.More)
}

// plain is for what is not a quoted text: two amounts of money must not be read as a formula.
var plain = strings.NewReplacer("$", `\$`, "\n", " · ")

// spans puts the quoted texts of a cell into code spans, and what were lines after one
// another.
func spans(cell string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(cell, "\x01")
		out.WriteString(plain.Replace(before))
		if !found {
			return out.String()
		}
		quoted, behind, _ := strings.Cut(rest, "\x02")
		out.WriteString(excerpt(quoted))
		cell = behind
	}
}

// code puts a stranger's text into a code span of Markdown, with more backticks
// around it than it has in a row.
func code(s string) string {
	s = textutil.Line(s)
	if s == "" {
		return "(none)"
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	space := when(strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`"), " ")
	return fence + space + s + space + fence
}

// Brief returns the first n runes of a text, and … where more follow.
func Brief(s string, n int) string {
	shown, left := FirstRunes(s, n)
	return shown + when(left > 0, "…")
}

// mostQuoted is how much of a stranger's text is quoted, in runes.
const mostQuoted = 300

// excerpt is the beginning of a stranger's text as a code span.
func excerpt(s string) string { return code(Brief(s, mostQuoted)) }

// WebLink returns an address that a browser may be sent to: http or https with a
// host; ok is false for anything else.
func WebLink(raw string) (link string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}
	return strings.NewReplacer("<", "%3C", ">", "%3E").Replace(u.String()), true
}
