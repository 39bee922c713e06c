package pdf

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// layout turns the glyphs of a page into text, first those of the most frequent direction.
func layout(glyphs []glyph) string {
	var by [4][]glyph
	for _, g := range glyphs {
		by[g.direction] = append(by[g.direction], g)
	}
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return len(by[b]) - len(by[a]) })
	var lines []string
	for _, direction := range order {
		lines = append(lines, readingOrder(alignTables(chunksOf(by[direction])), 0, line.text)...)
	}
	return strings.ReplaceAll(joinLines(lines), "\u00ad", "")
}

// readingOrder returns the lines of text, and columns of prose one after the other. toText
// formats a line.
func readingOrder(chunks []chunk, depth int, toText func(line) string) []string {
	gutter, ok := findGutter(chunks)
	if !ok || depth >= 3 {
		return cli.Each(linesOf(chunks), toText)
	}
	var out []string
	for _, band := range bandsOf(chunks, gutter) {
		var left, right []chunk
		for _, c := range band.sides {
			if (c.x0+c.x1)/2 < gutter {
				left = append(left, c)
			} else {
				right = append(right, c)
			}
		}
		if isProse(left) && isProse(right) {
			out = append(out, readingOrder(left, depth+1, line.prose)...)
			out = append(out, readingOrder(right, depth+1, line.prose)...)
		} else {
			out = append(out, cli.Each(linesOf(band.sides), toText)...)
		}
		out = append(out, cli.Each(linesOf(band.across), toText)...)
	}
	return out
}

// minColumnLines is the smallest number of lines of a column.
const minColumnLines = 4

// findGutter returns the x in the middle part that the fewest chunks cross; ok is false if too
// many cross it.
func findGutter(chunks []chunk) (x float64, ok bool) {
	if len(chunks) < 2*minColumnLines || len(chunks) > 20_000 {
		return 0, false
	}
	x0, x1 := line(chunks).extent()
	const steps = 120
	best, from, to := len(chunks), 0, 0
	for step := steps / 5; step <= steps*4/5; step++ {
		at := x0 + (x1-x0)*float64(step)/steps
		crossing := 0
		for _, c := range chunks {
			if c.x0 < at && c.x1 > at {
				crossing++
			}
		}
		switch {
		case crossing < best:
			best, from, to = crossing, step, step
		case crossing == best && to == step-1:
			to = step
		}
	}
	x = x0 + (x1-x0)*float64(from+to)/2/steps
	return x, best*10 <= len(chunks)*4
}

// band is a part of the page with chunks on both sides of the gutter, and the lines across the
// gutter that follow.
type band struct{ sides, across []chunk }

func bandsOf(chunks []chunk, gutter float64) []band {
	var bands []band
	var current band
	for _, l := range linesOf(chunks) {
		if slices.ContainsFunc(l, func(c chunk) bool { return c.x0 < gutter && c.x1 > gutter }) {
			current.across = append(current.across, l...)
			continue
		}
		if len(current.across) > 0 {
			bands = append(bands, current)
			current = band{}
		}
		current.sides = append(current.sides, l...)
	}
	return append(bands, current)
}

// isProse distinguishes a column of running text from one of a table: its lines have many
// letters and mostly fill the width.
func isProse(chunks []chunk) bool {
	lines := linesOf(chunks)
	if len(lines) < minColumnLines {
		return false
	}
	var widths []float64
	letters, runes := 0, 0
	low, high := lines[0].extent()
	for _, l := range lines {
		x0, x1 := l.extent()
		low, high = min(low, x0), max(high, x1)
		widths = append(widths, x1-x0)
		letters += countRunes(l.text(), unicode.IsLetter)
		runes += utf8.RuneCountInString(l.text())
	}
	slices.Sort(widths)
	median := widths[len(widths)/2]
	return runes >= 18*len(lines) && letters*10 >= runes*6 && median >= 0.7*(high-low)
}

// hyphenation matches a word divided at the end of a line.
var hyphenation = textutil.Pattern(`(\pL)[-\x{2010}\x{ad}]+\n(\p{Ll}[^ \n]*)(?:\n|( ?))`)

// joinLines joins lines to a text without hyphenation at the ends of lines.
func joinLines(lines []string) string {
	lines = slices.DeleteFunc(cli.Each(lines, strings.TrimSpace), func(l string) bool { return l == "" })
	text := strings.Join(lines, "\n")
	for hyphenation().MatchString(text) { // a word may be divided twice, but a space ends it
		text = hyphenation().ReplaceAllString(text, "${1}${2}\n${3}")
	}
	return strings.TrimSuffix(strings.ReplaceAll(text, "\n ", "\n"), "\n")
}

// line holds chunks at the same height, from left to right.
type line []chunk

// linesOf groups chunks into lines, from top to bottom.
func linesOf(chunks []chunk) []line {
	chunks = slices.SortedStableFunc(slices.Values(chunks), func(a, b chunk) int { return cmp.Compare(b.y, a.y) })
	var lines []line
	for _, c := range chunks {
		if n := len(lines) - 1; n >= 0 && lines[n][0].y-c.y < 0.5*min(lines[n][0].size, c.size) {
			lines[n] = append(lines[n], c)
			continue
		}
		lines = append(lines, line{c})
	}
	return cli.Each(lines, line.arrange)
}

// arrange sorts a line from left to right, and removes chunks that are printed twice to look
// bold.
func (l line) arrange() line {
	slices.SortStableFunc(l, func(a, b chunk) int { return cmp.Compare(a.x0, b.x0) })
	var last chunk
	return slices.DeleteFunc(l, func(c chunk) bool {
		duplicate := c.text == last.text && c.x0-last.x0 < 0.3*c.size
		if !duplicate {
			last = c
		}
		return duplicate
	})
}

