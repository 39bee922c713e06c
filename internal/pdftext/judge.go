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
	mostNonsense = 0.35 // of its words
	fewLetters   = 20
	leastWords   = 12
)

// judge says what a page is, and why if it is not text. covered is the share of
// the page under pictures.
func judge(text string, covered float64) (kind Kind, problem string) {
	letters, unknown, shown := 0, 0, 0
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
		return Unreadable, fmt.Sprintf("%d of %d characters have no meaning: the map of a font is missing or broken", unknown, shown)
	}
	if bad, all := nonsense(text); all >= leastWords && float64(bad) > mostNonsense*float64(all) {
		return Unreadable, fmt.Sprintf("%d of %d words are none: the map of a font is broken", bad, all)
	}
	return Readable, ""
}

// nonsense counts the words of four letters and more that no language writes,
// among those in Latin and Cyrillic letters.
func nonsense(text string) (bad, all int) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		runes := []rune(word)
		if len(runes) < 4 {
			continue
		}
		latin, cyrillic := 0, 0
		for _, r := range runes {
			switch {
			case unicode.Is(unicode.Latin, r):
				latin++
			case unicode.Is(unicode.Cyrillic, r):
				cyrillic++
			}
		}
		if latin+cyrillic < len(runes)-1 {
			continue
		}
		all++
		if latin > 1 && cyrillic > 1 || isMojibake(runes) || !pronounceable(runes) {
			bad++
		}
	}
	return bad, all
}

// isMojibake recognises Cyrillic that was read as Latin-1: nearly all letters
// have accents, or capitals stand in the middle of lower case.
func isMojibake(word []rune) bool {
	high, odd := 0, 0
	for i, r := range word {
		if r >= 0xc0 && r <= 0xff {
			high++
		}
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(word[i-1]) {
			odd++
		}
	}
	return high*3 > len(word)*2 || odd > 1
}

// pronounceable asks for a vowel among six letters in a row, and for one
// consonant in a word of five; words in capitals are abbreviations.
func pronounceable(word []rune) bool {
	vowels, row, longest, upper := 0, 0, 0, 0
	same := 1
	for i, r := range word {
		if unicode.IsUpper(r) {
			upper++
		}
		if i > 0 && r == word[i-1] {
			same++
		}
		if isVowel(unicode.ToLower(r)) {
			vowels++
			row = 0
			continue
		}
		row++
		longest = max(longest, row)
	}
	if upper == len(word) && len(word) < 6 {
		return true
	}
	return longest < 7 && vowels > 0 && (vowels < len(word) || len(word) < 5) && same*2 <= len(word)+1
}

func isVowel(r rune) bool {
	return strings.ContainsRune("aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿāăąēėęěīįōőœūůűų"+"аеёиоуыэюяіїєў", r)
}
