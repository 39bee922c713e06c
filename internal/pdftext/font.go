package pdftext

import (
	"bytes"
	"iter"
	"strings"

	"extraction-experiment/internal/pdf"
)

// font turns strings of a content stream into text and widths.
type font struct {
	toUnicode *cmap
	codes     *cmap // of a composite font; nil for a simple one
	encoding  simpleEncoding
	known     bool // encoding says something
	ucs2      bool // codes of a composite font are UTF-16
	widths    map[uint32]float64
	fallback  float64 // width of what is not in widths, in thousandths
	guess     bool    // there are no widths at all
	scale     float64 // from glyph space to text space
}

// The memory that a font takes for each width and range of codes, in bytes,
// about: a few bytes of a file can ask for 65,536 of either.
const (
	widthCost = 40
	rangeCost = 72
)

// openFont reads a font and takes its memory off the file's budget; what is
// missing of it makes glyphs unreadable, not the page.
func openFont(file *pdf.File, d pdf.Dict) *font {
	f := readFont(file, d)
	file.Spend(int64(widthCost*len(f.widths) + rangeCost*(f.toUnicode.size()+f.codes.size())))
	return f
}

func readFont(file *pdf.File, d pdf.Dict) *font {
	f := &font{widths: map[uint32]float64{}, scale: 0.001}
	if s := file.Stream(d["ToUnicode"]); s != nil {
		if data, _ := file.Decode(s); len(data) > 0 {
			f.toUnicode = parseCMap(data)
		}
	}
	if file.Name(d["Subtype"]) == "Type0" {
		f.openComposite(file, d)
		return f
	}
	f.encoding, f.known = encodingOf(file, d)
	f.builtIn(file, d)
	first := file.Int(d["FirstChar"])
	for i, o := range file.Array(d["Widths"]) {
		if i > 255 {
			break
		}
		if w, ok := file.Number(o); ok {
			f.widths[uint32(first+i)] = w
		}
	}
	f.fallback, _ = file.Number(file.Dict(d["FontDescriptor"])["MissingWidth"])
	f.guess = len(f.widths) == 0
	if matrix := file.Array(d["FontMatrix"]); file.Name(d["Subtype"]) == "Type3" && len(matrix) == 6 {
		f.scale, _ = file.Number(matrix[0])
	}
	return f
}

// builtIn completes the encoding from the program of an embedded Type 1 font,
// whose head is plain text: "dup 65 /A put".
func (f *font) builtIn(file *pdf.File, d pdf.Dict) {
	s := file.Stream(file.Dict(d["FontDescriptor"])["FontFile"])
	if s == nil || f.toUnicode != nil {
		return
	}
	data, _ := file.Decode(s)
	if end := bytes.Index(data, []byte("eexec")); end >= 0 {
		data = data[:end]
	}
	l := pdf.NewLexer(data[:min(len(data), 64<<10)])
	var last [2]pdf.Object
	for {
		o, ok := l.Next()
		if !ok {
			return
		}
		name, isName := last[1].(pdf.Name)
		code, isCode := last[0].(int64)
		if o == pdf.Object(pdf.Keyword("put")) && isName && isCode && code >= 0 && code < 256 && f.encoding[code] == "" {
			f.encoding[code], _ = textOfGlyph(string(name))
			f.known = true
		}
		last[0], last[1] = last[1], o
	}
}

func (f *font) openComposite(file *pdf.File, d pdf.Dict) {
	f.codes = &cmap{}
	if s := file.Stream(d["Encoding"]); s != nil {
		data, _ := file.Decode(s)
		f.codes = parseCMap(data)
	}
	name := string(file.Name(d["Encoding"]))
	f.ucs2 = strings.Contains(name, "UCS2") || strings.Contains(name, "UTF16")
	f.fallback = 1000
	descendants := file.Array(d["DescendantFonts"])
	if len(descendants) == 0 {
		return
	}
	cid := file.Dict(descendants[0])
	if w, ok := file.Number(cid["DW"]); ok {
		f.fallback = w
	}
	f.cidWidths(file, file.Array(cid["W"]))
}

// maxWidths bounds the widths of a font: there are no more glyphs in one.
const maxWidths = 1 << 16

// cidWidths reads "c [w …]" and "first last w".
func (f *font) cidWidths(file *pdf.File, list pdf.Array) {
	for i := 0; i+1 < len(list) && len(f.widths) < maxWidths; {
		first := file.Int(list[i])
		if widths := file.Array(list[i+1]); widths != nil {
			for n, o := range widths[:min(len(widths), maxWidths)] {
				f.widths[uint32(first+n)], _ = file.Number(o)
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			return
		}
		last := min(file.Int(list[i+1]), first+maxWidths)
		w, _ := file.Number(list[i+2])
		for c := first; c <= last && len(f.widths) < maxWidths; c++ {
			f.widths[uint32(c)] = w
		}
		i += 3
	}
}

// char is one code of a string.
type char struct {
	text  string
	known bool
	width float64 // in text space, at size 1
	space bool    // a single byte 32, which word spacing widens
}

// decode takes a string apart, one code at a time: a string may be as long as
// its stream.
func (f *font) decode(s pdf.String) iter.Seq[char] {
	return func(yield func(char) bool) {
		for len(s) > 0 {
			code, size := uint32(s[0]), 1
			if f.codes != nil {
				code, size = f.codes.next(s, 2)
			}
			c := char{space: size == 1 && code == 32}
			c.text, c.known = f.text(code)
			c.width = f.width(code, c.text) * f.scale
			if !yield(c) {
				return
			}
			s = s[size:]
		}
	}
}

func (f *font) text(code uint32) (string, bool) {
	if f.toUnicode != nil {
		if text, ok := f.toUnicode.text(code); ok {
			return text, true
		}
	}
	switch {
	case f.ucs2 && code < 0x10000:
		return string(rune(code)), true
	case f.codes == nil && f.known && code < 256 && f.encoding[code] != "":
		return f.encoding[code], true
	}
	return "", false
}

func (f *font) width(code uint32, text string) float64 {
	if f.codes != nil {
		if r, ok := f.codes.find(code); ok && r.toCID {
			code = r.cid + code - r.low
		}
	}
	if w, ok := f.widths[code]; ok {
		return w
	}
	if f.guess {
		return guessWidth(text)
	}
	return f.fallback
}

// guessWidth is about that of Helvetica, for the fonts that need not say.
func guessWidth(text string) float64 {
	switch {
	case strings.ContainsAny(text, "ijltfI.,:;'!| "):
		return 270
	case strings.ContainsAny(text, "mwMWЖШЩЮжшщю"):
		return 830
	case text != strings.ToLower(text):
		return 680
	}
	return 550
}
