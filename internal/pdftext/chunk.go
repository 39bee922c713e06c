package pdftext

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// The distances that mean something, in sizes of the font.
const (
	spaceGap = 0.17 // between words
	cellGap  = 0.9  // between cells or columns
	backStep = 0.6  // glyphs may overlap by this
)

// chunk is a piece of a line that was written in one go.
type chunk struct {
	text   string
	x0, x1 float64
	y      float64
	size   float64
}

// chunksOf joins glyphs that follow one another on a line.
func chunksOf(glyphs []glyph) []chunk {
	var list []chunk
	var text strings.Builder
	var c chunk
	flush := func() {
		if c.text = text.String(); strings.TrimSpace(c.text) != "" {
			list = append(list, c.trimmed())
		}
		text.Reset()
	}
	for _, g := range glyphs {
		shown := shownText(g)
		size := max(c.size, g.size)
		gap := g.x - c.x1
		follows := text.Len() > 0 && math.Abs(g.y-c.y) < 0.45*size && gap > -backStep*size && gap < cellGap*size
		if !follows {
			flush()
			c = chunk{x0: g.x, x1: g.x, y: g.y, size: g.size}
		} else if gap > spaceGap*size && !endsInSpace(text.String()) && !strings.HasPrefix(shown, " ") {
			text.WriteByte(' ')
		}
		text.WriteString(shown)
		c.x1 = max(c.x1, g.x+g.width)
		if g.size > c.size { // a superscript came first
			c.size, c.y = g.size, g.y
		}
	}
	flush()
	return list
}

func endsInSpace(text string) bool { return strings.HasSuffix(text, " ") }

// shownText is what a glyph contributes: ligatures as letters, no-break spaces
// as spaces, U+FFFD where nobody knows.
func shownText(g glyph) string {
	if g.unknown {
		return string(unicode.ReplacementChar)
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Co, r) || r == 0xfeff:
			return unicode.ReplacementChar
		}
		return r
	}, ligatures.Replace(g.text))
}

var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")

// trimmed takes spaces off the ends, and the room that they took.
func (c chunk) trimmed() chunk {
	width := (c.x1 - c.x0) / float64(len([]rune(c.text)))
	left := len(c.text) - len(strings.TrimLeft(c.text, " "))
	right := len(c.text) - len(strings.TrimRight(c.text, " "))
	c.x0 += width * float64(left)
	c.x1 -= width * float64(right)
	c.text = strings.Join(strings.Fields(c.text), " ")
	return c
}

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
			case gap > cellGap*c.size:
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
