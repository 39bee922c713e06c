// Package nearest finds the word that a mistyped one was meant to be.
package nearest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// longest is the longest word that is looked at: nobody mistypes more, and it
// keeps hostile words cheap.
const longest = 64

// Word returns the candidate with the fewest edits, in any case; "" if none is
// near: one edit is allowed for up to 3 letters, two for up to 7, else three.
// Two letters that changed places are two edits. Ties go to the first in the
// alphabet.
func Word(word string, candidates []string) string {
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
	if near := Word(word, candidates); near != "" && near != word {
		return `; did you mean "` + near + `"?`
	}
	return ""
}
