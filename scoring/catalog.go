package scoring

import (
	"cmp"
	"fmt"
	"slices"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Names of the scores, as they are recorded.
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
	// GroundedRate is the share of the extracted entities that occur in the document: an entity with
	// quotes if at least one quote occurs, any other if its name or an alias does. It is in [0, 1],
	// higher is better. It needs the document, but no expected output: harness/extraction calculates it.
	GroundedRate = "grounded_rate"
)

// Headlines returns the scores that every run publishes in Langfuse: those of the specification,
// plus relationship recall and F1, since relationship_accuracy is only a precision. Another list
// needs a new outcome.PublicationForm.
func Headlines() []string {
	return []string{EntityPrecision, EntityRecall, EntityF1, RelationshipAccuracy, RelationshipRecall, RelationshipF1, TypeAccuracy}
}

// Family is the list that a score is about.
type Family string

// Families of scores.
const (
	EntityFamily       Family = "entities"
	RelationshipFamily Family = "relationships"
	ItemFamily         Family = "item"
)

// Definition describes one score.
type Definition struct {
	Name    string
	Family  Family
	Meaning string // one sentence for users
	Boolean bool   // the score is 0 or 1 and means no or yes

	// The score is numerator / denominator[0], or 2·numerator / (denominator[0] +
	// denominator[1]). All are names of counts.
	numerator     string
	denominator   []string
	extraCounts   []string // further counts that are recorded with the score
	numeratorText string   // what the numerator counts, in words for the comment of the score
}

// Catalog returns the definitions of all scores in the order in which they are recorded and
// shown: those of the specification first.
func Catalog() []Definition {
	entities := []string{"expected_entities", "extracted_entities"}
	relationships := []string{"expected_relationships", "extracted_relationships"}
	return []Definition{
		{Name: EntityPrecision, Family: EntityFamily, Meaning: "How much of what was extracted is right.",
			numerator: "matched_entities", denominator: entities[1:], numeratorText: "extracted entities matched"},
		{Name: EntityRecall, Family: EntityFamily, Meaning: "How much of what was expected was found.",
			numerator: "matched_entities", denominator: entities[:1], numeratorText: "expected entities matched"},
		{Name: EntityF1, Family: EntityFamily, Meaning: "Precision and recall in one number, their harmonic mean.",
			numerator: "matched_entities", denominator: entities, numeratorText: "matched"},
		{Name: RelationshipAccuracy, Family: RelationshipFamily, Meaning: "How much of what was extracted is right: a precision. " +
			"Read it beside relationship_recall; one sure statement out of many expected gives 1.",
			numerator: "correct_relationships", denominator: relationships[1:], numeratorText: "extracted relationships correct",
			extraCounts: []string{"rel_exact", "rel_inverse", "rel_fuzzy", "rel_inverse_fuzzy"}},
		{Name: TypeAccuracy, Family: EntityFamily, Meaning: "How many of the matched entities have the expected type; " +
			"pairs whose expected entity has no type are left out.",
			numerator: "type_correct", denominator: []string{"type_judged"}, numeratorText: "judged types correct",
			extraCounts: []string{"matched_entities"}},
		{Name: RelationshipRecall, Family: RelationshipFamily, Meaning: "How much of what was expected was found.",
			numerator: "correct_relationships", denominator: relationships[:1], numeratorText: "expected relationships found"},
		{Name: RelationshipF1, Family: RelationshipFamily, Meaning: "Relationship accuracy and recall in one number.",
			numerator: "correct_relationships", denominator: relationships, numeratorText: "correct"},
		{Name: EntityExactF1, Family: EntityFamily, Meaning: "Entity F1 where only equal names count; " +
			"the difference to entity_f1 is what fuzzy matching adds.",
			numerator: "exact_entities", denominator: entities, numeratorText: "of equal name"},
		{Name: EntityTypedF1, Family: EntityFamily, Meaning: "Entity F1 where only pairs of the expected type count.",
			numerator: "type_correct", denominator: entities, numeratorText: "of correct type"},
		{Name: EntityStrictF1, Family: EntityFamily, Meaning: "Entity F1 where only pairs of equal name and expected type count.",
			numerator: "strict_entities", denominator: entities, numeratorText: "of equal name and correct type"},
		{Name: ItemPerfect, Family: ItemFamily, Boolean: true, Meaning: "Whether nothing is wrong: for tests of paired yes/no results."},
	}
}

