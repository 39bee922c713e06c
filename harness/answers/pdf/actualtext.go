package pdf

import (
	"math"
	"strings"
	"unicode/utf8"
)

// markedContent holds the marked content that is open.
type markedContent struct {
	depth int    // number of BMC and BDC without their EMC
	spans []span // those with an ActualText, at most maxStack
}

// span is marked content whose glyphs have a text of their own, like a soft hyphen that is drawn as a space.
type span struct {
	depth, first int // first is the index of its first glyph
	text         string
}

// beginMarked begins marked content with properties: a dictionary or its name, or nil for none.
func (in *interpreter) beginMarked(properties Object) {
	if name, ok := properties.(Name); ok {
		properties = in.file.Dict(in.resources["Properties"])[name]
	}
	in.marked.depth++
	raw := resolveAs[String](in.file, in.file.Dict(properties)["ActualText"])
	if len(in.marked.spans) >= maxStack || len(raw) > freeTextBytes && !in.file.Spend(int64(len(raw))) {
		return
	}
	if text := textString(raw); text != "" {
		in.marked.spans = append(in.marked.spans, span{in.marked.depth, len(in.glyphs), text})
	}
}

// endMarked ends marked content. If it has an ActualText, one glyph with that text replaces its
// glyphs, as wide as those on the line of the first one.
func (in *interpreter) endMarked() {
	m := &in.marked
	top := len(m.spans) - 1
	if top >= 0 && m.spans[top].depth == m.depth {
		in.replace(in.glyphs[m.spans[top].first:], m.spans[top].text)
		m.spans = m.spans[:top]
	}
	m.depth = max(0, m.depth-1)
}

// replace replaces the last glyphs of the page, if there are any, by one with a text.
func (in *interpreter) replace(shown []glyph, text string) {
	if len(shown) == 0 {
		return
	}
	g := &shown[0]
	g.text = text
	for _, next := range shown[1:] {
		if next.direction == g.direction && math.Abs(next.y-g.y) < 0.45*g.size {
			end := max(g.x+g.width, next.x+next.width)
			g.x = min(g.x, next.x)
			g.width = end - g.x
		}
	}
	in.glyphs = in.glyphs[:len(in.glyphs)-len(shown)+1]
}

// textString decodes a text of UTF-16 or UTF-8, which begin with a mark, or of PDFDocEncoding. It
// returns "" for invalid ones, and for those of more than 256 bytes, whose lines are unknown.
func textString(s String) string {
	const maxText = 256
	text := string(s)
	switch {
	case len(s) > maxText:
		return ""
	case strings.HasPrefix(text, "\xfe\xff"):
		return decodeUTF16(utf16Units(s[2:]))
	case strings.HasPrefix(text, "\xef\xbb\xbf") && utf8.ValidString(text):
		return text[3:]
	}
	signs := []rune("•†‡…—–ƒ⁄‹›−‰„“”‘’‚™ﬁﬂŁŒŠŸŽıłœšž\u009f€") // from 0x80 on; the others are Latin-1
	var b strings.Builder
	for _, c := range []byte(text) {
		r := rune(c)
		if i := int(c) - 0x80; i >= 0 && i < len(signs) {
			r = signs[i]
		}
		b.WriteRune(r)
	}
	return b.String()
}
