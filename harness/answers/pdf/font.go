package pdf

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// font maps the codes in strings of a content stream to text and widths.
type font struct {
	toUnicode codes
	composite bool // codes have two bytes
	encoding  simpleEncoding
	isUTF16   bool // codes of a composite font are UTF-16
	widths    map[uint32]float64
	fallback  float64 // width of codes that are not in widths, in thousandths
	scale     float64 // from glyph space to text space
}

// Approximate memory of each width, code and name of a font, in bytes. A few bytes of a file can
// repeatedly request 65,536 of them.
const (
	widthCost = 40
	codeCost  = 72
	nameCost  = 16 // mainly for its time
)

// openFont reads a font and charges its memory to the budget. Missing parts make glyphs
// unreadable, but not the page.
func openFont(file *File, d Dict) *font {
	f := &font{widths: map[uint32]float64{}, scale: 0.001, toUnicode: file.readToUnicode(d["ToUnicode"])}
	if f.composite = file.Name(d["Subtype"]) == "Type0"; f.composite {
		f.openComposite(file, d)
	} else {
		f.openSimple(file, d)
	}
	return f
}

func (f *font) openSimple(file *File, d Dict) {
	f.encoding = encodingOf(file, d)
	f.addBuiltIn(file, d)
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

// addBuiltIn completes the encoding from the program of an embedded Type 1 font, whose beginning
// is plain text: "dup 65 /A put".
func (f *font) addBuiltIn(file *File, d Dict) {
	s := file.Stream(file.Dict(d["FontDescriptor"])["FontFile"])
	if s == nil || len(f.toUnicode.texts)+len(f.toUnicode.ranges) > 0 {
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
			f.encoding[code] = glyphText(string(name))
		}
	}
}

func (f *font) openComposite(file *File, d Dict) {
	name := string(file.Name(d["Encoding"]))
	f.isUTF16 = strings.Contains(name, "UCS2") || strings.Contains(name, "UTF16")
	f.fallback = 1000
	if descendants := file.Array(d["DescendantFonts"]); len(descendants) > 0 {
		cid := file.Dict(descendants[0])
		if w, ok := file.Number(cid["DW"]); ok {
			f.fallback = w
		}
		f.cidWidths(file, file.Array(cid["W"]))
	}
}

// setWidth sets a width and charges its memory, each time again.
func (f *font) setWidth(file *File, code int, o Object) {
	if w, ok := file.Number(o); ok && file.Spend(widthCost) {
		f.widths[uint32(code)] = w
	}
}

// maxWidths limits the widths of a range: a font has at most this many glyphs.
const maxWidths = 1 << 16

// cidWidths reads "c [w …]" and "first last w".
func (f *font) cidWidths(file *File, list Array) {
	for i := 0; i+1 < len(list) && file.budgetErr == nil; {
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
		for c := first; c <= last && file.budgetErr == nil; c++ {
			f.setWidth(file, c, list[i+2])
		}
		i += 3
	}
}

// text returns the text of a code, or U+FFFD if it is unknown.
func (f *font) text(code uint32) string {
	text, ok := f.toUnicode.text(code)
	switch {
	case ok:
		return text
	case f.isUTF16 && code < 0x10000:
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

// guessWidth approximates Helvetica, for standard fonts without widths.
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

// maxCode is the highest code of a glyph: codes have at most two bytes.
const maxCode = 1<<16 - 1

// codes maps the codes of a font to text.
type codes struct {
	texts  map[uint32]string
	ranges []codeRange // large ranges, which are not in texts
}

// codeRange maps a range of codes to text. The whole last UTF-16 unit is incremented, because
// incrementing only its last byte garbles Cyrillic.
type codeRange struct {
	first, size uint32
	units       []uint16
}

// textAt returns the text of the code first + offset.
func (r codeRange) textAt(offset uint32) (text string, ok bool) {
	units := slices.Clone(r.units)
	if len(units) > 0 {
		units[len(units)-1] += uint16(offset)
	}
	text = decodeUTF16(units)
	return text, text != "" || units != nil && len(units) == 0
}

func (c codes) text(code uint32) (text string, ok bool) {
	text, ok = c.texts[code]
	for i := 0; i < len(c.ranges) && !ok; i++ {
		if offset := code - c.ranges[i].first; offset < c.ranges[i].size {
			text, ok = c.ranges[i].textAt(offset)
		}
	}
	return text, ok
}

// readToUnicode reads the texts of codes from a CMap stream. It skips everything else.
func (f *File) readToUnicode(o Object) codes {
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
			for mapping := range slices.Chunk(args[:len(args)/2*2], 2) {
				f.addCodes(&c, mapping[0], mapping[0], mapping[1])
			}
		case "endbfrange":
			for mapping := range slices.Chunk(args[:len(args)/3*3], 3) {
				f.addCodes(&c, mapping[0], mapping[1], mapping[2])
			}
		}
	}
	return c
}

// addCodes maps a range of codes to consecutive texts, or to those of an array.
func (f *File) addCodes(c *codes, from, to, text Object) {
	const minRange, maxRanges = 256, 16
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
	r := codeRange{first, uint32(size), utf16Units(text)}
	if !isList && size > minRange && len(c.ranges) < maxRanges {
		c.ranges = append(c.ranges, r)
		return
	}
	for i := range uint32(size) {
		offset := i
		if isList {
			r.units, offset = utf16Units(list[i]), 0
		}
		if !f.Spend(codeCost + 2*int64(len(r.units))) {
			return
		}
		if value, ok := r.textAt(offset); ok {
			c.texts[first+i] = value
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

// utf16Units returns the UTF-16 units of a string, or nil for other objects.
func utf16Units(o Object) []uint16 {
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

// decodeUTF16 returns the text of units, or "" if they are invalid.
func decodeUTF16(units []uint16) string {
	runes := utf16.Decode(units)
	if slices.Contains(runes, utf8.RuneError) {
		return ""
	}
	return string(runes)
}

// simpleEncoding holds the texts of the 256 codes of a simple font; "" is unknown.
type simpleEncoding [256]string

// encodingOf reads the Encoding of a simple font. It is empty if nothing defines the codes, as
// in a symbolic font whose codes only its program explains.
func encodingOf(file *File, font Dict) (e simpleEncoding) {
	descriptor := file.Dict(font["FontDescriptor"])
	symbolic := file.Int(descriptor["Flags"])&4 != 0
	type3 := file.Name(font["Subtype"]) == "Type3"
	d, name := file.Dict(font["Encoding"]), file.Name(font["BaseFont"])
	base := cmp.Or(file.Name(font["Encoding"]), file.Name(d["BaseEncoding"]))
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
				e[code] = glyphText(string(o))
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

// standardEncoding returns Adobe's StandardEncoding.
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
