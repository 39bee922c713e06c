package printable

import (
	"strings"
	"unicode/utf8"
)

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
