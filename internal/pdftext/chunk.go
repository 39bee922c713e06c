package pdftext

import (
	"math"
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
