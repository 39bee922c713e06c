package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestAbbreviation bounds in bytes what is looked up before a full stop.
const longestAbbreviation = 16

// isGap reports white space at which a line may be broken. No-break spaces are
// none; the zero width space, which separates words in Thai and Khmer, is one.
func isGap(r rune) bool {
	switch r {
	case 0xA0, 0x2007, 0x202F:
		return false
	case 0x200B:
		return true
	}
	return unicode.IsSpace(r)
}

// isTerminator reports characters that end sentences, in any script.
func isTerminator(r rune) bool {
	if r < 0x80 {
		return r == '.' || r == '!' || r == '?'
	}
	return r == '…' || unicode.Is(unicode.Sentence_Terminal, r)
}

// isCloser reports characters that may stand between the end of a sentence and
// the white space after it.
func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

func isOpener(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Ps, unicode.Pi)
}

func isRegional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// abbreviates reports whether a full stop after the word is more likely part of
// it than the end of a sentence. A wrong yes only loses a place to cut, so it is
// given freely: to initials ("J."), ordinals ("3."), short parts with stops
// between ("e.g.", "z.B."), and common abbreviations.
func abbreviates(word string) bool {
	if word == "" || len(word) > longestAbbreviation {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		if utf8.RuneCountInString(part) > 2 {
			return isAbbreviation(strings.ToLower(word))
		}
	}
	if strings.Contains(word, ".") || strings.Trim(word, "0123456789") == "" {
		return true
	}
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.IsLetter(r) || isAbbreviation(strings.ToLower(word))
}

func isAbbreviation(word string) bool {
	switch word {
	case "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "rev", "hon", "gen", "col", "capt", "lt", "sgt",
		"vs", "cf", "al", "fig", "figs", "eq", "no", "nos", "vol", "pp", "ed", "eds", "ch", "sec", "art", "para",
		"inc", "ltd", "co", "corp", "dept", "univ", "approx", "est", "ca", "resp", "incl", "excl",
		"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
		"nr", "abs", "bzw", "ggf", "evtl", "str", "hr", "fr", "geb", "gest", "inkl", "vgl", "zzgl", "abb", "bd",
		"mme", "mlle", "av", "núm", "sra", "dra", "srta", "ing", "dott", "г", "ул", "им", "тыс", "млн", "руб", "гг":
		return true
	}
	return false
}
