package scoring

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// Dedupe is the treatment of repeated entities and statements.
type Dedupe string

// Treatments of repetitions.
const (
	// KeepAll counts every repetition: at most one of the equal things matches, the others are
	// wrong.
	KeepAll Dedupe = "none"
	// CollapseExact collapses, on both sides, entities of equal name and type, and statements of the same
	// fact: the same triple, the swapped triple of a symmetric type, or the inverse statement.
	// The first is kept. It gets the aliases and wordings of all that it replaces.
	CollapseExact Dedupe = "exact"
)

// Options decide what counts as a match. DefaultOptions returns those of the specification. The
// zero value is not valid, since it has no threshold.
type Options struct {
	// Normalise is how names are normalised before they are compared; "" is NFKCCaseFold.
	Normalise Normalisation
	// Threshold is the decimal text of a number from 0 to 1 with at most 18 decimals. Two
	// different names match if their similarity is greater. The comparison is exact.
	Threshold string
	// ThresholdInclusive matches names whose similarity equals the threshold, too.
	ThresholdInclusive bool
	// FoldDiacritics makes é equal to e.
	FoldDiacritics bool
	// FuzzyEntities matches entities whose names are similar but not equal.
	FuzzyEntities bool
	// FuzzyRelationships matches statements whose ends are similar but not equal.
	FuzzyRelationships bool
	// Initials matches "J. Smith" with "John Smith". It has no effect where fuzzy matching is
	// off.
	Initials bool
	// DigitsEqual does not match similar names with different digits, like "Apollo 11" and
	// "Apollo 12".
	DigitsEqual bool
	// Inverse and Symmetric are the relation tables of an extraction.Vocabulary; nil and empty tables are
	// equal.
	Inverse   [][2]string
	Symmetric []string
	// TypeAliases maps types to the type that they are the same as ("PER": "Person"), for
	// entities and relationships. All types connected by entries, in either direction, are one
	// type.
	TypeAliases map[string]string
	// Dedupe is the treatment of repetitions; "" is KeepAll.
	Dedupe Dedupe
}

// DefaultOptions returns the options of the specification: NFKCCaseFold, similarity above 0.85,
// fuzzy matching, 14 inverse pairs and 9 symmetric types, and KeepAll.
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

// optionsError wraps the problems of options in an error with exit code 64.
func optionsError(err error) error { return cli.Usage("scoring options: %w", err) }

// check returns the threshold, or all problems of the options as one error with exit code 64.
func (o Options) check() (threshold, error) {
	var problems textutil.Problems
	problems.Add(!slices.Contains([]Normalisation{"", NFKCCaseFold, Lower, NoNormalisation}, o.Normalise),
		"normalise %q: choose %s, %s or %s", shorten(string(o.Normalise)), NFKCCaseFold, Lower, NoNormalisation)
	problems.Add(!slices.Contains([]Dedupe{"", KeepAll, CollapseExact}, o.Dedupe),
		"dedupe %q: choose %s or %s", shorten(string(o.Dedupe)), KeepAll, CollapseExact)
	t, err := parseThreshold(o.Threshold)
	problems.Join(err)
	types := slices.Clone(o.Symmetric)
	for _, pair := range o.Inverse {
		types = append(types, pair[:]...)
	}
	for alias, to := range o.TypeAliases {
		types = append(types, alias, to)
	}
	problems.Add(slices.ContainsFunc(types, func(typ string) bool { return textutil.FoldType(typ) == "" }),
		"inverse, symmetric, type_aliases: there is an empty type")
	if err := errors.Join(problems...); err != nil {
		return threshold{}, optionsError(err)
	}
	t.inclusive = o.ThresholdInclusive
	return t, nil
}

// MarshalJSON writes the options in a canonical form: every option is present, the threshold is
// its shortest text, and tables are normalised, sorted, and replaced by their name if they are a
// known vocabulary. Options that differ in spelling and order only have equal bytes; types that
// TypeAliases equates stay apart. ParseOptions reads them. Invalid options are an error.
func (o Options) MarshalJSON() ([]byte, error) {
	t, err := o.check()
	if err != nil {
		return nil, err
	}
	o.Normalise, o.Dedupe, o.Threshold = cmp.Or(o.Normalise, NFKCCaseFold), cmp.Or(o.Dedupe, KeepAll), t.text
	o.Inverse, o.Symmetric = canonicalPairs(o.Inverse), canonicalTypes(o.Symmetric)
	o.TypeAliases = resolveAliases(o.TypeAliases)
	maps.DeleteFunc(o.TypeAliases, func(alias, to string) bool { return alias == to })
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, option := range o.list() {
		w.Value(option.name, tableName(option.value))
	}
	w.Close()
	return w.B, w.Err
}

// maxDecimals is the most decimals of a threshold. With them, every comparison fits in 128 bits.
const maxDecimals = 18

// threshold is a decimal fraction in integers, since floating point decides equality wrongly for
// many thresholds and lengths.
type threshold struct {
	text      string // the shortest decimal text
	num, den  uint64
	inclusive bool
}

// parseThreshold reads the decimal text of a number from 0 to 1.
func parseThreshold(text string) (threshold, error) {
	invalid := fmt.Errorf("threshold %q: expected a number from 0 to 1 with at most %d decimals, such as 0.85",
		shorten(text), maxDecimals)
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "e")
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if err != nil || scientific && exponent == "" || max(shift, -shift) > maxDecimals || len(mantissa) > 100 || strings.Trim(mantissa, "0123456789.") != "" {
		return threshold{}, invalid // before SetString, which expands 1e-999999999
	}
	value, ok := new(big.Rat).SetString(mantissa + "e" + strconv.Itoa(shift))
	if !ok || value.Cmp(big.NewRat(1, 1)) > 0 {
		return threshold{}, invalid
	}
	decimals, _ := value.FloatPrec()
	if decimals > maxDecimals {
		return threshold{}, invalid
	}
	return threshold{text: value.FloatString(decimals), num: value.Num().Uint64(), den: value.Denom().Uint64()}, nil
}

