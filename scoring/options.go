package scoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/internal/fold"
)

// Dedupe says what happens to repeated entities and statements.
type Dedupe string

// The ways to treat repetitions.
const (
	// KeepAll counts every repetition: one of them matches, the others are
	// wrong.
	KeepAll Dedupe = "none"
	// Exact collapses, on both sides, entities of equal name and type, and
	// statements of the same fact: the same triple, the swapped triple of a
	// symmetric type, or the inverse statement. The first is kept; it has the
	// aliases, and stands for the wordings, of all that it replaces.
	Exact Dedupe = "exact"
)

// Options decide what counts as a match. DefaultOptions returns the ones of
// the specification; the zero value is not valid, because it has no threshold.
type Options struct {
	// Normalise is how names are spelled before they are compared; empty is
	// NFKCCaseFold.
	Normalise Normalisation
	// Threshold is the decimal text of a number from 0 to 1, compared exactly.
	// Two different names match if their similarity is greater.
	Threshold string
	// ThresholdInclusive lets a similarity that equals the threshold match too.
	ThresholdInclusive bool
	// FoldDiacritics makes é equal e.
	FoldDiacritics bool
	// FuzzyEntities matches entities whose names are similar but not equal.
	FuzzyEntities bool
	// FuzzyRelationships matches statements whose ends are similar but not equal.
	FuzzyRelationships bool
	// Initials matches "J. Smith" with "John Smith", wherever similar names
	// match. It changes nothing where fuzzy matching is off.
	Initials bool
	// DigitsEqual keeps similar names apart whose digits differ: "Apollo 11"
	// and "Apollo 12".
	DigitsEqual bool
	// Inverse and Symmetric are the relation tables, see Vocabulary. Nil and
	// empty mean that there are none.
	Inverse   [][2]string
	Symmetric []string
	// TypeAliases names types that are one type ("PER": "Person"), of
	// entities and of relationships alike. Types connected by any number of
	// entries are one, in whatever direction they are written.
	TypeAliases map[string]string
	// Dedupe is what happens to repetitions; empty is KeepAll.
	Dedupe Dedupe
}

// DefaultOptions returns the options of the specification: names case-folded,
// more than 0.85 similar, fuzzy matching on, 14 inverse pairs and 9 symmetric
// types, repetitions counted.
func DefaultOptions() Options {
	v := SpecificationVocabulary()
	return Options{
		Normalise:          NFKCCaseFold,
		Threshold:          "0.85",
		FuzzyEntities:      true,
		FuzzyRelationships: true,
		Inverse:            v.Inverse,
		Symmetric:          v.Symmetric,
		Dedupe:             KeepAll,
	}
}

// OptionsError says everything that is wrong with options.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return "scoring options: " + e.Err.Error() }

// Unwrap returns the joined problems.
func (e *OptionsError) Unwrap() error { return e.Err }

// ExitCode is 64: malformed input.
func (e *OptionsError) ExitCode() int { return 64 }

// Validate returns nil, or an *OptionsError with every problem at once.
func (o Options) Validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Normalisation{"", NFKCCaseFold, Lower, None}, o.Normalise) {
		add("normalise %q: choose %s, %s or %s", shorten(string(o.Normalise)), NFKCCaseFold, Lower, None)
	}
	if !slices.Contains([]Dedupe{"", KeepAll, Exact}, o.Dedupe) {
		add("dedupe %q: choose %s or %s", shorten(string(o.Dedupe)), KeepAll, Exact)
	}
	if _, err := parseThreshold(o.Threshold); err != nil {
		problems = append(problems, err)
	}
	for _, pair := range o.Inverse {
		if fold.Type(pair[0]) == "" || fold.Type(pair[1]) == "" {
			add("inverse: the pair %q has an empty type", pair)
		}
	}
	for i, symmetric := range o.Symmetric {
		if fold.Type(symmetric) == "" {
			add("symmetric[%d]: the type is empty", i)
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(o.TypeAliases)) {
		if fold.Type(alias) == "" || fold.Type(o.TypeAliases[alias]) == "" {
			add("type_aliases: the entry %q: %q has an empty type", alias, o.TypeAliases[alias])
		}
	}
	if len(problems) > 0 {
		return &OptionsError{errors.Join(problems...)}
	}
	return nil
}

// MarshalJSON writes the options in one canonical form: every option is
// present, the threshold is its shortest text, tables are in normal spelling,
// sorted, and called by their name where they are a known one. Options that
// mean the same give the same bytes, and ParseOptions reads them back.
func (o Options) MarshalJSON() ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := parseThreshold(o.Threshold)
	if err != nil {
		return nil, err
	}
	aliases := oneTypeOf(o.TypeAliases)
	maps.DeleteFunc(aliases, func(alias, to string) bool { return alias == to })
	return json.Marshal(struct {
		Normalise          Normalisation     `json:"normalise"`
		Threshold          string            `json:"threshold"`
		ThresholdInclusive bool              `json:"threshold_inclusive"`
		FoldDiacritics     bool              `json:"fold_diacritics"`
		FuzzyEntities      bool              `json:"fuzzy_entities"`
		FuzzyRelationships bool              `json:"fuzzy_relationships"`
		Initials           bool              `json:"initials"`
		DigitsEqual        bool              `json:"digits_equal"`
		Inverse            any               `json:"inverse"`
		Symmetric          any               `json:"symmetric"`
		TypeAliases        map[string]string `json:"type_aliases"`
		Dedupe             Dedupe            `json:"dedupe"`
	}{
		orDefault(o.Normalise, NFKCCaseFold), t.String(), o.ThresholdInclusive, o.FoldDiacritics,
		o.FuzzyEntities, o.FuzzyRelationships, o.Initials, o.DigitsEqual,
		nameOfPairs(canonicalPairs(o.Inverse)), nameOfTypes(canonicalTypes(o.Symmetric)),
		aliases, orDefault(o.Dedupe, KeepAll),
	})
}

func orDefault[T ~string](value, fallback T) T {
	if value == "" {
		return fallback
	}
	return value
}

func nameOfPairs(pairs [][2]string) any {
	for _, name := range []string{Specification, Extended} {
		if v, _ := vocabularyByName(name); slices.Equal(pairs, canonicalPairs(v.Inverse)) {
			return name
		}
	}
	return pairs
}

func nameOfTypes(types []string) any {
	for _, name := range []string{Specification, Extended} {
		if v, _ := vocabularyByName(name); slices.Equal(types, canonicalTypes(v.Symmetric)) {
			return name
		}
	}
	return types
}
