package pdftext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// layout turns the glyphs of a page into text: of the direction that most of
// them have first, then of the others.
func layout(glyphs []glyph) string {
	var by [4][]glyph
	for _, g := range glyphs {
		by[g.direction] = append(by[g.direction], g)
	}
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return len(by[b]) - len(by[a]) })
	var lines []string
	for _, direction := range order {
		lines = append(lines, readingOrder(aligned(chunksOf(by[direction])), 0, line.text)...)
	}
	return strings.Join(join(lines), "\n")
}

// readingOrder returns the lines of text, columns of prose one after the other;
// say turns a line into text.
func readingOrder(chunks []chunk, depth int, say func(line) string) []string {
	gutter, ok := findGutter(chunks)
	if !ok || depth >= 3 {
		return rows(chunks, say)
	}
	var out []string
	for _, band := range bandsOf(chunks, gutter) {
		left, right := split(band.sides, gutter)
		if isProse(left) && isProse(right) {
			out = append(out, readingOrder(left, depth+1, line.prose)...)
			out = append(out, readingOrder(right, depth+1, line.prose)...)
		} else {
			out = append(out, rows(band.sides, say)...)
		}
		out = append(out, rows(band.across, say)...)
	}
	return out
}

func rows(chunks []chunk, say func(line) string) []string {
	var out []string
	for _, l := range linesOf(chunks) {
		out = append(out, say(l))
	}
	return out
}

// leastColumn is how many lines a column has at least.
const leastColumn = 4

// findGutter looks for the place in the middle that the fewest chunks cross.
func findGutter(chunks []chunk) (x float64, ok bool) {
	if len(chunks) < 2*leastColumn || len(chunks) > 20_000 {
		return 0, false
	}
	x0, x1 := chunks[0].x0, chunks[0].x1
	for _, c := range chunks {
		x0, x1 = min(x0, c.x0), max(x1, c.x1)
	}
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

// band is a part of the page between chunks that reach across the gutter, with
// the line across that ends it.
type band struct{ sides, across []chunk }

func bandsOf(chunks []chunk, gutter float64) []band {
	var bands []band
	var now band
	for _, l := range linesOf(chunks) {
		crosses := slices.ContainsFunc(l.chunks, func(c chunk) bool { return c.x0 < gutter && c.x1 > gutter })
		switch {
		case !crosses && len(now.across) > 0:
			bands = append(bands, now)
			now = band{sides: l.chunks}
		case crosses:
			now.across = append(now.across, l.chunks...)
		default:
			now.sides = append(now.sides, l.chunks...)
		}
	}
	return append(bands, now)
}

func split(chunks []chunk, gutter float64) (left, right []chunk) {
	for _, c := range chunks {
		if (c.x0+c.x1)/2 < gutter {
			left = append(left, c)
		} else {
			right = append(right, c)
		}
	}
	return left, right
}

// isProse tells a column of running text from one of a table: lines of many
// letters that mostly fill its width.
func isProse(chunks []chunk) bool {
	lines := linesOf(chunks)
	if len(lines) < leastColumn {
		return false
	}
	var widths []float64
	letters, runes := 0, 0
	low, high := lines[0].span()
	for _, l := range lines {
		x0, x1 := l.span()
		low, high = min(low, x0), max(high, x1)
		widths = append(widths, x1-x0)
		for _, r := range l.text() {
			runes++
			if unicode.IsLetter(r) {
				letters++
			}
		}
	}
	slices.Sort(widths)
	median := widths[len(widths)/2]
	return runes >= 18*len(lines) && letters*10 >= runes*6 && median >= 0.7*(high-low)
}

// join puts words together that were divided at the end of a line.
func join(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		n := len(out) - 1
		if n >= 0 {
			if head, ok := divided(out[n]); ok && startsLower(l) {
				word, rest, _ := strings.Cut(l, " ")
				out[n] = head + word
				if l = rest; l == "" {
					continue
				}
			}
		}
		if l != "" {
			out = append(out, strings.ReplaceAll(l, "\u00ad", ""))
		}
	}
	if n := len(out) - 1; n >= 0 {
		out[n] = strings.ReplaceAll(out[n], "\u00ad", "")
	}
	return out
}

// divided takes the hyphen off a line that ends in a letter and one.
func divided(l string) (head string, ok bool) {
	for _, hyphen := range []string{"-", "\u2010", "\u00ad"} {
		if head, ok := strings.CutSuffix(l, hyphen); ok {
			last, _ := utf8.DecodeLastRuneInString(head)
			return head, unicode.IsLetter(last)
		}
	}
	return l, false
}

func startsLower(l string) bool {
	first, _ := utf8.DecodeRuneInString(l)
	return unicode.IsLower(first)
}
