package scoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

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

// Headlines returns the scores that say most, for where there is no room for all of
// the catalogue: those of the specification, and what its relationship_accuracy,
// being a precision, lacks.
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
	emptyOne     = "1 when nothing is expected and nothing extracted (marked vacuous), otherwise 0"
	withoutTypes = "; no value, with a reason, where entities are expected and none has a type"
	bySpec       = "specification, Extraction Quality Metrics"
	own          = "this project"
)

// Catalog returns the definition of every score, in the order in which they
// are given and shown: those of the specification first.
func Catalog() []Definition {
	list := append(specified(), added()...)
	for i := range list {
		list[i].complete()
	}
	return list
}

// The numerators and denominators.
func expectedEntities(c Counts) int64       { return c.Entities.Expected }
func extractedEntities(c Counts) int64      { return c.Entities.Extracted }
func bothEntities(c Counts) int64           { return c.Entities.Expected + c.Entities.Extracted }
func matchedEntities(c Counts) int64        { return c.Entities.Matched }
func exactEntities(c Counts) int64          { return c.Entities.Exact }
func strictEntities(c Counts) int64         { return c.Entities.Strict }
func typeJudged(c Counts) int64             { return c.Entities.TypeJudged }
func typeCorrect(c Counts) int64            { return c.Entities.TypeCorrect }
func expectedRelationships(c Counts) int64  { return c.Relationships.Expected }
func extractedRelationships(c Counts) int64 { return c.Relationships.Extracted }
func bothRelationships(c Counts) int64 {
	return c.Relationships.Expected + c.Relationships.Extracted
}
func correctRelationships(c Counts) int64 { return c.Relationships.Correct }

// specified are the five scores of the specification.
func specified() []Definition {
	return []Definition{
		{
			Name: EntityPrecision, Meaning: "How much of what was extracted is right.",
			Formula: "matched_entities / extracted_entities", Source: bySpec,
			numerator: matchedEntities, denominator: extractedEntities,
			counts: []string{"matched_entities", "extracted_entities"}, comment: "{matched_entities}/{extracted_entities} extracted entities matched",
		},
		{
			Name: EntityRecall, Meaning: "How much of what was expected was found.",
			Formula: "matched_entities / expected_entities", Source: bySpec,
			numerator: matchedEntities, denominator: expectedEntities,
			counts: []string{"matched_entities", "expected_entities"}, comment: "{matched_entities}/{expected_entities} expected entities matched",
		},
		{
			Name: EntityF1, Meaning: "Precision and recall in one number, their harmonic mean.",
			Formula: "2·matched_entities / (expected_entities + extracted_entities)", Source: bySpec,
			numerator: twice(matchedEntities), denominator: bothEntities,
			counts: []string{"matched_entities", "expected_entities", "extracted_entities"}, comment: "{matched_entities} matched of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: RelationshipAccuracy, Meaning: "How much of what was extracted is right: a precision. Read it beside relationship_recall; one sure statement out of many expected gives 1.",
			Formula: "correct_relationships / extracted_relationships", Source: bySpec,
			numerator: correctRelationships, denominator: extractedRelationships,
			counts: []string{"correct_relationships", "extracted_relationships", "rel_exact", "rel_inverse", "rel_fuzzy", "rel_inverse_fuzzy"}, comment: "{correct_relationships}/{extracted_relationships} extracted relationships correct",
		},
		{
			Name: TypeAccuracy, Meaning: "How many of the matched entities have the expected type; pairs whose expected entity has no type are left out.",
			Formula: "type_correct / type_judged", Source: bySpec,
			Empty:     "undefined: no value, with a reason",
			numerator: typeCorrect, denominator: typeJudged,
			counts: []string{"type_correct", "type_judged", "matched_entities"}, comment: "{type_correct}/{type_judged} judged types correct",
		},
	}
}

