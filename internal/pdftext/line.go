package pdftext

import (
	"slices"
	"strings"
)

// line is what stands at one height.
type line struct {
	chunks []chunk
	y      float64
	size   float64
}

// linesOf sorts chunks into lines, from the top down.
func linesOf(chunks []chunk) []line {
	chunks = slices.Clone(chunks)
	slices.SortStableFunc(chunks, func(a, b chunk) int {
		switch {
		case a.y > b.y:
			return -1
		case a.y < b.y:
			return 1
		}
		return 0
	})
	var lines []line
	for _, c := range chunks {
		if n := len(lines) - 1; n >= 0 && lines[n].y-c.y < 0.5*min(lines[n].size, c.size) {
			lines[n].chunks = append(lines[n].chunks, c)
			continue
		}
		lines = append(lines, line{[]chunk{c}, c.y, c.size})
	}
	for i := range lines {
		lines[i].arrange()
	}
	return lines
}

// arrange sorts a line from left to right, and drops what is printed twice to
// look bold.
func (l *line) arrange() {
	slices.SortStableFunc(l.chunks, func(a, b chunk) int {
		switch {
		case a.x0 < b.x0:
			return -1
		case a.x0 > b.x0:
			return 1
		}
		return 0
	})
	kept := l.chunks[:0]
	for _, c := range l.chunks {
		if n := len(kept); n > 0 && kept[n-1].text == c.text && c.x0-kept[n-1].x0 < 0.3*c.size {
			continue
		}
		kept = append(kept, c)
	}
	l.chunks = kept
}

// prose joins the chunks of a line of running text.
func (l line) prose() string {
	words := make([]string, len(l.chunks))
	for i, c := range l.chunks {
		words[i] = c.text
	}
	return strings.Join(words, " ")
}

// text joins the chunks, with " | " between cells.
func (l line) text() string {
	var b strings.Builder
	for i, c := range l.chunks {
		if i > 0 {
			switch gap := c.x0 - l.chunks[i-1].x1; {
			case gap > cellGap*c.size, c.cell:
				b.WriteString(" | ")
			case gap > spaceGap*c.size:
				b.WriteByte(' ')
			}
		}
		b.WriteString(c.text)
	}
	return b.String()
}

func (l line) span() (x0, x1 float64) {
	x0, x1 = l.chunks[0].x0, l.chunks[0].x1
	for _, c := range l.chunks {
		x0, x1 = min(x0, c.x0), max(x1, c.x1)
	}
	return x0, x1
}
