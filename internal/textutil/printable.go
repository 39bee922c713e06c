// Package textutil does what several packages need of texts: it makes the words of
// strangers harmless to a terminal (names, messages, documents and model output may hold
// escapes that would steer it), folds names and types into the form in which they are
// compared, finds the word that a mistyped one was meant to be, and takes JSON apart
// without copying it.
package textutil

import (
	"fmt"
	"strconv"
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
	if !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' }) {
		return s // as most texts are
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
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"), r < utf8.RuneSelf && Steers(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Steers(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
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
	case r >= ' ' && r <= '~', r == '\u200c', r == '\u200d':
		return false
	case r >= '\u0600' && r <= '\u0605', r == '\u06dd', r == '\u08e2':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// Cut returns the beginning of a text as valid UTF-8: at most so many bytes, up
// to the edge of a character, and … where something was cut off. Control
// characters stay; see Line.
func Cut(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	end := most
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + "…"
}

// Brief is Cut of a text on one line, with one space for every stretch of white
// space.
func Brief(text string, most int) string {
	return Cut(strings.Join(strings.Fields(text), " "), most)
}

// Counted is a number with its English noun, given in the singular: "1 case",
// "3 cases", "0 categories", "2 misses". Nouns are regular; of those in -y, the
// ones after a consonant.
func Counted[N int | int64](n N, noun string) string {
	stem, isY := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return "1 " + noun
	case isY:
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
