package scoring

import (
	"slices"

	"extraction-experiment/internal/fold"
)

// Names of the relation tables that Options can refer to.
const (
	// Specification is the default: 14 inverse pairs and 9 symmetric types.
	Specification = "specification"
	// Extended adds pairs that are common in practice.
	Extended = "extended"
)

// Vocabulary says which relationship types state the same fact.
type Vocabulary struct {
	// Inverse pairs: a(x, y) says what b(y, x) says. The relation is
	// symmetric, never transitive; a type may have several inverses, or be
	// its own.
	Inverse [][2]string
	// Symmetric types: a(x, y) says what a(y, x) says. A type that is also
	// its own inverse is symmetric.
	Symmetric []string
}

// SpecificationVocabulary returns the tables of the specification.
func SpecificationVocabulary() Vocabulary {
	return Vocabulary{
		Inverse: [][2]string{
			{"parent_of", "child_of"},
			{"employs", "employed_by"},
			{"contains", "contained_in"},
			{"owns", "owned_by"},
			{"manages", "managed_by"},
			{"created", "created_by"},
			{"supervises", "supervised_by"},
			{"leads", "led_by"},
			{"member_of", "has_member"},
			{"located_in", "contains_location"},
			{"lived_in", "was_residence_of"},
			{"born_in", "birthplace_of"},
			{"died_in", "deathplace_of"},
			{"originated_from", "origin_of"},
		},
		Symmetric: []string{
			"married_to", "sibling_of", "related_to", "colleague_of", "friend_of",
			"neighbor_of", "connected_to", "associated_with", "partnered_with",
		},
	}
}

// ExtendedVocabulary returns the tables of the specification and the pairs
// that existing systems use beside them.
func ExtendedVocabulary() Vocabulary {
	v := SpecificationVocabulary()
	v.Inverse = append(v.Inverse,
		[2]string{"belongs_to", "has"},
		[2]string{"precedes", "follows"},
		[2]string{"causes", "caused_by"},
		[2]string{"lives_in", "inhabited_by"},
	)
	v.Symmetric = append(v.Symmetric, "similar_to", "linked_to")
	return v
}

// vocabularyByName returns a table by its name in the options.
func vocabularyByName(name string) (Vocabulary, bool) {
	switch name {
	case Specification:
		return SpecificationVocabulary(), true
	case Extended:
		return ExtendedVocabulary(), true
	}
	return Vocabulary{}, false
}

// canonicalPairs spells every pair in normal form, the smaller type first,
// sorted and without repetitions.
func canonicalPairs(pairs [][2]string) [][2]string {
	out := make([][2]string, 0, len(pairs))
	for _, p := range pairs {
		a, b := fold.Type(p[0]), fold.Type(p[1])
		out = append(out, [2]string{min(a, b), max(a, b)})
	}
	slices.SortFunc(out, func(p, q [2]string) int { return slices.Compare(p[:], q[:]) })
	return slices.Compact(out)
}

// canonicalTypes spells every type in normal form, sorted, once.
func canonicalTypes(types []string) []string {
	out := make([]string, 0, len(types))
	for _, t := range types {
		out = append(out, fold.Type(t))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
