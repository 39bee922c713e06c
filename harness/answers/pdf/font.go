package pdf

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// font turns strings of a content stream into text and widths.
type font struct {
	toUnicode codes
	composite bool // its codes have two bytes
	encoding  simpleEncoding
	ucs2      bool // codes of a composite font are UTF-16
	widths    map[uint32]float64
	fallback  float64 // width of what is not in widths, in thousandths
	scale     float64 // from glyph space to text space
}

// The memory that a font takes for each width, code and name, in bytes,
// about: a few bytes of a file can ask for 65,536 of them, again and again.
const (
	widthCost = 40
	codeCost  = 72
	nameCost  = 16 // rather for its time
)

// openFont reads a font and takes its memory off the file's budget; what is
// missing of it makes glyphs unreadable, not the page.
func openFont(file *File, d Dict) *font {
	f := &font{widths: map[uint32]float64{}, scale: 0.001, toUnicode: file.codesOf(d["ToUnicode"])}
	if f.composite = file.Name(d["Subtype"]) == "Type0"; f.composite {
		f.openComposite(file, d)
	} else {
		f.openSimple(file, d)
	}
	return f
}

func (f *font) openSimple(file *File, d Dict) {
	f.encoding = encodingOf(file, d)
	f.builtIn(file, d)
	first := file.Int(d["FirstChar"])
	widths := file.Array(d["Widths"])
	for i, o := range widths[:min(len(widths), 256)] {
		f.setWidth(file, first+i, o)
	}
	f.fallback, _ = file.Number(file.Dict(d["FontDescriptor"])["MissingWidth"])
	if matrix := file.numbers(d["FontMatrix"], 6); matrix != nil && file.Name(d["Subtype"]) == "Type3" {
		f.scale = matrix[0]
	}
}

// builtIn completes the encoding from the program of an embedded Type 1 font,
// whose head is plain text: "dup 65 /A put".
func (f *font) builtIn(file *File, d Dict) {
	s := file.Stream(file.Dict(d["FontDescriptor"])["FontFile"])
	if s == nil || len(f.toUnicode.texts)+len(f.toUnicode.long) > 0 {
		return
	}
	data, _ := file.Decode(s)
	data, _, _ = bytes.Cut(data, []byte("eexec"))
	l := &Lexer{data: data[:min(len(data), 64<<10)]}
	for word, args := range l.operations() {
		if word != "put" || len(args) < 2 {
			continue
		}
		name, isName := args[len(args)-1].(Name)
		code, isCode := args[len(args)-2].(int64)
		if isName && isCode && code >= 0 && code < 256 && f.encoding[code] == "" {
			f.encoding[code] = textOfGlyph(string(name))
		}
	}
}

func (f *font) openComposite(file *File, d Dict) {
	name := string(file.Name(d["Encoding"]))
	f.ucs2 = strings.Contains(name, "UCS2") || strings.Contains(name, "UTF16")
	f.fallback = 1000
	if descendants := file.Array(d["DescendantFonts"]); len(descendants) > 0 {
		cid := file.Dict(descendants[0])
		if w, ok := file.Number(cid["DW"]); ok {
			f.fallback = w
		}
		f.cidWidths(file, file.Array(cid["W"]))
	}
}

// setWidth takes its memory off the budget, each time again.
func (f *font) setWidth(file *File, code int, o Object) {
	if w, ok := file.Number(o); ok && file.Spend(widthCost) {
		f.widths[uint32(code)] = w
	}
}

// maxWidths bounds the widths of a range: there are no more glyphs in a font.
const maxWidths = 1 << 16

