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

// messageLines is the largest number of lines of a failure's message.
const messageLines = 3

// page builds a report for a terminal.
type page struct {
	Options
	text    strings.Builder
	pending string // title of a section without lines so far
}

func newPage(opt Options) *page {
	opt.Width, opt.Document = max(40, cmp.Or(opt.Width, 80)), cmp.Or(opt.Document, 2000)
	return &page{Options: opt}
}

func (p *page) writeTo(w io.Writer) error { return write(w, isolates(p.text.String())) }

// title begins a section. The title is written before the first line, so that an empty section
// has none.
func (p *page) title(s string) { p.pending = s }

// line writes one line unchanged.
func (p *page) line(s string) {
	p.heading()
	p.text.WriteString(s + "\n")
}

// heading writes the pending title.
func (p *page) heading() {
	if p.pending != "" {
		p.text.WriteString("\n" + p.bold(isolate(text.Snip(p.pending, p.Width, "…"))) + "\n")
		p.pending = ""
	}
}

// wrapped writes text in indented lines that fit, at most maxLines lines; 0 means all.
func (p *page) wrapped(s string, indent, maxLines int, paint func(string) string) {
	p.hang(strings.Repeat(" ", indent), s, maxLines, paint)
}

// hang writes text after a lead, with further lines indented below it, at most maxLines lines; 0
// means all.
func (p *page) hang(lead, s string, maxLines int, paint func(string) string) {
	indent := text.StringWidthWithoutEscSequences(lead)
	lines := Wrap(s, p.Width-indent)
	if maxLines > 0 && len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = text.Trim(lines[maxLines-1], p.Width-indent-2) + " …"
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

// parts writes the parts that are not empty after a label, separated by dots. Lines break only
// between parts.
func (p *page) parts(label string, parts ...string) {
	const indent = 10
	whole := cli.Each(nonEmpty(parts...), func(part string) string {
		return strings.ReplaceAll(isolate(text.Snip(part, p.Width-indent-2, "…")), " ", unbroken)
	})
	if len(whole) > 0 {
		p.hang(p.faint(text.Pad(label, indent, ' ')), strings.Join(whole, unbroken+"· "), 0, nil)
	}
}

// unbroken is a no-break space.
const unbroken = "\u00a0"

// notes writes the notes that are not empty.
func (p *page) notes(list ...string) {
	for _, s := range nonEmpty(list...) {
		p.wrapped(textutil.Line(s), gap, 0, p.faint)
	}
}

// warnings lists untrusted texts, each in at most maxLines lines; 0 means all.
func (p *page) warnings(list []string, maxLines int) {
	p.title("Warnings")
	for _, warning := range list {
		p.wrapped(textutil.Line(warning), gap, maxLines, p.yellow)
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

// Wrap breaks text into lines of at most width cells: at its line ends, at spaces, and inside
// words longer than a line. Lines have no trailing spaces.
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
			if used+size <= width { // the line may contain colour codes
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

// isolate keeps right-to-left text from reordering the columns beside it. It uses control
// characters as marks, because they do not occur in clean text and the table library gives them
// no width, unlike the real marks.
func isolate(s string) string {
	if strings.ContainsFunc(s, rightToLeft) {
		return "\x01" + s + "\x02"
	}
	return s
}

// isolates replaces the marks of isolate with FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE,
// which have no width on a terminal.
func isolates(page string) string {
	return strings.NewReplacer("\x01", "\u2068", "\x02", "\u2069").Replace(page)
}

func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// label returns a name as one line, or a placeholder for an empty name.
func label(name string) string { return cmp.Or(textutil.Line(name), "(none)") }

// limitList returns at most limit texts, followed by the number of the others.
func limitList(list []string, limit int, show func(string) string) (out []string) {
	out = cli.Each(list[:min(len(list), limit)], show)
	more := len(list) - len(out)
	return append(out, nonEmpty(textIf(more > 0, "and "+Count(more)+" more"))...)
}

// FirstRunes returns the first n runes of s and the number of the others; n < 0 means all.
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

// markdown builds a report in Markdown.
type markdown struct{ text strings.Builder }

// line writes a line.
func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// warnings lists untrusted texts.
func (m *markdown) warnings(list []string) {
	for _, warning := range list {
		m.line("- ⚠️ %s", excerpt(warning))
	}
	m.line("")
}

// paragraph writes a line followed by an empty one.
func (m *markdown) paragraph(format string, args ...any) { m.line(format+"\n", args...) }

// note writes a paragraph if text is not empty.
func (m *markdown) note(s string) {
	if s != "" {
		m.paragraph("%s", s)
	}
}

// table writes the tables that have rows, with a title or folded. The Strong cell of the primary
// row is bold.
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
		m.note(strings.Join(cli.Each(t.Notes, code), " · "))
		m.note(textIf(t.folded, "</details>"))
	}
}

// summaryOf returns the title of a folded table. HTML summaries have no code spans, so it
// replaces characters with a meaning in Markdown or HTML.
func summaryOf(title string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("<>&@#*[]()`|\\!", r) {
			return -1
		}
		return r
	}, unquoted(title))
}

func (m *markdown) rows(t Table) {
	t = t.inForm(func(c Column) string { return c.Markdown }, func(c Column, cell string) string {
		if c.Name {
			cell = excerpt(cell)
		}
		return spans(cell)
	})
	// A bar would end the cell, even inside code or escaped after a backslash, so it is replaced
	// by a broken bar.
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
			line += cellOf(cell + textIf(i == 0, trialMark(row.Trial)))
		}
		m.line("%s", line)
	}
	m.line("")
	m.note(t.More)
}

// escapeMarkdown escapes trusted text: two amounts in dollars must not become a formula.
var escapeMarkdown = strings.NewReplacer("$", `\$`, "\n", " · ")

// spans puts the quoted texts of a cell into code spans, and joins its lines.
func spans(cell string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(cell, "\x01")
		out.WriteString(escapeMarkdown.Replace(before))
		if !found {
			return out.String()
		}
		quoted, behind, _ := strings.Cut(rest, "\x02")
		out.WriteString(excerpt(quoted))
		cell = behind
	}
}

// code returns untrusted text as a code span, between more backticks than the text has in a row.
func code(s string) string {
	s = textutil.Line(s)
	if s == "" {
		return "(none)"
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	space := textIf(strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`"), " ")
	return fence + space + s + space + fence
}

// Brief returns the first n runes of a text, followed by … if there are more.
func Brief(s string, n int) string {
	shown, left := FirstRunes(s, n)
	return shown + textIf(left > 0, "…")
}

// maxQuoted is the largest number of runes of a quoted text.
const maxQuoted = 300

// excerpt returns the beginning of untrusted text as a code span.
func excerpt(s string) string { return code(Brief(s, maxQuoted)) }

// WebLink returns an address if it is http or https with a host; otherwise ok is false.
func WebLink(raw string) (link string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}
	return strings.NewReplacer("<", "%3C", ">", "%3E").Replace(u.String()), true
}
