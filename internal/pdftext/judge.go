package pdftext

import (
	"fmt"
	"strings"
	"unicode"
)

// Kind says what a page is.
type Kind string

// The kinds of pages.
const (
	Readable   Kind = "text"
	Blank      Kind = "blank"      // nothing on it
	Scan       Kind = "scan"       // a picture without text
	Unreadable Kind = "unreadable" // text that nobody can make out
)

// From these on a page is no longer text; found by looking at real files and
// at broken ones, see judge_test.go.
const (
	mostUnknown  = 0.10 // of its glyphs
	mostNonsense = 0.35 // of the letters in words that are judged
	fewLetters   = 20
	chance       = 8  // letters that a name or two may have
	leastJudged  = 20 // letters
	longestWord  = 24 // letters; few are longer, even in German
)

// judge says what a page is, and why if it is not text. covered is the share of
// the page under pictures.
func judge(text string, covered float64) (kind Kind, problem string) {
	letters, unknown, shown := 0, torn(text), 0
	for _, r := range text {
		switch {
		case r == unicode.ReplacementChar:
			unknown++
			shown++
		case unicode.IsLetter(r):
			letters++
			shown++
		case !unicode.IsSpace(r):
			shown++
		}
	}
	switch {
	case shown == 0 && covered < 0.02:
		return Blank, "the page is blank"
	case shown == 0, letters < fewLetters && covered > 0.5:
		return Scan, "the page is a picture without text: it needs OCR"
	case float64(unknown) > mostUnknown*float64(shown):
		return Unreadable, fmt.Sprintf("%d of %d characters have no meaning: the map of a font is missing or broken", min(unknown, shown), shown)
	}
	s := spellingOf(text)
	most := mostNonsense*float64(s.judged) + chance
	switch {
	case s.judged < leastJudged:
	case float64(s.joined) > most:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that run into one another: the spaces are lost", s.joined, s.judged)
	case float64(s.nonsense+s.joined) > most:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that no language has: the map of a font is broken", s.nonsense+s.joined, s.judged)
	}
	return Readable, ""
}

// torn counts signs that are no letters between two letters, as where one
// encoding was read for another: т╨▓о, Ð¾Ñ€.
func torn(text string) int {
	count, between := 0, 0
	inWord := false
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			count += between
			inWord, between = true, 0
		case inWord && unicode.In(r, unicode.So, unicode.Sk, unicode.Sc):
			between++
		default:
			inWord, between = false, 0
		}
	}
	return count
}

// spelling counts letters of words in Latin and Cyrillic that can be judged:
// of four letters and more, and no abbreviations in capitals.
type spelling struct {
	judged   int
	nonsense int // in words that no language has
	joined   int // in words that are too long for one
}

func spellingOf(text string) (s spelling) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		runes := []rune(word)
		latins, cyrillics, capitals := 0, 0, 0
		for _, r := range runes {
			switch {
			case unicode.Is(unicode.Latin, r):
				latins++
			case unicode.Is(unicode.Cyrillic, r):
				cyrillics++
			}
			if unicode.IsUpper(r) {
				capitals++
			}
		}
		n := len(runes)
		if n < 4 || n < 6 && capitals == n || latins+cyrillics < n-1 {
			continue
		}
		alphabet := latin
		if cyrillics > latins {
			alphabet = cyrillic
		}
		s.judged += n
		switch {
		case n > longestWord:
			s.joined += n
		case latins > 1 && cyrillics > 1 || isMojibake(runes) || !pronounceable(runes) || !alphabet.likely(runes):
			s.nonsense += n
		}
	}
	return s
}

// isMojibake recognises Cyrillic that was read as Latin-1: nearly all letters
// have accents, or capitals stand in the middle of lower case, but for camelCase.
func isMojibake(word []rune) bool {
	high, odd := 0, 0
	for i, r := range word {
		if r >= 0xc0 && r <= 0xff {
			high++
		}
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(word[i-1]) && !isHump(word, i) {
			odd++
		}
	}
	return high*3 > len(word)*2 || odd > 1
}

// pronounceable asks for a vowel, for a consonant in a word of five, and for
// more than one letter that is repeated.
func pronounceable(word []rune) bool {
	vowels, same := 0, 1
	for i, r := range word {
		if i > 0 && r == word[i-1] {
			same++
		}
		if strings.ContainsRune(vowelLetters, plain(r)) {
			vowels++
		}
	}
	return vowels > 0 && (vowels < len(word) || len(word) < 5) && same*2 <= len(word)+1
}

// vowelLetters are those of both alphabets.
const vowelLetters = "aeiouyаеиоуыэюя"
