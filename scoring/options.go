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

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
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

// optionsError says everything that is wrong with options; it has exit code 64.
func optionsError(err error) error { return cli.Usage("scoring options: %w", err) }

// Validate returns nil, or an error of exit code 64 with every problem at once.
func (o Options) Validate() error {
	_, err := o.check()
	return err
}

// check is Validate, and returns the threshold.
func (o Options) check() (threshold, error) {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Normalisation{"", NFKCCaseFold, Lower, None}, o.Normalise) {
		add("normalise %q: choose %s, %s or %s", shorten(string(o.Normalise)), NFKCCaseFold, Lower, None)
	}
	if !slices.Contains([]Dedupe{"", KeepAll, Exact}, o.Dedupe) {
		add("dedupe %q: choose %s or %s", shorten(string(o.Dedupe)), KeepAll, Exact)
	}
	t, err := parseThreshold(o.Threshold)
	problems = append(problems, err)
	types := slices.Clone(o.Symmetric)
	for _, pair := range o.Inverse {
		types = append(types, pair[:]...)
	}
	for alias, to := range o.TypeAliases {
		types = append(types, alias, to)
	}
	if slices.ContainsFunc(types, func(typ string) bool { return textutil.FoldType(typ) == "" }) {
		add("inverse, symmetric, type_aliases: there is an empty type")
	}
	if err := errors.Join(problems...); err != nil {
		return threshold{}, optionsError(err)
	}
	t.inclusive = o.ThresholdInclusive
	return t, nil
}

// MarshalJSON writes the options in one canonical form: every option is
// present, the threshold is its shortest text, tables are in normal spelling,
// sorted, and called by their name where they are a known one. Options that
// mean the same give the same bytes, and ParseOptions reads them back.
func (o Options) MarshalJSON() ([]byte, error) {
	t, err := o.check()
	if err != nil {
		return nil, err
	}
	o.Normalise, o.Dedupe, o.Threshold = cmp.Or(o.Normalise, NFKCCaseFold), cmp.Or(o.Dedupe, KeepAll), t.text
	o.Inverse, o.Symmetric, o.TypeAliases = canonicalPairs(o.Inverse), canonicalTypes(o.Symmetric), oneTypeOf(o.TypeAliases)
	maps.DeleteFunc(o.TypeAliases, func(alias, to string) bool { return alias == to })
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, option := range o.list() {
		w.Value(option.name, named(option.value))
	}
	w.Close()
	return w.B, w.Err
}

// maxDecimals is how many decimals a threshold may have; with them every
// comparison fits 128 bits.
const maxDecimals = 18

// threshold is a decimal fraction, kept as integers: floating point decides
// equality wrongly for many thresholds and lengths.
type threshold struct {
	text      string // the shortest
	num, den  uint64
	inclusive bool
}

// parseThreshold reads the decimal text of a number from 0 to 1.
func parseThreshold(text string) (threshold, error) {
	wrong := fmt.Errorf("threshold %q: expected a number from 0 to 1 with at most %d decimals, such as 0.85",
		shorten(text), maxDecimals)
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "e")
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if err != nil || max(shift, -shift) > maxDecimals || len(mantissa) > 100 || strings.Trim(mantissa, "0123456789.") != "" {
		return threshold{}, wrong // before it is computed: 1e-999999999 is long
	}
	value, ok := new(big.Rat).SetString(mantissa + "e" + strconv.Itoa(shift))
	if !ok || value.Cmp(big.NewRat(1, 1)) > 0 {
		return threshold{}, wrong
	}
	decimals, _ := value.FloatPrec()
	if decimals > maxDecimals {
		return threshold{}, wrong
	}
	return threshold{text: value.FloatString(decimals), num: value.Num().Uint64(), den: value.Denom().Uint64()}, nil
}

// moreThan is the threshold that only higher similarities exceed.
func moreThan(s similarity) threshold { return threshold{num: uint64(s.num), den: uint64(s.den)} }

