package printable

import (
	"fmt"
	"strings"
)

// Counted is a number with its English noun, given in the singular: "1 case",
// "3 cases", "0 categories", "2 misses". Nouns are regular; of those in -y, the
// ones after a consonant.
func Counted[N int | int64](n N, noun string) string {
	stem, isY := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
		return "1 " + noun
	case isY:
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
