package extraction

import "extraction-experiment/scoring"

// Explanation is what an outcome keeps of a judgement beside its numbers: what
// was matched with what, and what was not and why.
type Explanation struct {
	Entities              []scoring.EntityMatch       `json:"entities"`
	Relationships         []scoring.RelationshipMatch `json:"relationships"`
	MissedEntities        []scoring.EntityMiss        `json:"missed_entities,omitempty"`
	SpuriousEntities      []scoring.EntityMiss        `json:"spurious_entities,omitempty"`
	MissedRelationships   []scoring.RelationshipMiss  `json:"missed_relationships,omitempty"`
	SpuriousRelationships []scoring.RelationshipMiss  `json:"spurious_relationships,omitempty"`
	Duplicates            scoring.Duplicates          `json:"duplicates,omitzero"`
}

func explain(r scoring.Result) Explanation {
	return Explanation{
		r.Entities, r.Relationships,
		r.MissedEntities, r.SpuriousEntities,
		r.MissedRelationships, r.SpuriousRelationships,
		r.Duplicates,
	}
}
