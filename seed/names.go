package seed

import "extraction-experiment/internal/fold"

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
		a, b := fold.Type(pair[0]), fold.Type(pair[1])
		f.inverse[a] = append(f.inverse[a], b)
		if a != b {
			f.inverse[b] = append(f.inverse[b], a)
		}
	}
	for _, kind := range v.Symmetric {
		f.symmetric[fold.Type(kind)] = true
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

// denials returns the statements that cannot hold beside the fact: those in the
// other direction. Of a type that the vocabulary does not have nothing is known.
func (f facts) denials(a fact) []fact {
	if len(f.inverse[a.kind]) == 0 || f.symmetric[a.kind] || a.source == a.target {
		return nil
	}
	others := []fact{{a.target, a.kind, a.source}}
	for _, kind := range f.inverse[a.kind] {
		others = append(others, fact{a.source, kind, a.target})
	}
	return others
}