// cidWidths reads "c [w …]" and "first last w".
func (f *font) cidWidths(file *File, list Array) {
	for i := 0; i+1 < len(list) && file.spent == nil; {
		first := file.Int(list[i])
		if widths := file.Array(list[i+1]); widths != nil {
			for n, o := range widths {
				f.setWidth(file, first+n, o)
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			return
		}
		last := min(file.Int(list[i+1]), first+maxWidths)
		for c := first; c <= last && file.spent == nil; c++ {
			f.setWidth(file, c, list[i+2])
		}
		i += 3
	}
}

// text is what a code stands for; U+FFFD where nobody knows.
func (f *font) text(code uint32) string {
	text, ok := f.toUnicode.text(code)
	switch {
	case ok:
		return text
	case f.ucs2 && code < 0x10000:
		return string(rune(code))
	case !f.composite && f.encoding[code] != "":
		return f.encoding[code]
	}
	return string(utf8.RuneError)
}

func (f *font) width(code uint32, text string) float64 {
	if w, ok := f.widths[code]; ok {
		return w
	}
	if len(f.widths) == 0 && !f.composite {
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

// maxCode is the highest code of a glyph: there are no codes of more than two bytes.
const maxCode = 1<<16 - 1

// codes are the texts of the codes of a font.
type codes struct {
	texts map[uint32]string
	long  []codeRange // of which nothing is in texts: some fonts have all codes in one
}

// codeRange maps codes to text whose last 16-bit unit is stepped as a whole: stepping only
// its last byte is what turns Cyrillic into nonsense elsewhere.
type codeRange struct {
	first, size uint32
	units       []uint16
}

// at is the text of the code at a place of the range.
func (r codeRange) at(step uint32) (text string, ok bool) {
	units := slices.Clone(r.units)
	if len(units) > 0 {
		units[len(units)-1] += uint16(step)
	}
	text = textOfUnits(units)
	return text, text != "" || units != nil && len(units) == 0
}

func (c codes) text(code uint32) (text string, ok bool) {
	text, ok = c.texts[code]
	for i := 0; i < len(c.long) && !ok; i++ {
		if step := code - c.long[i].first; step < c.long[i].size {
			text, ok = c.long[i].at(step)
		}
	}
	return text, ok
}

// codesOf reads what matters of the CMap program in a stream (ToUnicode): the text of each
// code. Whatever is not understood is passed over.
func (f *File) codesOf(o Object) codes {
	c := codes{texts: map[uint32]string{}}
	s := f.Stream(o)
	if s == nil {
		return c
	}
	data, _ := f.Decode(s)
	l := &Lexer{data: data}
	for word, args := range l.operations() {
		switch word {
		case "endbfchar":
			for of := range slices.Chunk(args[:len(args)/2*2], 2) {
				f.addCodes(&c, of[0], of[0], of[1])
			}
		case "endbfrange":
			for of := range slices.Chunk(args[:len(args)/3*3], 3) {
				f.addCodes(&c, of[0], of[1], of[2])
			}
		}
	}
	return c
}

// addCodes maps a range of codes to one text, or each of them to one of a list.
func (f *File) addCodes(c *codes, from, to, text Object) {
	const long, mostLong = 256, 16
	low, ok1 := from.(String)
	high, ok2 := to.(String)
	list, isList := text.(Array)
	first, size := codeOf(low), int(min(codeOf(high), maxCode))-int(codeOf(low))+1
	if isList {
		size = min(size, len(list))
	}
	if !ok1 || !ok2 || size < 1 {
		return
	}
	r := codeRange{first, uint32(size), unitsOf(text)}
	if !isList && size > long && len(c.long) < mostLong {
		c.long = append(c.long, r)
		return
	}
	for i := range uint32(size) {
		step := i
		if isList {
			r.units, step = unitsOf(list[i]), 0
		}
		if !f.Spend(codeCost + 2*int64(len(r.units))) {
			return
		}
		if shown, ok := r.at(step); ok {
			c.texts[first+i] = shown
		}
	}
}

func codeOf(s String) uint32 {
	v := uint32(0)
	for i := 0; i < len(s) && i < 4; i++ {
		v = v<<8 | uint32(s[i])
	}
	return v
}

// unitsOf reads UTF-16; nil for what is not a string.
func unitsOf(o Object) []uint16 {
	s, ok := o.(String)
	if !ok || len(s) > 256 {
		return nil
	}
	if len(s) == 1 {
		return []uint16{uint16(s[0])}
	}
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return units
}

// textOfUnits is the text of UTF-16; "" if it is none.
func textOfUnits(units []uint16) string {
	runes := utf16.Decode(units)
	if slices.Contains(runes, utf8.RuneError) {
		return ""
	}
	return string(runes)
}

// simpleEncoding is what the 256 codes of a simple font stand for; "" is not
// known.
type simpleEncoding [256]string

// encodingOf reads the Encoding of a simple font: nothing where there is none to go by,
// as in a symbolic font whose codes only its program explains.
func encodingOf(file *File, font Dict) (e simpleEncoding) {
	descriptor := file.Dict(font["FontDescriptor"])
	symbolic := file.Int(descriptor["Flags"])&4 != 0
	type3 := file.Name(font["Subtype"]) == "Type3"
	name, base := file.Name(font["BaseFont"]), file.Name(font["Encoding"])
	d := file.Dict(font["Encoding"])
	if d != nil {
		base = file.Name(d["BaseEncoding"])
	}
	embedded := descriptor["FontFile"] != nil || descriptor["FontFile2"] != nil || descriptor["FontFile3"] != nil
	switch {
	case base == "WinAnsiEncoding":
		e = charmapEncoding(charmap.Windows1252)
		e[0xad], e[0xa0] = "-", " "
	case base == "MacRomanEncoding":
		e = charmapEncoding(charmap.Macintosh)
	case base == "StandardEncoding", !symbolic && !type3, !embedded && !type3 && name != "Symbol" && name != "ZapfDingbats":
		e = standardEncoding()
	}
	code := -1
	for _, o := range file.Array(d["Differences"]) {
		if !file.Spend(nameCost) {
			break
		}
		switch o := file.Resolve(o).(type) {
		case int64:
			code = int(max(-1, min(o, 256)))
		case Name:
			if code >= 0 && code < 256 {
				e[code] = textOfGlyph(string(o))
			}
			code++
		}
	}
	return e
}

func charmapEncoding(c *charmap.Charmap) (e simpleEncoding) {
	for code := 32; code < 256; code++ {
		if r := c.DecodeByte(byte(code)); !unicode.IsControl(r) && r != utf8.RuneError {
			e[code] = string(r)
		}
	}
	return e
}

// standardEncoding is Adobe's.
func standardEncoding() (e simpleEncoding) {
	for code := 32; code < 127; code++ {
		e[code] = string(rune(code))
	}
	e[39], e[96] = "’", "‘"
	upper := []rune("¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ –†‡· ¶•‚„”»…‰ ¿ `´ˆ˜¯˘˙¨ ˚¸ ˝˛ˇ—                Æ ª    ŁØŒº     æ   ı  łøœß")
	for i, r := range upper {
		if r != ' ' {
			e[161+i] = string(r)
		}
	}
	return e
}