// added are the scores that stand beside them.
func added() []Definition {
	return []Definition{
		{
			Name: RelationshipRecall, Meaning: "How much of what was expected was found.",
			Formula: "correct_relationships / expected_relationships", Source: own,
			numerator: correctRelationships, denominator: expectedRelationships,
			counts: []string{"correct_relationships", "expected_relationships"}, comment: "{correct_relationships}/{expected_relationships} expected relationships found",
		},
		{
			Name: RelationshipF1, Meaning: "Relationship accuracy and recall in one number.",
			Formula: "2·correct_relationships / (expected_relationships + extracted_relationships)", Source: own,
			numerator: twice(correctRelationships), denominator: bothRelationships,
			counts: []string{"correct_relationships", "expected_relationships", "extracted_relationships"}, comment: "{correct_relationships} correct of {expected_relationships} expected and {extracted_relationships} extracted",
		},
		{
			Name: EntityExactF1, Meaning: "Entity F1 where only equal names count; the difference to entity_f1 is what fuzzy matching adds.",
			Formula: "2·exact_entities / (expected_entities + extracted_entities)", Source: own,
			numerator: twice(exactEntities), denominator: bothEntities,
			counts: []string{"exact_entities", "expected_entities", "extracted_entities"}, comment: "{exact_entities} of equal name of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: EntityTypedF1, Meaning: "Entity F1 where only pairs of the expected type count.",
			Formula: "2·type_correct / (expected_entities + extracted_entities)", Source: own,
			Empty:     emptyOne + withoutTypes,
			numerator: twice(typeCorrect), denominator: bothEntities,
			counts: []string{"type_correct", "expected_entities", "extracted_entities"}, comment: "{type_correct} of correct type of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: EntityStrictF1, Meaning: "Entity F1 where only pairs of equal name and expected type count.",
			Formula: "2·strict_entities / (expected_entities + extracted_entities)", Source: own,
			Empty:     emptyOne + withoutTypes,
			numerator: twice(strictEntities), denominator: bothEntities,
			counts: []string{"strict_entities", "expected_entities", "extracted_entities"}, comment: "{strict_entities} of equal name and correct type of {expected_entities} expected and {extracted_entities} extracted",
		},
		{
			Name: ItemPerfect, Family: ItemFamily, Boolean: true, Meaning: "Whether nothing is wrong: for tests of paired yes/no results.",
			Formula: "entity_f1 = 1 and relationship_f1 = 1, where annotated, and type_accuracy is 1 or undefined", Source: own,
			Empty: "undefined when neither family is annotated; vacuous when all that is annotated is",
		},
	}
}

// complete fills in what most definitions share.
func (d *Definition) complete() {
	d.HigherIsBetter = true
	d.Unit, d.Range = "ratio", "0 to 1"
	if d.Boolean {
		d.Unit, d.Range = "yes/no", "0 or 1"
	}
	if d.Empty == "" {
		d.Empty = emptyOne
	}
	if d.Family != "" {
		return
	}
	d.Family = EntityFamily
	if d.Name == RelationshipAccuracy || d.Name == RelationshipRecall || d.Name == RelationshipF1 {
		d.Family = RelationshipFamily
	}
}

// typed reports whether the score is an F1 of entities that counts only pairs of
// the expected type.
func (d Definition) typed() bool { return d.Name == EntityTypedF1 || d.Name == EntityStrictF1 }

func twice(f func(Counts) int64) func(Counts) int64 {
	return func(c Counts) int64 { return 2 * f(c) }
}

// Counts are the integers that all scores are made of. A family is nil where
// the expected output does not annotate it.
type Counts struct {
	Entities      *EntityCounts
	Relationships *RelationshipCounts
}

// EntityCounts are the counts of entities.
type EntityCounts struct {
	Expected  int64 `json:"expected_entities"`
	Extracted int64 `json:"extracted_entities"`
	Matched   int64 `json:"matched_entities"`
	// Exact were matched with equal normalised names (or aliases).
	Exact int64 `json:"exact_entities"`
	// TypeJudged were matched and the expected entity has a type.
	TypeJudged  int64 `json:"type_judged"`
	TypeCorrect int64 `json:"type_correct"`
	// Strict have an exact name and the correct type.
	Strict int64 `json:"strict_entities"`
}

