package html

import (
	"math"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// bins is how many bars a distribution has, over [0,1]; a value of 1 is in the
// last.
const bins = 20

// tally counts what the overview of one run shows and its summary does not say.
type tally struct {
	distributions map[string]*[bins]int
	entities      *confusion
	relationships *confusion
}

func newTally(s outcome.Summary) *tally {
	t := &tally{distributions: map[string]*[bins]int{}, entities: newConfusion(), relationships: newConfusion()}
	for _, score := range s.Scores {
		t.distributions[score.Name] = &[bins]int{}
	}
	return t
}

func (t *tally) add(v report.ItemView) {
	seen := map[string]bool{}
	for _, s := range v.Outcome.Scores {
		d := t.distributions[s.Name]
		value := s.Value
		if value == nil && v.Outcome.Failed() {
			value = new(float64) // failed items count as 0
		}
		if d == nil || value == nil || seen[s.Name] || math.IsNaN(*value) {
			continue
		}
		seen[s.Name] = true
		d[binOf(*value)]++
	}
	t.confuse(v)
}

func binOf(v float64) int { return int(min(bins-1, max(0, math.Floor(v*bins)))) }

// confuse counts which type was expected and which one was extracted. A
// relationship that matched by an inverse type counts as of the expected type.
func (t *tally) confuse(v report.ItemView) {
	for _, m := range v.Matches {
		switch m.What {
		case "entity":
			t.entities.add(entityType(v.Expected, m.ExpectedIndex), entityType(v.Extracted, m.ExtractedIndex))
		case "relationship":
			typ := relationshipType(v.Expected, m.ExpectedIndex)
			t.relationships.add(typ, typ)
		}
	}
	mistyped := map[[2]int]bool{} // side and index
	for _, f := range v.Faults {
		if f.Cause == "wrong_relationship_type" && f.ExpectedIndex != nil && f.ExtractedIndex != nil {
			mistyped[[2]int{0, *f.ExpectedIndex}], mistyped[[2]int{1, *f.ExtractedIndex}] = true, true
			t.relationships.add(relationshipType(v.Expected, *f.ExpectedIndex), relationshipType(v.Extracted, *f.ExtractedIndex))
		}
	}
	for side, misses := range [][]report.Miss{v.Missed, v.Spurious} {
		for _, m := range misses {
			switch {
			case ofAnswer(m.What):
			case m.What == "entity" && side == 0:
				t.entities.add(entityType(v.Expected, m.Index), nowhere)
			case m.What == "entity":
				t.entities.add(nowhere, entityType(v.Extracted, m.Index))
			case mistyped[[2]int{side, m.Index}]:
			case side == 0:
				t.relationships.add(relationshipType(v.Expected, m.Index), nowhere)
			default:
				t.relationships.add(nowhere, relationshipType(v.Extracted, m.Index))
			}
		}
	}
}

func entityType(e *extraction.Extraction, i int) string {
	if e == nil || i < 0 || i >= len(e.Entities) {
		return ""
	}
	return fold.Type(e.Entities[i].Type)
}

func relationshipType(e *extraction.Extraction, i int) string {
	if e == nil || i < 0 || i >= len(e.Relationships) {
		return ""
	}
	return fold.Type(e.Relationships[i].Type)
}