// thresholdAt returns the threshold that similarities above s exceed.
func thresholdAt(s similarity) threshold { return threshold{num: uint64(s.num), den: uint64(s.den)} }

// maxDistance returns the largest edit distance d at which two names match if the longer has m
// code points: (m-d)/m > threshold, or >= if the threshold is inclusive. It returns -1 if there
// is none.
func (t threshold) maxDistance(m int) int {
	// (m-d)·den > num·m  ⇔  d < m·(den-num)/den. The quotient is at most m, so the 128-bit
	// division cannot overflow.
	hi, lo := bits.Mul64(uint64(m), t.den-t.num)
	quotient, rest := bits.Div64(hi, lo, t.den)
	if !t.inclusive && rest == 0 {
		return int(quotient) - 1
	}
	return int(quotient)
}

// matches reports whether a similarity by edit distance is enough for a match.
func (t threshold) matches(s similarity) bool { return int(s.den-s.num) <= t.maxDistance(int(s.den)) }

// shorten cuts text for a message.
func shorten(s string) string { return textutil.Cut(s, 40) }

// Allowances of one call, in steps of roughly one nanosecond. Steps are counted, not timed, and are
// spent in an order that depends on content only, so the same lists always stop at the same place.
const (
	// searchAllowance bounds the search for similar names of a family. It suffices for about
	// 30,000 names against 30,000 others.
	searchAllowance = 1_000_000_000
	// editCost is charged for each step of an edit distance.
	editCost = 3
	// edgeCost is charged for each pair found. It bounds the memory: at most two million pairs.
	edgeCost = 500
	// assignAllowance bounds the assignment of a family.
	assignAllowance = 500_000_000
	// arcLimit bounds the memory of one assignment.
	arcLimit = 2_000_000
	// unitLimit keeps the counts of a gain within their fields.
	unitLimit = 1 << 17
	// nearestEdits is the most edits between a miss and its nearest counterpart.
	nearestEdits = 200
	// nearestAllowance bounds the search for the nearest counterparts of misses, which no score
	// depends on.
	nearestAllowance = 50_000_000
)

// budget is what is left of an allowance.
type budget struct{ left int64 }

// spend takes n steps and reports whether the allowance covered them.
func (b *budget) spend(n int) bool {
	b.left -= int64(n)
	return b.left >= 0
}

func (b *budget) exhausted() bool { return b.left < 0 }

// covers reports whether the budget is enough for an edit distance of at most limit. If it is
// not, covers exhausts the budget.
func (b *budget) covers(limit int) bool {
	if int64(limit)*int64(limit) <= b.left {
		return true
	}
	b.left = -1
	return false
}

// Names of vocabularies in the JSON form of Options.
const (
	// Specification is the name of SpecificationVocabulary, the default.
	Specification = "specification"
	// Extended is the name of ExtendedVocabulary.
	Extended = "extended"
)

// SpecificationVocabulary returns the tables of the specification: 14 inverse pairs and 9
// symmetric types.
func SpecificationVocabulary() extraction.Vocabulary {
	return extraction.Vocabulary{
		Inverse: [][2]string{
			{"parent_of", "child_of"}, {"employs", "employed_by"}, {"contains", "contained_in"},
			{"owns", "owned_by"}, {"manages", "managed_by"}, {"created", "created_by"},
			{"supervises", "supervised_by"}, {"leads", "led_by"}, {"member_of", "has_member"},
			{"located_in", "contains_location"}, {"lived_in", "was_residence_of"},
			{"born_in", "birthplace_of"}, {"died_in", "deathplace_of"}, {"originated_from", "origin_of"},
		},
		Symmetric: []string{
			"married_to", "sibling_of", "related_to", "colleague_of", "friend_of",
			"neighbor_of", "connected_to", "associated_with", "partnered_with",
		},
	}
}

// ExtendedVocabulary returns the tables of the specification with 4 more inverse pairs and 2 more
// symmetric types that existing systems use.
func ExtendedVocabulary() extraction.Vocabulary {
	v := SpecificationVocabulary()
	v.Inverse = append(v.Inverse, [][2]string{
		{"belongs_to", "has"}, {"precedes", "follows"}, {"causes", "caused_by"}, {"lives_in", "inhabited_by"},
	}...)
	v.Symmetric = append(v.Symmetric, "similar_to", "linked_to")
	return v
}

// vocabularies returns the vocabularies by their names.
func vocabularies() map[string]extraction.Vocabulary {
	return map[string]extraction.Vocabulary{Specification: SpecificationVocabulary(), Extended: ExtendedVocabulary()}
}

// canonicalPairs normalises the types, puts the smaller type of each pair first, sorts the pairs
// and removes repetitions.
func canonicalPairs(pairs [][2]string) [][2]string {
	out := make([][2]string, 0, len(pairs))
	for _, p := range pairs {
		a, b := textutil.FoldType(p[0]), textutil.FoldType(p[1])
		out = append(out, [2]string{min(a, b), max(a, b)})
	}
	slices.SortFunc(out, func(p, q [2]string) int { return slices.Compare(p[:], q[:]) })
	return slices.Compact(out)
}

// canonicalTypes returns the normalised types, sorted and without repetitions. The result is not
// nil.
func canonicalTypes(types []string) []string {
	return sortedSet(append([]string{}, cli.Each(types, textutil.FoldType)...))
}
