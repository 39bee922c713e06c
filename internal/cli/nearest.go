package cli

import (
	"cmp"
	"slices"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate that a mistyped word most likely means: the
// one with the fewest edits, at most half its length and at least one allowed
// (two letters that changed places are two edits); "" if none is that near. Ties go to the first in the alphabet.
func Nearest(word string, candidates []string) string {
	const longest = 64 // nobody mistypes more; keeps hostile words cheap
	if len(word) > longest {
		return ""
	}
	best, edits := "", 0
	for _, c := range slices.SortedFunc(slices.Values(candidates), cmp.Compare[string]) {
		d := levenshtein.ComputeDistance(word, c)
		if d > max(1, len(c)/2) {
			continue
		}
		if best == "" || d < edits {
			best, edits = c, d
		}
	}
	return best
}
