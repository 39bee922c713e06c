package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/internal/printable"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Options says how a report is laid out. The zero value is usable.
type Options struct {
	// Width is that of the terminal in cells; 0 is 80, less than 50 is 50.
	Width int
	// Whole is for what is no terminal, as a pipe: tables are as wide as they
	// need, no column is left out and no name is cut. Text is wrapped as ever.
	Whole bool
	// Color allows colours. The caller decides, by the terminal and NO_COLOR.
	Color bool
	// Where are lines that say where to look further, links or commands. They
	// are printed whole, however long, so that they can be copied.
	Where []string
	// Groups is how many rows a breakdown has at most; 0 is 15, negative all.
	Groups int
	// Document is how many characters of a document are shown; 0 is 2,000,
	// negative all.
	Document int
}

func (o Options) filled() Options {
	if o.Width == 0 {
		o.Width = 80
	}
	o.Width = max(50, o.Width)
	if o.Groups == 0 {
		o.Groups = 15
	}
	if o.Document == 0 {
		o.Document = 2000
	}
	return o
}

// page is a report in the making; it is written at once when complete.
type page struct {
	Options
	text strings.Builder
}

func newPage(opt Options) *page { return &page{Options: opt.filled()} }

func (p *page) writeTo(w io.Writer) error {
	if _, err := io.WriteString(w, isolates(p.text.String())); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// title begins a section.
func (p *page) title(s string) {
	p.text.WriteString("\n" + p.bold(isolate(text.Snip(s, p.Width, "…"))) + "\n")
}

// snip cuts a name that does not fit, with "…"; not where all is to be whole.
func (p *page) snip(name string, width int) string {
	if p.Whole {
		return name
	}
	return text.Snip(name, width, "…")
}

// line writes one line as it is.
func (p *page) line(s string) { p.text.WriteString(s + "\n") }

// wrapped writes text in lines that fit, each behind the indent; at most so
// many lines, 0 for all.
func (p *page) wrapped(s string, indent, most int, paint func(string) string) {
	lines := Wrap(s, p.Width-indent)
	if most > 0 && len(lines) > most {
		last := lines[most-1]
		if text.StringWidthWithoutEscSequences(last) > p.Width-indent-2 {
			last = text.Trim(last, p.Width-indent-2)
		}
		lines = append(lines[:most-1:most-1], last+" …")
	}
	for _, line := range lines {
		if line == "" {
			p.line("")
			continue
		}
		line = isolate(line)
		if paint != nil {
			line = paint(line)
		}
		p.text.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
}

// parts writes what is not empty, with dots between, after a label; lines are
// broken only between parts.
func (p *page) parts(label string, parts ...string) {
	const indent = 10
	lead := text.Pad(label, indent, ' ')
	line, used := "", 0
	flush := func() {
		if line != "" {
			p.line(p.faint(lead) + line)
			lead = strings.Repeat(" ", indent)
		}
		line, used = "", 0
	}
	for _, part := range parts {
		if part == "" {
			continue
		}
		part = text.Snip(part, p.Width-indent, "…")
		width := text.StringWidthWithoutEscSequences(part)
		if used > 0 && indent+used+3+width > p.Width {
			flush()
		}
		if used > 0 {
			line += " · "
			used += 3
		}
		line += isolate(part)
		used += width
	}
	flush()
}

func (p *page) grid(g *grid) {
	if len(g.rows) > 0 {
		p.text.WriteString(g.render(p.Width, p.Whole))
	}
}

func (p *page) where() {
	titled := false
	for _, line := range p.Where {
		line = printable.Line(line)
		if line == "" {
			continue
		}
		if !titled {
			p.title("Where to look")
			titled = true
		}
		p.line("  " + line)
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
		first := true
		for word := range strings.SplitSeq(paragraph, " ") {
			size := text.StringWidthWithoutEscSequences(word)
			switch {
			case first:
				first = false
			case used > 0 && used+1+size > width:
				flush()
			default:
				line.WriteByte(' ')
				used++
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
