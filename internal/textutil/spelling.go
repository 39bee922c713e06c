package textutil

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// FoldName returns NFKC, full case folding and NFKC again, with one space for each
// run of Unicode white space and none at the ends. ß equals SS, ﬁ equals fi,
// final and other sigma are equal; diacritics and punctuation stay. Safe for
// concurrent use; about 1 µs for a short name that is not ASCII. A byte that is not
// UTF-8 reads as U+FFFD, as in JSON readers.
func FoldName(s string) string { return OneSpace(FoldCase(s)) }

// FoldType returns the same with one underscore for each run of spaces, hyphens
// and underscores: "Place name", "place-name" and "PLACE_NAME" are one type.
func FoldType(s string) string {
	return strings.Join(strings.FieldsFunc(FoldCase(s), isSeparator), "_")
}

// FoldCase folds case and compatibility and leaves white space as it is.
func FoldCase(s string) string {
	if IsASCII(s) { // where the Unicode rules come to the same
		return strings.ToLower(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(ValidUTF8(s)))
	return norm.NFKC.String(strings.Map(cherokee, folded))
}

// cherokee folds Cherokee letters to capitals, as Unicode does; the library
// exchanges the two cases instead, so that they never meet.
func cherokee(r rune) rune {
	switch {
	case r >= 0xAB70 && r <= 0xABBF:
		return r - 0xAB70 + 0x13A0
	case r >= 0x13F8 && r <= 0x13FD:
		return r - 8
	}
	return r
}

// OneSpace makes one space of each run of white space and trims the ends.
func OneSpace(s string) string {
	space := true // what comes before is one
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || s[i] < ' ' || s[i] == ' ' && space {
			return strings.Join(strings.Fields(s), " ")
		}
		space = s[i] == ' '
	}
	return strings.TrimSuffix(s, " ")
}

// ValidUTF8 replaces each byte that is not UTF-8 by U+FFFD.
func ValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// IsASCII reports whether all of a text is ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isSeparator(r rune) bool {
	// U+2010 is what NFKC makes of the no-break hyphen.
	return r == '-' || r == '_' || r == '\u2010' || unicode.IsSpace(r)
}

// longest is the longest word that is looked at: nobody mistypes more, and it
// keeps hostile words cheap.
const longest = 64

// Nearest returns the candidate with the fewest edits, in any case; "" if none is
// near: one edit is allowed for up to 3 letters, two for up to 7, else three.
// Two letters that changed places are two edits. Ties go to the first in the
// alphabet.
func Nearest(word string, candidates []string) string {
	if len(word) > longest {
		return ""
	}
	best, edits := "", 0
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(c))
		if d <= allowed(c) && (best == "" || d < edits) {
			best, edits = c, d
		}
	}
	return best
}

func allowed(word string) int {
	switch {
	case len(word) <= 3:
		return 1
	case len(word) <= 7:
		return 2
	}
	return 3
}

// Hint returns `; did you mean "x"?`, or nothing where no candidate is near.
func Hint(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" && near != word {
		return `; did you mean "` + near + `"?`
	}
	return ""
}

// First joins the first few of some words, and says how many more there are; "none" where
// there is none.
func First(words []string, most int) string {
	text := cmp.Or(strings.Join(words[:min(most, len(words))], ", "), "none")
	if more := len(words) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Listed returns the candidates in their order, at most 30 of them, and
// ` (did you mean "x"?)` where one is near.
func Listed(word string, candidates []string) string {
	text := First(candidates, 30)
	if near := Nearest(word, candidates); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}
