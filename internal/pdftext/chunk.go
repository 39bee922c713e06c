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
	jumpGap  = 0.4  // wider than a space: between cells, where other rows say so
	cellGap  = 0.9  // between cells or columns
	backStep = 0.6  // glyphs may overlap by this
)

// chunk is a piece of a line that was written in one go.
type chunk struct {
	text   string
	x0, x1 float64
	y      float64
	size   float64
	parts  []chunk // between jumps, where there are any
	cell   bool    // it begins a cell, however near the one before ends
}

// chunksOf joins glyphs that follow one another on a line.
func chunksOf(glyphs []glyph) []chunk {
	var list []chunk
	for len(glyphs) > 0 {
		n := runLength(glyphs)
		if c, ok := chunkOf(glyphs[:n]); ok {
			list = append(list, c)
		}
		glyphs = glyphs[n:]
	}
	return list
}

// runLength is how many glyphs follow the first one on its line, with it.
func runLength(glyphs []glyph) int {
	c := chunk{x1: glyphs[0].x, y: glyphs[0].y, size: glyphs[0].size}
	for i, g := range glyphs {
		size := max(c.size, g.size)
		gap := g.x - c.x1
		if i > 0 && (math.Abs(g.y-c.y) >= 0.45*size || gap <= -backStep*size || gap >= cellGap*size) {
			return i
		}
		c.x1 = max(c.x1, g.x+g.width)
		if g.size > c.size { // a superscript came first
			c.size, c.y = g.size, g.y
		}
	}
	return len(glyphs)
}

// chunkOf makes one chunk of glyphs that follow one another, with its parts
// between jumps; false where they show nothing.
func chunkOf(run []glyph) (c chunk, ok bool) {
	spread := spacing(run)
	c = chunk{x0: run[0].x, x1: run[0].x}
	part := c
	var parts []chunk
	var text strings.Builder
	flush := func() {
		if part.text = text.String(); strings.TrimSpace(part.text) != "" {
			parts = append(parts, part.trimmed())
		}
		text.Reset()
	}
	for i, g := range run {
		shown, size := shownText(g), max(c.size, g.size)
		gap := g.x - c.x1 - spread
		if i > 0 && gap > spaceGap*size && !endsInSpace(text.String()) && !strings.HasPrefix(shown, " ") {
			if gap > jumpGap*size && spread == 0 {
				flush()
				part = chunk{x0: g.x, x1: g.x}
			} else {
				text.WriteByte(' ')
			}
		}
		text.WriteString(shown)
		c.x1 = max(c.x1, g.x+g.width)
		part.x1 = max(part.x1, g.x+g.width)
		if g.size > c.size { // a superscript came first
			c.size, c.y = g.size, g.y
		}
	}
	flush()
	if len(parts) == 0 {
		return chunk{}, false
	}
	return merged(parts, c.size, c.y), true
}

// merged makes one chunk of its parts, in order.
func merged(parts []chunk, size, y float64) chunk {
	c := chunk{x0: parts[0].x0, x1: parts[0].x1, size: size, y: y}
	texts := make([]string, len(parts))
	for i := range parts {
		parts[i].size, parts[i].y = size, y
		c.x1 = max(c.x1, parts[i].x1)
		texts[i] = parts[i].text
	}
	c.text = strings.Join(texts, " ")
	if len(parts) > 1 {
		c.parts = parts
	}
	return c
}

// spacing is the distance between the letters of a run that is spaced out for
// emphasis, glyph by glyph; 0 for all others. Between its words is more.
func spacing(run []glyph) float64 {
	var gaps []float64
	size := 0.0
	for i, g := range run {
		size = max(size, g.size)
		if i > 0 && isLetter(g.text) && isLetter(run[i-1].text) {
			gaps = append(gaps, g.x-run[i-1].x-run[i-1].width)
		}
	}
	if len(gaps) < 4 || len(gaps)*3 < len(run)*2 {
		return 0
	}
	slices.Sort(gaps)
	if gaps[len(gaps)/4] < spaceGap*size {
		return 0
	}
	return gaps[len(gaps)/2]
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
