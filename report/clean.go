package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes one harmless line of a string: white space of any kind becomes
// one space, what could steer a terminal is written as an escape.
func clean(s string) string {
	return strings.Join(strings.Fields(cleanBlock(s)), " ")
}

// cleanBlock makes a string harmless and keeps its lines.
func cleanBlock(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\t':
			b.WriteString("    ")
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case steers(r):
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// steers reports whether a terminal may act on r instead of showing it:
// control characters, and format characters except the joiners, without which
// Persian and many emoji break, and the Arabic number signs, which are visible.
func steers(r rune) bool {
	switch {
	case r == '\u200c' || r == '\u200d':
		return false
	case r >= '\u0600' && r <= '\u0605', r == '\u06dd', r == '\u08e2':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

func escaped(r rune) string {
	switch {
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}

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
