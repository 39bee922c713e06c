// Package printable makes the words of strangers harmless to a terminal: names,
// messages, documents and model output may hold escapes that would steer it.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes one harmless line of a string: white space of any kind becomes one
// space, what could steer a terminal is written as an escape (\x1b, \u202e).
func Line(s string) string {
	return strings.Join(strings.Fields(Block(s)), " ")
}

// Block makes a string harmless and keeps its lines.
func Block(s string) string {
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
		case Steers(r):
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Steers reports whether a terminal may act on r instead of showing it:
// control characters, and format characters except the joiners, without which
// Persian and many emoji break, and the Arabic number signs, which are visible.
func Steers(r rune) bool {
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
