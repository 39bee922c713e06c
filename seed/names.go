package seed

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// fold brings a name or a text into the form in which names are compared by
// default: NFKC, case folding, NFKC, one space for each run of white space.
func fold(s string) string {
	return strings.Join(strings.Fields(foldCase(s)), " ")
}

// foldType does so for types, where spaces, hyphens and underscores are the
// same.
func foldType(s string) string {
	return strings.Join(strings.FieldsFunc(foldCase(s), func(r rune) bool {
		return r == '-' || r == '_' || r == '\u2010' || unicode.IsSpace(r)
	}), "_")
}

func foldCase(s string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
}

// Vocabulary says which relationship types state the same fact; it has the
// form of the scorer's vocabulary and can be converted from it.
type Vocabulary struct {
	// Inverse pairs: a(x, y) says what b(y, x) says.
	Inverse [][2]string
	// Symmetric types: a(x, y) says what a(y, x) says.
	Symmetric []string
}

// fact is one statement, folded.
type fact struct{ source, kind, target string }

// facts finds the statements that say what a given one says.
type facts struct {
	inverse   map[string][]string
	symmetric map[string]bool
}

func newFacts(v Vocabulary) facts {
	f := facts{inverse: map[string][]string{}, symmetric: map[string]bool{}}
	for _, pair := range v.Inverse {
		a, b := foldType(pair[0]), foldType(pair[1])
		f.inverse[a] = append(f.inverse[a], b)
		if a != b {
			f.inverse[b] = append(f.inverse[b], a)
		}
	}
	for _, kind := range v.Symmetric {
		f.symmetric[foldType(kind)] = true
	}
	return f
}

// equivalents returns the other ways to state the fact.
func (f facts) equivalents(a fact) []fact {
	var others []fact
	if f.symmetric[a.kind] {
		others = append(others, fact{a.target, a.kind, a.source})
	}
	for _, kind := range f.inverse[a.kind] {
		others = append(others, fact{a.target, kind, a.source})
	}
	return others
}
