package scoring

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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
