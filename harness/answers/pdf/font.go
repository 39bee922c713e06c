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
	toUnicode codeMap
	composite bool // codes have two bytes
	encoding  simpleEncoding
	isUTF16   bool // codes of a composite font are UTF-16
	widths    codeMap
	fallback  float64 // width of codes that are not in widths, in thousandths
	scale     float64 // from glyph space to text space
}

// Approximate memory of each range of codes, of each object in its list, and of each name of a
// font, in bytes.
const (
	rangeCost  = 72
	objectCost = 40
	nameCost   = 16 // mainly for its time
)

// openFont reads a font and charges its memory to the budget. Missing parts make glyphs
// unreadable, but not the page.
func openFont(file *File, d Dict) *font {
	f := &font{scale: 0.001, toUnicode: file.readToUnicode(d["ToUnicode"])}
	if f.composite = file.Name(d["Subtype"]) == "Type0"; f.composite {
		f.openComposite(file, d)
	} else {
		f.openSimple(file, d)
	}
	f.toUnicode.sort()
	f.widths.sort()
	return f
}

func (f *font) openSimple(file *File, d Dict) {
	f.encoding = encodingOf(file, d)
	f.addBuiltIn(file, d)
	f.widths.add(file, file.Int(d["FirstChar"]), maxCode, file.Array(d["Widths"]))
	f.fallback, _ = file.Number(file.Dict(d["FontDescriptor"])["MissingWidth"])
	if matrix := file.numbers(d["FontMatrix"], 6); matrix != nil && file.Name(d["Subtype"]) == "Type3" {
		f.scale = matrix[0]
	}
}

// addBuiltIn completes the encoding from the program of an embedded Type 1 font, whose beginning
// is plain text: "dup 65 /A put".
func (f *font) addBuiltIn(file *File, d Dict) {
	s := file.Stream(file.Dict(d["FontDescriptor"])["FontFile"])
	hasText := func(r codeRange) bool {
		_, ok := textAt(r.objects[0], 0)
		return ok
	}
	if s == nil || slices.ContainsFunc(f.toUnicode, hasText) {
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

// cidWidths reads "c [w …]" and "first last w".
func (f *font) cidWidths(file *File, list Array) {
	for len(list) > 1 {
		first, widths := file.Int(list[0]), file.Array(list[1])
		switch {
		case widths != nil:
			f.widths.add(file, first, maxCode, widths)
			list = list[2:]
		case len(list) > 2:
			f.widths.add(file, first, file.Int(list[1]), list[2])
			list = list[3:]
		default:
			return
		}
	}
}

// text returns the text of a code, or U+FFFD if it is unknown.
func (f *font) text(file *File, code uint32) string {
	text, ok := textAt(f.toUnicode.find(file, code))
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

func (f *font) width(file *File, code uint32, text string) float64 {
	o, _ := f.widths.find(file, code)
	if w, ok := file.Number(o); ok {
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

// codeMap maps ranges of codes to objects. If ranges overlap, as where damage made one too long, the
// one that begins last counts.
type codeMap []codeRange

// codeRange is a range of codes, with an object for each or one for all.
type codeRange struct {
	first, end uint32 // end is exclusive
	objects    []Object
	longer     int // the last range before this one with a greater end, or -1
}

// add adds the codes from first to last with an object for all, or with an array of one for each,
// which may be shorter. It charges their memory.
func (m *codeMap) add(file *File, first, last int, o Object) {
	objects, isList := o.(Array)
	if !isList {
		objects = Array{o}
	} else {
		last = min(last, first+len(objects)-1)
	}
	last = min(last, maxCode)
	if first >= 0 && first <= last && file.Spend(rangeCost+objectCost*int64(len(objects))) {
		*m = append(*m, codeRange{first: uint32(first), end: uint32(last) + 1, objects: objects})
	}
}

// sort prepares the map for find.
func (m codeMap) sort() {
	slices.SortStableFunc(m, func(a, b codeRange) int { return cmp.Compare(a.first, b.first) })
	for i := range m {
		longer := i - 1
		for longer >= 0 && m[longer].end <= m[i].end {
			longer = m[longer].longer
		}
		m[i].longer = longer
	}
}

// find returns the object of a code, and the offset of the code in a range with one object for
// all. The object is nil for an unknown code.
func (m codeMap) find(file *File, code uint32) (o Object, offset uint32) {
	next, _ := slices.BinarySearchFunc(m, code+1, func(r codeRange, code uint32) int { return cmp.Compare(r.first, code) })
	i := next - 1
	for step := int64(1); i >= 0 && m[i].end <= code && file.Spend(step); step++ { // only a hostile file needs many
		i = m[i].longer
	}
	if i < 0 || m[i].end <= code {
		return nil, 0
	}
	if r := m[i]; len(r.objects) > 1 {
		return r.objects[code-r.first], 0
	}
	return m[i].objects[0], code - m[i].first
}

// readToUnicode reads the texts of codes from a CMap stream. It skips everything else.
func (f *File) readToUnicode(o Object) (m codeMap) {
	s := f.Stream(o)
	if s == nil {
		return nil
	}
	data, _ := f.Decode(s)
	l := &Lexer{data: data}
	sizes := map[Keyword]int{"endbfchar": 2, "endbfrange": 3} // of a mapping: first code, last code, text
	for word, args := range l.operations() {
		size, known := sizes[word]
		for ; known && len(args) >= size; args = args[size:] {
			first, ok1 := args[0].(String)
			last, ok2 := args[size-2].(String)
			if ok1 && ok2 {
				m.add(f, int(codeOf(first)), int(codeOf(last)), args[size-1])
			}
		}
	}
	return m
}

func codeOf(s String) uint32 {
	v := uint32(0)
	for i := 0; i < len(s) && i < 4; i++ {
		v = v<<8 | uint32(s[i])
	}
	return v
}

// textAt returns the text of an offset in a range of codes: that of the range with its last UTF-16
// unit increased. Increasing only the last byte would garble Cyrillic.
func textAt(o Object, offset uint32) (text string, ok bool) {
	units := utf16Units(o)
	if len(units) > 0 {
		units[len(units)-1] += uint16(offset)
	}
	text = decodeUTF16(units)
	return text, text != "" || units != nil && len(units) == 0
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
