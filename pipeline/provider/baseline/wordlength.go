package baseline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord bounds, in bytes, how long joined parts of a word may grow.
const maxWord = 100

// wordLength measures a word with the signs that belong to it: full stops of
// abbreviations, hyphens of double names, apostrophes, ampersands.
func (l *lexer) wordLength(s string) int {
	i := runLength(s, letterOrDigit)
	for i < len(s) && i < maxWord {
		r, size := utf8.DecodeRuneInString(s[i:])
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		if !letterOrDigit(next) {
			break
		}
		rest := s[i+size:]
		tail := rest[:runLength(rest, letterOrDigit)]
		if !l.joins(s[:i], r, tail, s) {
			break
		}
		i += size + len(tail)
	}
	if i < len(s) && s[i] == '.' && l.dotted(s[:i]) {
		i++
	}
	return i
}

func letterOrDigit(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !spaceless(r)
}

// joins reports whether a sign between two runs of letters makes one word of them.
func (l *lexer) joins(head string, sign rune, tail, s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	next, _ := utf8.DecodeRuneInString(tail)
	switch sign {
	case '-', '‐', '‑':
		return !l.lex.splits[strings.ToLower(tail)]
	case '\'', '’':
		if possessive(s[len(head):]) > 0 || l.lex.elisions[strings.ToLower(head)] && !unicode.IsUpper(first) {
			return false
		}
		return len(head) < 3 || unicode.IsLower(next) || unicode.Is(unicode.Cyrillic, next)
	case '.':
		// U.S.A. and Amazon.com, but not a missing space after a sentence.
		if shortLetter(head) {
			return utf8.RuneCountInString(tail) == 1
		}
		return l.lex.domains[tail]
	case '&':
		return len(head) <= 4 && unicode.IsUpper(next) && allCaps(head+"X")
	}
	return false
}

// shortLetter reports "U" and "U.S", the beginnings of dotted abbreviations.
func shortLetter(head string) bool {
	last := head[strings.LastIndexByte(head, '.')+1:]
	r, _ := utf8.DecodeRuneInString(last)
	return utf8.RuneCountInString(last) == 1 && unicode.IsLetter(r)
}

// dotted reports words whose full stop belongs to them.
func (l *lexer) dotted(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	if utf8.RuneCountInString(w) == 1 {
		return unicode.IsUpper(r)
	}
	if strings.Contains(w, ".") {
		return shortLetter(w)
	}
	return l.lex.abbreviations[strings.ToLower(w)]
}
