package scoring

import (
	"cmp"
	"fmt"
	"slices"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// The names of the scores, as they are recorded.
const (
	EntityPrecision      = "entity_precision"
	EntityRecall         = "entity_recall"
	EntityF1             = "entity_f1"
	RelationshipAccuracy = "relationship_accuracy"
	TypeAccuracy         = "type_accuracy"
	RelationshipRecall   = "relationship_recall"
	RelationshipF1       = "relationship_f1"
	EntityExactF1        = "entity_exact_f1"
	EntityTypedF1        = "entity_typed_f1"
	EntityStrictF1       = "entity_strict_f1"
	ItemPerfect          = "item_perfect"
)

// Headlines returns the most important scores, if there is no room for all: those of the
// specification, and the recall and F1 that its relationship_accuracy, a precision, lacks.
func Headlines() []string {
	return []string{EntityPrecision, EntityRecall, EntityF1, RelationshipAccuracy, RelationshipRecall, RelationshipF1, TypeAccuracy}
}

// Family says which list a score is about.
type Family string

// The families of scores.
const (
	EntityFamily       Family = "entities"
	RelationshipFamily Family = "relationships"
	ItemFamily         Family = "item"
)

// Definition says what a score means.
type Definition struct {
	Name    string
	Family  Family
	Meaning string // one sentence for people
	Boolean bool   // the score is 0 or 1 and means no or yes

	// The score is numerator / denominator, or 2·numerator / the sum of two
	// denominators, all of them names of counts.
	numerator   string
	denominator []string
	also        []string // counts that stand with the score as well
	matched     string   // how its comment calls what the numerator counts
}

// Catalog returns the definition of every score, in the order in which they
// are given and shown: those of the specification first.
func Catalog() []Definition {
	entities := []string{"expected_entities", "extracted_entities"}
	relationships := []string{"expected_relationships", "extracted_relationships"}
	return []Definition{
		{Name: EntityPrecision, Family: EntityFamily, Meaning: "How much of what was extracted is right.",
			numerator: "matched_entities", denominator: entities[1:], matched: "extracted entities matched"},
		{Name: EntityRecall, Family: EntityFamily, Meaning: "How much of what was expected was found.",
			numerator: "matched_entities", denominator: entities[:1], matched: "expected entities matched"},
		{Name: EntityF1, Family: EntityFamily, Meaning: "Precision and recall in one number, their harmonic mean.",
			numerator: "matched_entities", denominator: entities, matched: "matched"},
		{Name: RelationshipAccuracy, Family: RelationshipFamily, Meaning: "How much of what was extracted is right: a precision. " +
			"Read it beside relationship_recall; one sure statement out of many expected gives 1.",
			numerator: "correct_relationships", denominator: relationships[1:], matched: "extracted relationships correct",
			also: []string{"rel_exact", "rel_inverse", "rel_fuzzy", "rel_inverse_fuzzy"}},
		{Name: TypeAccuracy, Family: EntityFamily, Meaning: "How many of the matched entities have the expected type; " +
			"pairs whose expected entity has no type are left out.",
			numerator: "type_correct", denominator: []string{"type_judged"}, matched: "judged types correct",
			also: []string{"matched_entities"}},
		{Name: RelationshipRecall, Family: RelationshipFamily, Meaning: "How much of what was expected was found.",
			numerator: "correct_relationships", denominator: relationships[:1], matched: "expected relationships found"},
		{Name: RelationshipF1, Family: RelationshipFamily, Meaning: "Relationship accuracy and recall in one number.",
			numerator: "correct_relationships", denominator: relationships, matched: "correct"},
		{Name: EntityExactF1, Family: EntityFamily, Meaning: "Entity F1 where only equal names count; " +
			"the difference to entity_f1 is what fuzzy matching adds.",
			numerator: "exact_entities", denominator: entities, matched: "of equal name"},
		{Name: EntityTypedF1, Family: EntityFamily, Meaning: "Entity F1 where only pairs of the expected type count.",
			numerator: "type_correct", denominator: entities, matched: "of correct type"},
		{Name: EntityStrictF1, Family: EntityFamily, Meaning: "Entity F1 where only pairs of equal name and expected type count.",
			numerator: "strict_entities", denominator: entities, matched: "of equal name and correct type"},
		{Name: ItemPerfect, Family: ItemFamily, Boolean: true, Meaning: "Whether nothing is wrong: for tests of paired yes/no results."},
	}
}

// ratio returns the score of the counts.
func (d Definition) ratio(counts map[string]int64) *outcome.Ratio {
	n, m := counts[d.numerator], counts[d.denominator[0]]
	if len(d.denominator) == 2 {
		n, m = 2*n, m+counts[d.denominator[1]]
	}
	return &outcome.Ratio{Num: n, Den: m}
}

// comment says in words what the score is made of.
func (d Definition) comment(counts map[string]int64) string {
	n, m := counts[d.numerator], counts[d.denominator[0]]
	if len(d.denominator) == 1 {
		return fmt.Sprintf("%d/%d %s", n, m, d.matched)
	}
	return fmt.Sprintf("%d %s of %d expected and %d extracted", n, d.matched, m, counts[d.denominator[1]])
}

// countsOf returns the counts that stand with the score.
func (d Definition) countsOf(counts map[string]int64) outcome.Counts {
	of := make(outcome.Counts, 0, 1+len(d.denominator)+len(d.also))
	of.Set(d.numerator, counts[d.numerator])
	for _, names := range [2][]string{d.denominator, d.also} {
		for _, name := range names {
			of.Set(name, counts[name])
		}
	}
	return of
}

// typed reports whether the score is an F1 of entities that counts only pairs of
// the expected type.
func (d Definition) typed() bool { return d.Name == EntityTypedF1 || d.Name == EntityStrictF1 }

// Counts are the integers that all scores are made of. A family is nil where
// the expected output does not annotate it.
type Counts struct {
	Entities      *EntityCounts
	Relationships *RelationshipCounts
}

// EntityCounts are the counts of entities.
type EntityCounts struct {
	Expected  int64
	Extracted int64
	Matched   int64
	// Exact were matched with equal normalised names (or aliases).
	Exact int64
	// TypeJudged were matched and the expected entity has a type.
	TypeJudged  int64
	TypeCorrect int64
	// Strict have an exact name and the correct type.
	Strict int64
}

// RelationshipCounts are the counts of relationships; Correct is the sum of
// the four ways to match.
type RelationshipCounts struct {
	Expected     int64
	Extracted    int64
	Correct      int64
	Exact        int64
	Inverse      int64
	Fuzzy        int64
	InverseFuzzy int64
}

// namedCount is one count with its name; it is not defined where its family is not
// annotated.
type namedCount struct {
	name    string
	value   int64
	defined bool
}

// list returns every count in the order of the documentation.
func (c Counts) list() []namedCount {
	entities, relationships := c.Entities != nil, c.Relationships != nil
	e, r := cmp.Or(c.Entities, &EntityCounts{}), cmp.Or(c.Relationships, &RelationshipCounts{})
	return []namedCount{
		{"expected_entities", e.Expected, entities}, {"extracted_entities", e.Extracted, entities},
		{"matched_entities", e.Matched, entities}, {"exact_entities", e.Exact, entities},
		{"type_judged", e.TypeJudged, entities}, {"type_correct", e.TypeCorrect, entities},
		{"strict_entities", e.Strict, entities},
		{"expected_relationships", r.Expected, relationships}, {"extracted_relationships", r.Extracted, relationships},
		{"correct_relationships", r.Correct, relationships}, {"rel_exact", r.Exact, relationships},
		{"rel_inverse", r.Inverse, relationships}, {"rel_fuzzy", r.Fuzzy, relationships},
		{"rel_inverse_fuzzy", r.InverseFuzzy, relationships},
	}
}

// Map returns the counts that are defined, by name.
func (c Counts) Map() map[string]int64 {
	m := map[string]int64{}
	for _, n := range c.list() {
		if n.defined {
			m[n.name] = n.value
		}
	}
	return m
}

// MarshalJSON writes one flat object with every name; the counts of a family
// that is not annotated are null.
func (c Counts) MarshalJSON() ([]byte, error) {
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, n := range c.list() {
		if n.defined {
			w.Int(n.name, n.value)
		} else {
			w.Value(n.name, nil)
		}
	}
	w.Close()
	return w.B, w.Err
}

// untyped is the group of what has no type.
const untyped = "(no type)"

// addGroups names the groups that count anything, by their types, and adds them.
func (r *Result) addGroups(kind string, byType []outcome.Group, types []string) {
	r.Groups = slices.Grow(r.Groups, len(byType))
	for typ, group := range byType {
		if group.Expected+group.Extracted > 0 {
			group.Kind, group.Name = kind, cmp.Or(types[typ], untyped)
			r.Groups = append(r.Groups, group)
		}
	}
}
