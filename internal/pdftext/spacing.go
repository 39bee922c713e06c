package pdftext

import (
	"math"
	"slices"
	"unicode"
	"unicode/utf8"
)

// close fills the room between the letters of one string that are spaced out
// for emphasis: they are words. Figures that are, may be those of a scale.
func (in *interpreter) close(shown []glyph) {
	if in.charSpace <= 0 || in.charSpace > cellGap*in.size {
		return
	}
	m := in.tm.times(in.ctm)
	room := math.Hypot(m[0], m[1]) * math.Abs(in.charSpace*in.scale)
	for i := range shown[:max(0, len(shown)-1)] {
		if isLetter(shown[i].text) {
			shown[i].width += room
		}
	}
}

func isLetter(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLetter(first)
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
