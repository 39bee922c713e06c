package answers

import (
	"strings"

	"extraction-experiment/internal/search"
)

// statement is a sentence, or a row of a table with its header.
type statement struct {
	searched string // with the words by which it is found
	said     string // as an answer says it
}

// cell is what pdftext puts between the cells of a row.
const cell = " | "

// statements takes the text of a page apart: running text into sentences,
// tables into rows. A row is found by the words of the table's header, too, and
// says of each number what it is.
func statements(text string) []statement {
	var out []statement
	var prose []string
	var header []string
	flush := func() {
		for _, s := range search.Sentences(strings.Join(prose, " ")) {
			out = append(out, statement{s, s})
		}
		prose = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, cell)
		switch {
		case line == "":
			flush()
		case len(cells) == 1:
			header = nil
			prose = append(prose, line)
		case header == nil || len(header) != len(cells):
			flush()
			header = cells
			out = append(out, statement{line, line})
		default:
			flush()
			out = append(out, statement{strings.Join(header, " ") + cell + line, row(header, cells)})
		}
	}
	flush()
	return out
}

// row says a row with its header: "Выручка — 2022: 95; 2023: 102".
func row(header, cells []string) string {
	parts := make([]string, 0, len(cells)-1)
	for i := 1; i < len(cells); i++ {
		parts = append(parts, header[i]+": "+cells[i])
	}
	return cells[0] + " — " + strings.Join(parts, "; ")
}
