package scoring

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
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

// speller brings names into the form in which they are compared. Not safe for
// concurrent use; each call has its own.
type speller struct {
	how        Normalisation
	diacritics bool // fold them
	fold       cases.Caser
}

func newSpeller(o Options) *speller {
	return &speller{how: o.Normalise, diacritics: o.FoldDiacritics, fold: cases.Fold()}
}

func (s *speller) text(name string) string {
	name = readable(name)
	switch s.how {
	case Lower:
		name = oneSpace(strings.ToLower(name))
	case None:
		if strings.TrimSpace(name) == "" {
			name = ""
		}
	default:
		name = oneSpace(s.foldCase(name))
	}
	if s.diacritics {
		name = dropDiacritics(name)
	}
	return name
}

func (s *speller) foldCase(name string) string {
	if lower, ok := lowerASCII(name); ok {
		return lower
	}
	return norm.NFKC.String(s.fold.String(norm.NFKC.String(name)))
}

// lowerASCII is the short way for names that are ASCII throughout, where the
// Unicode rules come to the same.
func lowerASCII(name string) (string, bool) {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return "", false
		}
	}
	return strings.ToLower(name), true
}

// readable replaces each byte that is not UTF-8 by U+FFFD.
func readable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// oneSpace makes one space of each run of white space and trims the ends.
func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

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

// typeSpeller brings types of entities and relationships into normal form:
// NFKC and case folding, each run of spaces, hyphens and underscores one
// underscore, none at the ends. Not safe for concurrent use.
type typeSpeller struct{ fold cases.Caser }

func newTypeSpeller() *typeSpeller { return &typeSpeller{cases.Fold()} }

func (s *typeSpeller) text(name string) string {
	name = readable(name)
	lower, ok := lowerASCII(name)
	if !ok {
		lower = norm.NFKC.String(s.fold.String(norm.NFKC.String(name)))
	}
	return strings.Join(strings.FieldsFunc(lower, isTypeSeparator), "_")
}

func isTypeSeparator(r rune) bool {
	// U+2010 is what NFKC makes of the no-break hyphen.
	return r == '-' || r == '_' || r == '\u2010' || unicode.IsSpace(r)
}
