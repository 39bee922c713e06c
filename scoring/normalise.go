package scoring

import (
	"strings"

	"golang.org/x/text/unicode/norm"

	"extraction-experiment/internal/fold"
)

// Normalisation says how names are spelled before they are compared.
type Normalisation string

// The normalisations of names. Each reads a byte that is not UTF-8 as U+FFFD,
// as JSON readers do, and treats a name of white space only as empty.
const (
	// NFKCCaseFold is NFKC, full case folding and NFKC again; runs of white
	// space become one space, the ends are trimmed. ß equals SS, ﬁ equals fi,
	// final and other sigma are equal. Diacritics and punctuation stay.
	NFKCCaseFold Normalisation = "nfkc_casefold"
	// Lower lower-cases code point by code point and treats white space
	// likewise; composed and decomposed letters differ.
	Lower Normalisation = "lower"
	// None compares names as they are written.
	None Normalisation = "none"
)

// speller brings names into the form in which they are compared.
type speller struct {
	how        Normalisation
	diacritics bool // fold them
}

func newSpeller(o Options) *speller {
	return &speller{how: o.Normalise, diacritics: o.FoldDiacritics}
}

func (s *speller) text(name string) string {
	switch s.how {
	case Lower:
		name = fold.Space(strings.ToLower(fold.Readable(name)))
	case None:
		if name = fold.Readable(name); strings.TrimSpace(name) == "" {
			name = ""
		}
	default:
		name = fold.Name(name)
	}
	if s.diacritics {
		name = dropDiacritics(name)
	}
	return name
}

// dropDiacritics removes the combining marks of the Latin, Greek and Cyrillic
// scripts: é becomes e, й becomes и. Letters that do not decompose (ø, ł) and
// the vowel signs of other scripts stay.
func dropDiacritics(s string) string {
	marks := strings.Map(func(r rune) rune {
		if isDiacritic(r) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
	return norm.NFC.String(marks)
}

func isDiacritic(r rune) bool {
	return r >= 0x0300 && r <= 0x036F || r >= 0x1AB0 && r <= 0x1AFF ||
		r >= 0x1DC0 && r <= 0x1DFF || r >= 0x20D0 && r <= 0x20FF
}
