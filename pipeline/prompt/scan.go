package prompt

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// part is a stretch of a template: text, or an identifier to fill.
type part struct{ text, name string }

// parts yields the parts of a text in order. Texts are never empty; joined with
// the identifiers as they were written they are the whole text. Time is linear:
// an identifier holds no brace, so that no character is looked at by two
// attempts to read one.
func parts(text string) iter.Seq[part] {
	return func(yield func(part) bool) {
		start, at := 0, 0
		for {
			open := strings.Index(text[at:], "{{")
			if open < 0 {
				break
			}
			open += at
			name, length := identifier(text[open:])
			if length == 0 {
				at = open + 1
				continue
			}
			if open > start && !yield(part{text: text[start:open]}) {
				return
			}
			if !yield(part{name: name}) {
				return
			}
			at = open + length
			start = at
		}
		if start < len(text) {
			yield(part{text: text[start:]})
		}
	}
}

// identifier reads "{{ name }}" at the start of the text; the length is 0 where
// there is none.
func identifier(text string) (name string, length int) {
	at := len("{{")
	at += spaces(text[at:])
	end := at + nameLength(text[at:])
	if end == at {
		return "", 0
	}
	closing := end + spaces(text[end:])
	if !strings.HasPrefix(text[closing:], "}}") {
		return "", 0
	}
	return text[at:end], closing + len("}}")
}

func spaces(text string) int {
	return len(text) - len(strings.TrimLeft(text, " \t\r\n"))
}

// nameLength returns how many bytes at the start of the text are a name.
func nameLength(text string) int {
	length, first := 0, true
	for length < len(text) {
		r, size := utf8.DecodeRuneInString(text[length:])
		switch {
		case r == '_' || unicode.IsLetter(r) || !first && (unicode.IsDigit(r) || unicode.IsMark(r)):
			first = false
		case r == '.' && !first:
			first = true // a name goes on after a dot as it begins
			next, _ := utf8.DecodeRuneInString(text[length+size:])
			if unicode.IsDigit(next) {
				first = false // lists are indexed: sections.0
			}
		default:
			if first {
				return 0 // nothing, or a dot at the end
			}
			return length
		}
		length += size
	}
	if first {
		return 0
	}
	return length
}
