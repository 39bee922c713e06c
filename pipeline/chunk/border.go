package chunk

import (
	"unicode"
	"unicode/utf8"
)

// strength says how good a place between two code points is for a cut.
type strength uint8

const (
	inside    strength = iota // of a code point: never a place to cut
	joined                    // of what a reader sees as one character
	character                 // inside a word
	space                     // between words
	line                      // between lines
	sentence                  // between sentences
	paragraph                 // between paragraphs
)

// ending says whether a sentence may have ended just before.
type ending uint8

const (
	none ending = iota
	soft        // a full stop and the like: only before white space
	hard        // 。 and the like: whatever follows
)

// markBorders returns how good each byte offset of the text is for a cut.
func markBorders(text string) []strength {
	borders := make([]strength, len(text)+1)
	s := scanner{text: text}
	for i, r := range text {
		borders[i] = s.border(r)
		s.step(i, r)
	}
	borders[0], borders[len(text)] = paragraph, paragraph
	return borders
}

// scanner reads a text once and remembers what decides about the next border.
type scanner struct {
	text     string
	prev     rune
	word     int    // byte offset of the current word
	end      ending // of the last sentence, while only closing marks and white space follow
	gap      bool   // prev is white space
	newlines int    // in that white space
	flags    int    // regional indicators in a row
}

// border returns the strength of the border before r.
func (s *scanner) border(r rune) strength {
	switch {
	case s.joins(r):
		return joined
	case isGap(r):
		return character
	case s.newlines >= 2:
		return paragraph
	case s.gap && (s.end == hard || s.end == soft && !unicode.IsLower(r)):
		return sentence
	case s.newlines == 1:
		return line
	case s.gap:
		return space
	case s.end == hard && !isTerminator(r) && !isCloser(r):
		return sentence
	}
	return character
}

// joins reports whether r belongs to the same user-perceived character as the
// code point before it. It covers what occurs in texts: combining marks, joined
// and modified emoji, flags, Hangul syllables of jamo, CR LF.
func (s *scanner) joins(r rune) bool {
	if r < 0x300 {
		return r == '\n' && s.prev == '\r'
	}
	switch {
	case unicode.Is(unicode.M, r), r == 0x200D, s.prev == 0x200D:
		return true
	case r == 0x0E33, r == 0x0EB3: // Thai and Lao AM
		return true
	case r >= 0x1F3FB && r <= 0x1F3FF: // skin tones
		return true
	case isRegional(r):
		return s.flags%2 == 1
	case r >= 0x1160 && r <= 0x11FF: // vowels and final consonants
		return s.prev >= 0x1100 && s.prev <= 0x11FF || s.prev >= 0xAC00 && s.prev <= 0xD7A3
	}
	return false
}

// step takes r, which begins at byte i, into account.
func (s *scanner) step(i int, r rune) {
	before := s.prev
	s.prev = r
	if isRegional(r) {
		s.flags++
	} else {
		s.flags = 0
	}
	if isGap(r) {
		s.gap = true
		s.newlines += newlines(before, r)
		return
	}
	if s.gap {
		s.gap, s.newlines, s.end, s.word = false, 0, none, i
	}
	switch {
	case isTerminator(r):
		s.end = s.ending(i, r)
	case s.end != none && (isCloser(r) || s.end == soft && unicode.Is(unicode.Pi, r) || unicode.Is(unicode.M, r)):
		// The sentence still ends here: „So.“ and (Yes!)
	default:
		s.end = none
		if s.word == i && isOpener(r) {
			s.word = i + utf8.RuneLen(r)
		}
	}
}

// ending returns how firmly the terminator r at byte i ends a sentence.
func (s *scanner) ending(i int, r rune) ending {
	switch r {
	case '.', '．':
		if s.end == none && abbreviates(s.text[s.word:i]) {
			return none
		}
		return max(s.end, soft)
	case '!', '?', '…', '‼', '‽', '⁇', '⁈', '⁉':
		return max(s.end, soft)
	}
	return hard
}

// newlines returns how many line ends r adds after prev; a paragraph separator
// and a page break are worth two.
func newlines(prev, r rune) int {
	switch r {
	case '\n':
		if prev == '\r' {
			return 0
		}
		return 1
	case '\r', '\v', 0x85, 0x2028:
		return 1
	case '\f', 0x2029:
		return 2
	}
	return 0
}
