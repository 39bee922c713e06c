package scoring

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
	Formula string // in the names of the counts
	Unit    string
	Range   string
	// HigherIsBetter is the direction; it holds for every score here.
	HigherIsBetter bool
	// Boolean scores are 0 or 1 and mean no or yes.
	Boolean bool
	// Empty says what 0/0 is.
	Empty string
	// Source says where the score comes from.
	Source string

	numerator   func(Counts) int64
	denominator func(Counts) int64
	counts      []string // the counts that stand with the score
	comment     string   // how they read
}

const (
	emptyOne = "1 when nothing is expected and nothing extracted (marked vacuous), otherwise 0"
	bySpec   = "specification, Extraction Quality Metrics"
	own      = "this project"
)

// Catalog returns the definition of every score, in the order in which they
// are given and shown.
func Catalog() []Definition {
	entities := func(f func(*EntityCounts) int64) func(Counts) int64 {
		return func(c Counts) int64 { return f(c.Entities) }
	}
	relationships := func(f func(*RelationshipCounts) int64) func(Counts) int64 {
		return func(c Counts) int64 { return f(c.Relationships) }
	}
	bothEntities := entities(func(e *EntityCounts) int64 { return e.Expected + e.Extracted })
	bothRelationships := relationships(func(r *RelationshipCounts) int64 { return r.Expected + r.Extracted })
	correct := relationships(func(r *RelationshipCounts) int64 { return r.Correct })
	matched := entities(func(e *EntityCounts) int64 { return e.Matched })
	list := []Definition{
		{
			Name: EntityPrecision, Meaning: "How much of what was extracted is right.",
			Formula: "matched_entities / extracted_entities", Source: bySpec,
			numerator: matched, denominator: entities(func(e *EntityCounts) int64 { return e.Extracted }),
			counts: []string{"matched_entities", "extracted_entities"}, comment: "{matched_entities}/{extracted_entities} extracted entities matched",
		},
		{
			Name: EntityRecall, Meaning: "How much of what was expected was found.",
			Formula: "matched_entities / expected_entities", Source: bySpec,
			numerator: matched, denominator: entities(func(e *EntityCounts) int64 { return e.Expected }),
			counts: []string{"matched_entities", "expected_entities"}, comment: "{matched_entities}/{expected_entities} expected entities matched",
		},
		{
			Name: EntityF1, Meaning: "Precision and recall in one number, their harmonic mean.",
			Formula: "2·matched_entities / (expected_entities + extracted_entities)", Source: bySpec,
			numerator: twice(matched), denominator: bothEntities,
			counts: []string{"matched_entities", "expected_entities", "extracted_entities"}, comment: "{matched_entities} matched of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: RelationshipAccuracy, Meaning: "How much of what was extracted is right: a precision. Read it beside relationship_recall; one sure statement out of many expected gives 1.",
			Formula: "correct_relationships / extracted_relationships", Source: bySpec,
			numerator: correct, denominator: relationships(func(r *RelationshipCounts) int64 { return r.Extracted }),
			counts: []string{"correct_relationships", "extracted_relationships", "rel_exact", "rel_inverse", "rel_fuzzy", "rel_inverse_fuzzy"}, comment: "{correct_relationships}/{extracted_relationships} extracted relationships correct",
		},
		{
			Name: TypeAccuracy, Meaning: "How many of the matched entities have the expected type; pairs whose expected entity has no type are left out.",
			Formula: "type_correct / type_judged", Source: bySpec,
			Empty:     "undefined: no value, with a reason",
			numerator: entities(func(e *EntityCounts) int64 { return e.TypeCorrect }), denominator: entities(func(e *EntityCounts) int64 { return e.TypeJudged }),
			counts: []string{"type_correct", "type_judged", "matched_entities"}, comment: "{type_correct}/{type_judged} judged types correct",
		},
		{
			Name: RelationshipRecall, Meaning: "How much of what was expected was found.",
			Formula: "correct_relationships / expected_relationships", Source: own,
			numerator: correct, denominator: relationships(func(r *RelationshipCounts) int64 { return r.Expected }),
			counts: []string{"correct_relationships", "expected_relationships"}, comment: "{correct_relationships}/{expected_relationships} expected relationships found",
		},
		{
			Name: RelationshipF1, Meaning: "Relationship accuracy and recall in one number.",
			Formula: "2·correct_relationships / (expected_relationships + extracted_relationships)", Source: own,
			numerator: twice(correct), denominator: bothRelationships,
			counts: []string{"correct_relationships", "expected_relationships", "extracted_relationships"}, comment: "{correct_relationships} correct of {expected_relationships} expected and {extracted_relationships} extracted",
		},
		{
			Name: EntityExactF1, Meaning: "Entity F1 where only equal names count; the difference to entity_f1 is what fuzzy matching adds.",
			Formula: "2·exact_entities / (expected_entities + extracted_entities)", Source: own,
			numerator: twice(entities(func(e *EntityCounts) int64 { return e.Exact })), denominator: bothEntities,
			counts: []string{"exact_entities", "expected_entities", "extracted_entities"}, comment: "{exact_entities} of equal name of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: EntityTypedF1, Meaning: "Entity F1 where only pairs of the expected type count.",
			Formula: "2·type_correct / (expected_entities + extracted_entities)", Source: own,
			numerator: twice(entities(func(e *EntityCounts) int64 { return e.TypeCorrect })), denominator: bothEntities,
			counts: []string{"type_correct", "expected_entities", "extracted_entities"}, comment: "{type_correct} of correct type of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: EntityStrictF1, Meaning: "Entity F1 where only pairs of equal name and expected type count.",
			Formula: "2·strict_entities / (expected_entities + extracted_entities)", Source: own,
			numerator: twice(entities(func(e *EntityCounts) int64 { return e.Strict })), denominator: bothEntities,
			counts: []string{"strict_entities", "expected_entities", "extracted_entities"}, comment: "{strict_entities} of equal name and correct type of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: ItemPerfect, Family: ItemFamily, Boolean: true, Meaning: "Whether nothing is wrong: for tests of paired yes/no results.",
			Formula: "entity_f1 = 1 and relationship_f1 = 1, where annotated, and type_accuracy is 1 or undefined", Source: own,
			Empty: "undefined when neither family is annotated; vacuous when all that is annotated is",
		},
	}
	return completed(list)
}

// completed fills in what most definitions share.
func completed(list []Definition) []Definition {
	for i := range list {
		d := &list[i]
		d.HigherIsBetter = true
		d.Unit, d.Range = "ratio", "0 to 1"
		if d.Boolean {
			d.Unit, d.Range = "yes/no", "0 or 1"
		}
		if d.Empty == "" {
			d.Empty = emptyOne
		}
		if d.Family == "" {
			d.Family = EntityFamily
			if d.Name == RelationshipAccuracy || d.Name == RelationshipRecall || d.Name == RelationshipF1 {
				d.Family = RelationshipFamily
			}
		}
	}
	return list
}

func twice(f func(Counts) int64) func(Counts) int64 {
	return func(c Counts) int64 { return 2 * f(c) }
}
