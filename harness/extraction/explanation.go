package extraction

import (
	"cmp"
	"slices"
	"sync"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/ground"
	"extraction-experiment/scoring"
)

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
	// Faults give everything that is wrong a cause.
	Faults []scoring.Fault `json:"faults,omitempty"`
}

func explain(r scoring.Result, document string) Explanation {
	return Explanation{
		r.Entities, r.Relationships,
		r.MissedEntities, r.SpuriousEntities,
		r.MissedRelationships, r.SpuriousRelationships,
		r.Duplicates,
		scoring.Classify(r, contains(document)),
	}
}

// contains looks for names in a document, which is read when the first is asked
// for; without a document, all are there.
func contains(document string) func(string) bool {
	if document == "" {
		return nil
	}
	index := sync.OnceValue(func() *ground.Index { return ground.NewIndex(document) })
	return func(name string) bool {
		_, match := index().Locate(name, 0)
		return match != ground.None
	}
}

// causes counts the faults by kind.
func causes(faults []scoring.Fault) []outcome.Cause {
	type kind struct{ what, name string }
	counts := map[kind]int64{}
	for _, f := range faults {
		counts[kind{f.What, string(f.Cause)}]++
	}
	var list []outcome.Cause
	for k, n := range counts {
		list = append(list, outcome.Cause{What: k.what, Name: k.name, Count: n})
	}
	slices.SortFunc(list, func(a, b outcome.Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}
