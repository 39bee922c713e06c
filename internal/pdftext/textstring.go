package pdftext

import (
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"

	"extraction-experiment/internal/pdf"
)

// textString decodes a text string outside of content: UTF-16 or UTF-8 with a
// mark, else nearly Latin-1.
func textString(s pdf.String) string {
	text := string(s)
	switch {
	case strings.HasPrefix(text, "\xfe\xff"):
		units := make([]uint16, 0, len(text)/2)
		for i := 2; i+1 < len(text); i += 2 {
			units = append(units, uint16(text[i])<<8|uint16(text[i+1]))
		}
		return string(utf16.Decode(units))
	case strings.HasPrefix(text, "\xef\xbb\xbf"):
		return strings.ToValidUTF8(text[3:], "\ufffd")
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteRune(charmap.ISO8859_1.DecodeByte(text[i]))
	}
	return b.String()
}
