package report

import (
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"

	"extraction-experiment/internal/textutil"
)

// markdown is a page of Markdown in the making.
type markdown struct{ text strings.Builder }

func (m *markdown) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, m.text.String())
	return written(err)
}

// line writes a line.
func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// section writes a table under a title, if it has rows.
func (m *markdown) section(title string, t Table) {
	if len(t.Rows) > 0 {
		m.note(title)
		m.table(t, nil)
	}
}

// paragraph writes a line with an empty one behind it.
func (m *markdown) paragraph(format string, args ...any) { m.line(format+"\n", args...) }

// note writes a paragraph, if there is one.
func (m *markdown) note(s string) {
	if s != "" {
		m.paragraph("%s", s)
	}
}

// table writes a table, if it has rows; cells for which bold says so are bold.
func (m *markdown) table(t Table, bold func(Row, Column) bool) {
	t = t.in(func(c Column) string { return c.Markdown })
	if len(t.Rows) == 0 {
		return
	}
	titles, rules := "|", "|"
	for _, c := range t.Columns {
		titles += " " + noBar(c.Title) + " |"
		rules += map[bool]string{true: " ---: |", false: " --- |"}[c.Right]
	}
	m.line("%s\n%s", titles, rules)
	for _, row := range t.Rows {
		line := "|"
		for i, cell := range row.Cells {
			c := t.Columns[i]
			if c.Name {
				cell = excerpt(cell)
			}
			if i == 0 && row.Trial > 0 {
				cell += fmt.Sprintf(" #%d", row.Trial)
			}
			if bold != nil && bold(row, c) {
				cell = "**" + cell + "**"
			}
			line += " " + noBar(cell) + " |"
		}
		m.line("%s", line)
	}
	m.line("")
}

// folded writes a part that is opened by clicking on its title.
func (m *markdown) folded(title string, write func()) {
	m.paragraph("<details><summary>%s</summary>", html.EscapeString(title))
	write()
	m.paragraph("</details>")
}

// noBar shows a bar within a cell as a broken one: a bar would end the cell even
// inside of code, and an escaped one too if a backslash stands before it.
func noBar(cell string) string { return strings.ReplaceAll(cell, "|", "¦") }

// noMath keeps two amounts of money from being read as a formula between them.
func noMath(s string) string { return strings.ReplaceAll(s, "$", `\$`) }

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
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// excerpt is the beginning of a stranger's text as a code span.
func excerpt(s string) string {
	shown, left := FirstRunes(s, 300)
	if left > 0 {
		shown += "…"
	}
	return code(shown)
}

// webLink returns an address that a browser may be sent to: http or https with a
// host; ok is false for anything else.
func webLink(raw string) (link string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}
	return strings.NewReplacer("<", "%3C", ">", "%3E").Replace(u.String()), true
}
