package answers

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/search"
)

// statement is a sentence, or a row of a table with its header.
type statement struct {
	searched string // with the words by which it is found
	said     string // as an answer says it
}

// pageNumber is a line that says nothing else; it would pass for a citation.
var pageNumber = regexp.MustCompile(`(?i)^[-–— ]*(стр\.|с\.|page|p\.)? *\d+[-–— ]*$`)

// cell is what pdftext puts between the cells of a row.
const cell = " | "

// statements takes the text of a page apart: running text into sentences,
// tables into rows. Both are found by the words of the heading above, too, a row
// also by those of its table's header; a row says of each number what it is.
func statements(text string) []statement {
	var out []statement
	var prose, header []string
	heading := ""
	say := func(searched, said string) {
		out = append(out, statement{strings.TrimSpace(heading + " " + searched), said})
	}
	flush := func() {
		for _, s := range search.Sentences(strings.Join(prose, " ")) {
			say(s, s)
		}
		prose = nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, cell)
		if len(cells) > 1 {
			flush()
		} else {
			header = nil
		}
		switch {
		case line == "" || pageNumber.MatchString(line):
		case len(cells) == 1 && isHeading(line, lines[i+1:]):
			flush()
			heading = line
		case len(cells) == 1:
			prose = append(prose, line)
		case len(header) != len(cells):
			header = cells
			if i+1 == len(lines) || strings.Count(lines[i+1], cell) != len(cells)-1 {
				say(line, line) // a row by itself
			}
		default:
			say(strings.Join(header, " ")+cell+line, row(header, cells))
		}
	}
	flush()
	return out
}

// longestHeading is how many characters a heading has at most.
const longestHeading = 60

// isHeading recognises a short line without a point at its end, with text that
// begins anew below it.
func isHeading(line string, below []string) bool {
	if len(below) == 0 || len([]rune(line)) > longestHeading || strings.ContainsAny(line[len(line)-1:], ".!?;:,") {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimSpace(below[0]))
	return unicode.IsUpper(next)
}

// row says a row with its header: "Выручка — 2022: 95; 2023: 102".
func row(header, cells []string) string {
	parts := make([]string, 0, len(cells)-1)
	for i := 1; i < len(cells); i++ {
		parts = append(parts, header[i]+": "+cells[i])
	}
	return cells[0] + " — " + strings.Join(parts, "; ")
}