// ratio calculates the score from the counts.
func (d Definition) ratio(counts map[string]int64) *outcome.Ratio {
	n, m := counts[d.numerator], counts[d.denominator[0]]
	if len(d.denominator) == 2 {
		n, m = 2*n, m+counts[d.denominator[1]]
	}
	return &outcome.Ratio{Num: n, Den: m}
}

// comment writes the calculation in words.
func (d Definition) comment(counts map[string]int64) string {
	n, m := counts[d.numerator], counts[d.denominator[0]]
	if len(d.denominator) == 1 {
		return fmt.Sprintf("%d/%d %s", n, m, d.numeratorText)
	}
	return fmt.Sprintf("%d %s of %d expected and %d extracted", n, d.numeratorText, m, counts[d.denominator[1]])
}

// countsOf returns the counts that are recorded with the score.
func (d Definition) countsOf(counts map[string]int64) outcome.Counts {
	list := make(outcome.Counts, 0, 1+len(d.denominator)+len(d.extraCounts))
	list.Set(d.numerator, counts[d.numerator])
	for _, names := range [2][]string{d.denominator, d.extraCounts} {
		for _, name := range names {
			list.Set(name, counts[name])
		}
	}
	return list
}

// typed reports whether the score counts pairs of the expected type, of all entities: it needs
// expected types. Without any, type_accuracy has a reason of its own.
func (d Definition) typed() bool {
	return d.Name != TypeAccuracy && (d.numerator == "type_correct" || d.numerator == "strict_entities")
}

// Counts are the numbers from which all scores are calculated. A family is nil if the expected
// output does not annotate it.
type Counts struct {
	Entities      *EntityCounts
	Relationships *RelationshipCounts
}

// EntityCounts are the counts of entities.
type EntityCounts struct {
	Expected  int64
	Extracted int64
	Matched   int64
	// Exact counts pairs with equal normalised names, or an equal alias.
	Exact int64
	// TypeJudged counts pairs whose expected entity has a type.
	TypeJudged  int64
	TypeCorrect int64
	// Strict counts pairs with an exact name and the correct type.
	Strict int64
}

// RelationshipCounts are the counts of relationships. Correct is the sum of the four ways to
// match.
type RelationshipCounts struct {
	Expected     int64
	Extracted    int64
	Correct      int64
	Exact        int64
	Inverse      int64
	Fuzzy        int64
	InverseFuzzy int64
}

// namedCount is one count with its name. It is undefined if its family is not annotated.
type namedCount struct {
	name    string
	value   int64
	defined bool
}

// list returns all counts in the order of the documentation.
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

// Map returns the counts of the annotated families by name.
func (c Counts) Map() map[string]int64 {
	m := map[string]int64{}
	for _, n := range c.list() {
		if n.defined {
			m[n.name] = n.value
		}
	}
	return m
}

// MarshalJSON writes one flat object with all names. The counts of a family that is not annotated
// are null.
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

// untyped is the name of the group without a type.
const untyped = "(no type)"

// addGroups appends the groups whose counts are not all 0. byType and types are indexed by the
// number of the type.
func (r *Result) addGroups(kind string, byType []outcome.Group, types []string) {
	r.Groups = slices.Grow(r.Groups, len(byType))
	for typ, group := range byType {
		if group.Expected+group.Extracted > 0 {
			group.Kind, group.Name = kind, cmp.Or(types[typ], untyped)
			r.Groups = append(r.Groups, group)
		}
	}
}
