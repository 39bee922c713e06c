package pdftext

import (
	"golang.org/x/text/encoding/charmap"

	"extraction-experiment/internal/pdf"
)

// simpleEncoding is what the 256 codes of a simple font stand for; "" is not
// known.
type simpleEncoding [256]string

// encodingOf reads the Encoding of a simple font. ok is false where there is
// none to go by: a symbolic font whose codes only its program explains.
func encodingOf(file *pdf.File, font pdf.Dict) (e simpleEncoding, ok bool) {
	flags := file.Int(file.Dict(font["FontDescriptor"])["Flags"])
	symbolic := flags&4 != 0
	subtype := file.Name(font["Subtype"])
	base := file.Name(font["Encoding"])
	d := file.Dict(font["Encoding"])
	if d != nil {
		base = file.Name(d["BaseEncoding"])
	}
	embedded := false
	for _, key := range []pdf.Name{"FontFile", "FontFile2", "FontFile3"} {
		embedded = embedded || file.Dict(font["FontDescriptor"])[key] != nil
	}
	switch {
	case base == "WinAnsiEncoding":
		e, ok = charmapEncoding(charmap.Windows1252), true
		e[0xad], e[0xa0] = "-", " "
	case base == "MacRomanEncoding":
		e, ok = charmapEncoding(charmap.Macintosh), true
	case base == "StandardEncoding", !symbolic && subtype != "Type3", !embedded && subtype != "Type3" && !isSymbolFont(file.Name(font["BaseFont"])):
		e, ok = standardEncoding(), true
	}
	code := -1
	for _, o := range file.Array(d["Differences"]) {
		switch o := file.Resolve(o).(type) {
		case int64:
			code = int(max(-1, min(o, 256)))
		case pdf.Name:
			if code >= 0 && code < 256 {
				e[code], _ = textOfGlyph(string(o))
				ok = true
			}
			code++
		}
	}
	return e, ok
}

func isSymbolFont(name pdf.Name) bool { return name == "Symbol" || name == "ZapfDingbats" }

func charmapEncoding(c *charmap.Charmap) (e simpleEncoding) {
	for code := 32; code < 256; code++ {
		if r := c.DecodeByte(byte(code)); r >= ' ' && r != 0xfffd && (r < 0x7f || r > 0x9f) {
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
	upper := []rune("¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ\x00–†‡·\x00¶•‚„”»…‰\x00¿\x00`´ˆ˜¯˘˙¨\x00˚¸\x00˝˛ˇ—")
	for i, r := range upper {
		if r != 0 {
			e[161+i] = string(r)
		}
	}
	for code, text := range map[int]string{0xe1: "Æ", 0xe3: "ª", 0xe8: "Ł", 0xe9: "Ø", 0xea: "Œ", 0xeb: "º", 0xf1: "æ", 0xf5: "ı", 0xf8: "ł", 0xf9: "ø", 0xfa: "œ", 0xfb: "ß"} {
		e[code] = text
	}
	return e
}
