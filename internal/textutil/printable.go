// Package textutil has functions on text for several packages: it makes untrusted text harmless
// for a terminal (names, messages, documents and model output may have escapes that control
// it), folds names and types into the form in which they are compared, finds the word that was
// probably meant by a mistyped one, and reads JSON without copying it.
package textutil

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Line returns a string as one harmless line: white space of any kind becomes one space, and
// characters that could control a terminal are written as escapes (\x1b, \u202e).
func Line(s string) string {
	return strings.Join(strings.Fields(Block(s)), " ")
}

// Block returns a string without characters that could control a terminal, but with its lines.
func Block(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' }) {
		return s // like most texts
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\t':
			b.WriteString("    ")
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"), r < utf8.RuneSelf && ControlsTerminal(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case ControlsTerminal(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ControlsTerminal reports whether a terminal may act on r instead of showing it. It is true for control
// characters, and for format characters except the joiners, which Persian and many emoji need,
// and the Arabic number signs, which are visible.
func ControlsTerminal(r rune) bool {
	switch {
	case r >= ' ' && r <= '~', r == '\u200c', r == '\u200d':
		return false
	case r >= '\u0600' && r <= '\u0605', r == '\u06dd', r == '\u08e2':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// Cut returns the beginning of a text as valid UTF-8: at most that many bytes, up to a
// character boundary, and … if something was cut off. Control characters stay; see Line.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	end := limit
	for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + "…"
}

// Brief is Cut of the text on one line, with one space for each sequence of white space.
func Brief(text string, limit int) string {
	return Cut(strings.Join(strings.Fields(text), " "), limit)
}

// Countf is fmt.Sprintf for texts with counts, which get thousands separators: 12,345. It is for %s and %d.
func Countf(format string, args ...any) string {
	return message.NewPrinter(language.English).Sprintf(format, args...)
}

// Counted returns a number with its English noun, given in the singular: "1 case", "3 cases",
// "0 categories", "2 days", "12,345 misses". The noun must be regular.
func Counted[N int | int64](n N, noun string) string {
	stem, isY := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return "1 " + noun
	case isY && !strings.ContainsAny(stem[len(stem)-1:], "aeou"):
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return Countf("%d %s", n, noun)
}

// Reworded is an error with another text, for example a masked one.
type Reworded struct {
	Text string
	Err  error
}

// Error returns the text.
func (e *Reworded) Error() string { return e.Text }

// Unwrap returns the error whose text is replaced.
func (e *Reworded) Unwrap() error { return e.Err }