// prose joins the chunks of a line of running text.
func (l line) prose() string {
	return strings.Join(cli.Each(l, func(c chunk) string { return c.text }), " ")
}

// text joins the chunks of a line, with " | " between cells.
func (l line) text() string {
	var b strings.Builder
	for i, c := range l {
		if i > 0 {
			switch gap := c.x0 - l[i-1].x1; {
			case gap > cellGap*c.size, c.startsCell:
				b.WriteString(" | ")
			case gap > spaceGap*c.size:
				b.WriteByte(' ')
			}
		}
		b.WriteString(c.text)
	}
	return b.String()
}

func (l line) extent() (x0, x1 float64) {
	x0, x1 = l[0].x0, l[0].x1
	for _, c := range l {
		x0, x1 = min(x0, c.x0), max(x1, c.x1)
	}
	return x0, x1
}

// widenLetters widens the letters of a string that are spaced out for emphasis, so that they
// become words. It does not widen digits, because they may be on a scale.
func (in *interpreter) widenLetters(shown []glyph) {
	if in.charSpace <= 0 || in.charSpace > cellGap*in.size {
		return
	}
	m := in.textMatrix.multiply(in.ctm)
	space := math.Hypot(m[0], m[1]) * math.Abs(in.charSpace*in.scale)
	for i := range shown[:max(0, len(shown)-1)] {
		if isLetter(shown[i].text) {
			shown[i].width += space
		}
	}
}

func isLetter(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLetter(first)
}

// letterSpacing returns the distance between the letters of a run that is spaced out for
// emphasis, glyph by glyph. It is 0 for other runs. Words of the run are further apart.
func letterSpacing(run []glyph) float64 {
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

// Distances in units of the font size.
const (
	spaceGap   = 0.17 // between words
	jumpGap    = 0.4  // wider than a space: between cells if other rows confirm it
	cellGap    = 0.9  // between cells or columns
	maxOverlap = 0.6  // of glyphs
)

// chunk is a piece of a line that was written continuously.
type chunk struct {
	text       string
	x0, x1     float64
	y          float64
	size       float64
	parts      []chunk // between jumps, if there are any
	startsCell bool    // begins a cell, even if the previous chunk is near
}

// chunksOf joins glyphs that follow one another on a line.
func chunksOf(glyphs []glyph) []chunk {
	var list []chunk
	for len(glyphs) > 0 {
		n := runLength(glyphs)
		if c, ok := newChunk(glyphs[:n]); ok {
			list = append(list, c)
		}
		glyphs = glyphs[n:]
	}
	return list
}

// runLength returns the number of glyphs from the first one on that follow one another on its
// line.
func runLength(glyphs []glyph) int {
	c := chunk{x1: glyphs[0].x, y: glyphs[0].y, size: glyphs[0].size}
	for i, g := range glyphs {
		size := max(c.size, g.size)
		gap := g.x - c.x1
		if i > 0 && (math.Abs(g.y-c.y) >= 0.45*size || gap <= -maxOverlap*size || gap >= cellGap*size) {
			return i
		}
		c.extend(g)
	}
	return len(glyphs)
}

// extend extends a chunk to the end of a glyph. The largest glyph sets its size and height, as a
// superscript may come first.
func (c *chunk) extend(g glyph) {
	c.x1 = max(c.x1, g.x+g.width)
	if g.size > c.size {
		c.size, c.y = g.size, g.y
	}
}

// newChunk joins glyphs that follow one another, with parts between jumps. ok is false if they
// are invisible.
func newChunk(run []glyph) (c chunk, ok bool) {
	spacing := letterSpacing(run)
	c = chunk{x0: run[0].x, x1: run[0].x}
	part := c
	var parts []chunk
	var text strings.Builder
	flush := func() {
		if part.text = text.String(); strings.TrimSpace(part.text) != "" {
			parts = append(parts, part.trimSpaces())
		}
		text.Reset()
	}
	for i, g := range run {
		normalized, size := normalText(g), max(c.size, g.size)
		gap := g.x - c.x1 - spacing
		if i > 0 && gap > spaceGap*size && !strings.HasSuffix(text.String(), " ") && !strings.HasPrefix(normalized, " ") {
			if gap > jumpGap*size && spacing == 0 {
				flush()
				part = chunk{x0: g.x, x1: g.x}
			} else {
				text.WriteByte(' ')
			}
		}
		text.WriteString(normalized)
		c.extend(g)
		part.extend(g)
	}
	flush()
	if len(parts) == 0 {
		return chunk{}, false
	}
	return mergeParts(parts, c.size, c.y), true
}

// mergeParts joins parts, in order.
func mergeParts(parts []chunk, size, y float64) chunk {
	c := chunk{text: line(parts).prose(), size: size, y: y}
	c.x0, c.x1 = line(parts).extent()
	if len(parts) > 1 {
		c.parts = parts
	}
	return c
}

// normalText returns the text of a glyph with letters for ligatures, plain spaces, and U+FFFD
// for characters without a meaning.
func normalText(g glyph) string {
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

// trimSpaces removes leading and trailing spaces, also from the width, and joins spaces inside.
func (c chunk) trimSpaces() chunk {
	width := (c.x1 - c.x0) / float64(len([]rune(c.text)))
	left := len(c.text) - len(strings.TrimLeft(c.text, " "))
	right := len(c.text) - len(strings.TrimRight(c.text, " "))
	c.x0 += width * float64(left)
	c.x1 -= width * float64(right)
	c.text = strings.Join(strings.Fields(c.text), " ")
	return c
}
