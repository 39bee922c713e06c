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

// FoldName folds a name: NFKC, full case folding and NFKC again, with one space for each
// sequence of Unicode white space and none at the ends. ß equals SS, ﬁ equals fi, final and
// other sigma are equal; diacritics and punctuation stay. An invalid byte counts as U+FFFD, as
// in JSON readers. It takes about 1 µs for a short name that is not ASCII, and is safe for
// concurrent use.
func FoldName(s string) string { return OneSpace(FoldCase(s)) }

// FoldType folds a type: like FoldName, but with one underscore for each sequence of spaces,
// hyphens and underscores, so that "Place name", "place-name" and "PLACE_NAME" are equal.
func FoldType(s string) string {
	return strings.Join(strings.FieldsFunc(FoldCase(s), isSeparator), "_")
}

// FoldCase folds case and compatibility forms, and keeps white space.
func FoldCase(s string) string {
	if IsASCII(s) { // the Unicode rules give the same
		return strings.ToLower(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(ValidUTF8(s)))
	return norm.NFKC.String(strings.Map(foldCherokee, folded))
}

// foldCherokee folds Cherokee letters to capitals, as Unicode does. The library exchanges the
// two cases instead, so that they would never be equal.
func foldCherokee(r rune) rune {
	switch {
	case r >= 0xAB70 && r <= 0xABBF:
		return r - 0xAB70 + 0x13A0
	case r >= 0x13F8 && r <= 0x13FD:
		return r - 8
	}
	return r
}

// OneSpace replaces each sequence of white space by one space, and trims the ends.
func OneSpace(s string) string {
	if strings.Contains(s, "  ") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf }) {
		return strings.Join(strings.Fields(s), " ")
	}
	return strings.Trim(s, " ") // like most names, without a copy
}

// ValidUTF8 replaces each invalid byte by U+FFFD.
func ValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// IsASCII reports whether all bytes of a text are ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isSeparator(r rune) bool {
	// NFKC turns the no-break hyphen into U+2010.
	return r == '-' || r == '_' || r == '\u2010' || unicode.IsSpace(r)
}

// maxWord is the maximum length of a mistyped word, which limits the work for hostile ones.
const maxWord = 64

// Nearest returns the candidate with the fewest edits, ignoring case, or "" if none is near
// enough: one edit is allowed for candidates of up to 3 bytes, two for up to 7, otherwise
// three. Two letters that changed places count as two edits. Of equally near candidates, the
// first in byte order is returned.
func Nearest(word string, candidates []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, edits := "", 0
	for _, candidate := range slices.Sorted(slices.Values(candidates)) {
		distance := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(candidate))
		if distance <= min(1+len(candidate)/4, 3) && (best == "" || distance < edits) {
			best, edits = candidate, distance
		}
	}
	return best
}

// Hint returns `; did you mean "x"?`, or "" if no candidate is near.
func Hint(word string, candidates []string) string {
	if nearest := Nearest(word, candidates); nearest != "" && nearest != word {
		return `; did you mean "` + nearest + `"?`
	}
	return ""
}

// First joins the first few words, and adds the number of others. Without words it returns
// "none".
func First(words []string, limit int) string {
	text := cmp.Or(strings.Join(words[:min(limit, len(words))], ", "), "none")
	if more := len(words) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Listed joins the candidates in their order, at most 30 of them, and adds ` (did you mean
// "x"?)` if one is near.
func Listed(word string, candidates []string) string {
	text := First(candidates, 30)
	if nearest := Nearest(word, candidates); nearest != "" {
		text += fmt.Sprintf(" (did you mean %q?)", nearest)
	}
	return text
}

// WordSet returns the words of a list that white space separates.
func WordSet(list string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		words[word] = true
	}
	return words
}
