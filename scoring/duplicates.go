package scoring

import "extraction-experiment/extraction"

// Duplicate is a repetition in one list.
type Duplicate struct {
	Index int `json:"index"`
	// Of is the index of the first one of its kind.
	Of int `json:"of"`
	// Collapsed says that the repetition was left out of the counts.
	Collapsed bool `json:"collapsed,omitempty"`
}

// Duplicates are the repetitions of all lists, found whether or not they are
// collapsed: entities of equal normalised name and type, and relationships
// that state the same fact.
type Duplicates struct {
	ExpectedEntities       []Duplicate `json:"expected_entities,omitempty"`
	ExtractedEntities      []Duplicate `json:"extracted_entities,omitempty"`
	ExpectedRelationships  []Duplicate `json:"expected_relationships,omitempty"`
	ExtractedRelationships []Duplicate `json:"extracted_relationships,omitempty"`
}

// Counts returns how many repetitions each list has, by its JSON name with
// "duplicate_" before it; lists without any are left out.
func (d Duplicates) Counts() map[string]int64 {
	counts := map[string]int64{}
	for name, list := range map[string][]Duplicate{
		"duplicate_expected_entities":       d.ExpectedEntities,
		"duplicate_extracted_entities":      d.ExtractedEntities,
		"duplicate_expected_relationships":  d.ExpectedRelationships,
		"duplicate_extracted_relationships": d.ExtractedRelationships,
	} {
		if len(list) > 0 {
			counts[name] = int64(len(list))
		}
	}
	return counts
}

// duplicates finds the repetitions of all four lists.
func (c *call) duplicates(d *Duplicates) {
	d.ExpectedEntities = c.repeatedEntities(c.expected.given.Entities)
	d.ExtractedEntities = c.repeatedEntities(c.extracted.given.Entities)
	d.ExpectedRelationships = c.repeatedFacts(c.expected.given.Relationships)
	d.ExtractedRelationships = c.repeatedFacts(c.extracted.given.Relationships)
	if n := len(d.ExpectedEntities) + len(d.ExpectedRelationships); n > 0 && c.options.Dedupe != Exact {
		c.warn("expected: %s another; only one of them can match each extracted one", counted(n, "entry repeats", "entries repeat"))
	}
}

func (c *call) repeatedEntities(list []extraction.Entity) []Duplicate {
	first := map[[2]int]int{}
	var repeated []Duplicate
	for i, e := range list {
		key := [2]int{c.names.id(e.Name), c.types.id(e.Type)}
		if of, ok := first[key]; ok {
			repeated = append(repeated, Duplicate{i, of, c.options.Dedupe == Exact})
			continue
		}
		first[key] = i
	}
	return repeated
}

func (c *call) repeatedFacts(list []extraction.Relationship) []Duplicate {
	var repeated []Duplicate
	for i, of := range c.sameFacts(list) {
		if of != i {
			repeated = append(repeated, Duplicate{i, of, c.options.Dedupe == Exact})
		}
	}
	return repeated
}

// sameFacts returns for each relationship the first one that states the same
// fact, itself included.
func (c *call) sameFacts(list []extraction.Relationship) []int {
	type fact struct {
		form
		sourceRef, targetRef string
	}
	set := newDisjointSet(len(list))
	at := map[fact]int{}
	for i, r := range list {
		f := fact{c.formOf(r), r.SourceRef, r.TargetRef}
		if first, ok := at[f]; ok {
			set.join(first, i)
			continue
		}
		at[f] = i
	}
	for f, i := range at {
		turned := fact{f.swapped(), f.targetRef, f.sourceRef}
		for _, typ := range c.reversals(f.typ) {
			turned.typ = typ
			if j, ok := at[turned]; ok {
				set.join(i, j)
			}
		}
	}
	first := make([]int, len(list))
	for i := range list {
		first[i] = set.find(i)
	}
	return first
}