// maxDistance returns the largest edit distance d at which two names, the
// longer of which has m code points, are similar enough: (m-d)/m > threshold,
// or >= where it is inclusive. It is -1 where no distance is.
func (t threshold) maxDistance(m int) int {
	// (m-d)·den > num·m  ⇔  d < m·(den-num)/den. The quotient is at most m,
	// so that the 128-bit division cannot overflow.
	hi, lo := bits.Mul64(uint64(m), t.den-t.num)
	quotient, rest := bits.Div64(hi, lo, t.den)
	if !t.inclusive && rest == 0 {
		return int(quotient) - 1
	}
	return int(quotient)
}

// exceeded reports whether a similarity of edits is enough.
func (t threshold) exceeded(s similarity) bool { return int(s.den-s.num) <= t.maxDistance(int(s.den)) }

// shorten cuts text that goes into a message.
func shorten(s string) string { return textutil.Cut(s, 40) }

// The allowances of one call, in steps of very roughly one nanosecond. They
// are counted, not timed, and spent in an order that depends on content only,
// so that the same lists always stop at the same place.
const (
	// searchAllowance bounds the search for similar names, per family. About
	// 30,000 names against 30,000 without any equal ones fit.
	searchAllowance = 1_000_000_000
	// editCost is charged for each step of an edit distance.
	editCost = 3
	// edgeCost is charged for each pair found, which bounds their memory: at
	// most two million of them.
	edgeCost = 500
	// assignAllowance bounds the assignment, per family.
	assignAllowance = 500_000_000
	// arcLimit bounds the memory of one assignment.
	arcLimit = 2_000_000
	// unitLimit keeps the digits of a gain apart, see gain.
	unitLimit = 1 << 17
	// nearestEdits is how many edits away the nearest miss may be.
	nearestEdits = 200
	// nearestAllowance bounds the search for the nearest misses, which
	// explain and never count.
	nearestAllowance = 50_000_000
)

// budget is an allowance that is being spent.
type budget struct{ left int64 }

// spend takes n steps and reports whether the allowance covered them.
func (b *budget) spend(n int) bool {
	b.left -= int64(n)
	return b.left >= 0
}

func (b *budget) exhausted() bool { return b.left < 0 }

// covers reports whether an edit distance within limit is covered, and uses
// the allowance up if it is not.
func (b *budget) covers(limit int) bool {
	if int64(limit)*int64(limit) <= b.left {
		return true
	}
	b.left = -1
	return false
}

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

// ExtendedVocabulary returns the tables of the specification and the pairs
// that existing systems use beside them.
func ExtendedVocabulary() Vocabulary {
	v := SpecificationVocabulary()
	v.Inverse = append(v.Inverse, [][2]string{
		{"belongs_to", "has"}, {"precedes", "follows"}, {"causes", "caused_by"}, {"lives_in", "inhabited_by"},
	}...)
	v.Symmetric = append(v.Symmetric, "similar_to", "linked_to")
	return v
}

// vocabularies returns the tables by their names in the options.
func vocabularies() map[string]Vocabulary {
	return map[string]Vocabulary{Specification: SpecificationVocabulary(), Extended: ExtendedVocabulary()}
}

// canonicalPairs spells every pair in normal form, the smaller type first,
// sorted and without repetitions.
func canonicalPairs(pairs [][2]string) [][2]string {
	out := make([][2]string, 0, len(pairs))
	for _, p := range pairs {
		a, b := textutil.FoldType(p[0]), textutil.FoldType(p[1])
		out = append(out, [2]string{min(a, b), max(a, b)})
	}
	slices.SortFunc(out, func(p, q [2]string) int { return slices.Compare(p[:], q[:]) })
	return slices.Compact(out)
}

// canonicalTypes spells every type in normal form, sorted, once; it is never nil.
func canonicalTypes(types []string) []string {
	return sortedSet(append([]string{}, cli.Each(types, textutil.FoldType)...))
}
