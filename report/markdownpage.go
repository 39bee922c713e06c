package report

import (
	"html"
	"strings"
)

// markdown is a page of Markdown in the making.
type markdown struct{ text strings.Builder }

func (m *markdown) line(s string) { m.text.WriteString(s + "\n") }

// table writes a table; a column is right-aligned if its title ends in ":".
func (m *markdown) table(titles []string, rows [][]string) {
	rule := make([]string, len(titles))
	for i, title := range titles {
		rule[i] = "---"
		if strings.HasSuffix(title, ":") {
			titles[i], rule[i] = strings.TrimSuffix(title, ":"), "---:"
		}
	}
	for _, row := range append([][]string{titles, rule}, rows...) {
		line := "|"
		for _, cell := range row {
			line += " " + noBar(cell) + " |"
		}
		m.line(line)
	}
	m.line("")
}

// folded writes a part that is opened by clicking on its title.
func (m *markdown) folded(title string, write func()) {
	m.line("<details><summary>" + html.EscapeString(title) + "</summary>")
	m.line("")
	write()
	m.line("</details>")
	m.line("")
}

// noBar shows a bar within a cell as a broken one: a bar would end the cell even
// inside of code, and an escaped one too if a backslash stands before it.
func noBar(cell string) string { return strings.ReplaceAll(cell, "|", "¦") }