// RelationshipCounts are the counts of relationships; Correct is the sum of
// the four ways to match.
type RelationshipCounts struct {
	Expected     int64 `json:"expected_relationships"`
	Extracted    int64 `json:"extracted_relationships"`
	Correct      int64 `json:"correct_relationships"`
	Exact        int64 `json:"rel_exact"`
	Inverse      int64 `json:"rel_inverse"`
	Fuzzy        int64 `json:"rel_fuzzy"`
	InverseFuzzy int64 `json:"rel_inverse_fuzzy"`
}

// named is one count with its name; of is nil where the family is.
type named struct {
	name string
	of   *int64
}

// list returns every count in the order of the documentation.
func (c Counts) list() []named {
	e, r := c.Entities, c.Relationships
	if e == nil {
		e = &EntityCounts{}
	}
	if r == nil {
		r = &RelationshipCounts{}
	}
	all := []named{
		{"expected_entities", &e.Expected}, {"extracted_entities", &e.Extracted},
		{"matched_entities", &e.Matched}, {"exact_entities", &e.Exact},
		{"type_judged", &e.TypeJudged}, {"type_correct", &e.TypeCorrect},
		{"strict_entities", &e.Strict},
		{"expected_relationships", &r.Expected}, {"extracted_relationships", &r.Extracted},
		{"correct_relationships", &r.Correct}, {"rel_exact", &r.Exact},
		{"rel_inverse", &r.Inverse}, {"rel_fuzzy", &r.Fuzzy},
		{"rel_inverse_fuzzy", &r.InverseFuzzy},
	}
	const entityCounts = 7
	for i := range all {
		if i < entityCounts && c.Entities == nil || i >= entityCounts && c.Relationships == nil {
			all[i].of = nil
		}
	}
	return all
}

// Map returns the counts that are defined, by name.
func (c Counts) Map() map[string]int64 {
	m := map[string]int64{}
	for _, n := range c.list() {
		if n.of != nil {
			m[n.name] = *n.of
		}
	}
	return m
}

// MarshalJSON writes one flat object with every name; the counts of a family
// that is not annotated are null.
func (c Counts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range c.list() {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.of == nil {
			fmt.Fprintf(&b, "%q:null", n.name)
		} else {
			fmt.Fprintf(&b, "%q:%d", n.name, *n.of)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON writes; a family whose expected count
// is absent or null is nil.
func (c *Counts) UnmarshalJSON(raw []byte) error {
	var has struct {
		Entities      *int64 `json:"expected_entities"`
		Relationships *int64 `json:"expected_relationships"`
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return fmt.Errorf("reading counts: %w", err)
	}
	*c = Counts{}
	if has.Entities != nil {
		c.Entities = &EntityCounts{}
		if err := json.Unmarshal(raw, c.Entities); err != nil {
			return fmt.Errorf("reading counts of entities: %w", err)
		}
	}
	if has.Relationships != nil {
		c.Relationships = &RelationshipCounts{}
		if err := json.Unmarshal(raw, c.Relationships); err != nil {
			return fmt.Errorf("reading counts of relationships: %w", err)
		}
	}
	return nil
}

// groups counts by type.
type groups struct {
	kind  string
	types *dictionary
	of    map[int]*outcome.Group
}

// untyped is the group of what has no type.
const untyped = "(no type)"

func (c *call) newGroups(kind string) *groups {
	return &groups{kind, c.types, map[int]*outcome.Group{}}
}

func (g *groups) at(typ int) *outcome.Group {
	if g.of[typ] == nil {
		name := g.types.texts[typ]
		if typ == 0 {
			name = untyped
		}
		g.of[typ] = &outcome.Group{Kind: g.kind, Name: name}
	}
	return g.of[typ]
}

func (g *groups) expected(typ int)  { g.at(typ).Expected++ }
func (g *groups) extracted(typ int) { g.at(typ).Extracted++ }
func (g *groups) matched(typ int)   { g.at(typ).Matched++ }

// list returns the groups in the order of their types.
func (g *groups) list() []outcome.Group {
	var types []int
	for typ := range g.of {
		types = append(types, typ)
	}
	slices.Sort(types)
	var list []outcome.Group
	for _, typ := range types {
		list = append(list, *g.of[typ])
	}
	return list
}
