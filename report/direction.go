package report

import "strings"

// isolate keeps right-to-left text from reordering the columns beside it. It
// marks the text with control characters, which clean text has none of and
// which the table library rightly gives no width, unlike the real marks.
func isolate(s string) string {
	if strings.ContainsFunc(s, rightToLeft) {
		return "\x01" + s + "\x02"
	}
	return s
}

// isolates turns the marks of isolate into FIRST STRONG ISOLATE and POP
// DIRECTIONAL ISOLATE, which take no space on a terminal.
func isolates(page string) string {
	return strings.NewReplacer("\x01", "\u2068", "\x02", "\u2069").Replace(page)
}

func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}
