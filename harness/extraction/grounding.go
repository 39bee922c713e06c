package extraction

import (
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/ground"
)

// GroundedRate is the share of the extracted entities that stand in the document:
// one that carries quotes if at least one of them occurs, any other if its name or
// an alias does. 0 to 1, more is better. It needs no expected output, only the
// document.
const GroundedRate = "grounded_rate"

// InventedRate is a score that runs of older versions have: 1 less
// GroundedRate, but for entities that occur with another quote. Less is better.
const InventedRate = "invented_rate"

// inventedEntities counts, behind GroundedRate, the entities of which neither a
// quote, nor the name, nor an alias occurs.
const inventedEntities = "invented_entities"

// Grounding returns GroundedRate of what was extracted from a document; of nothing
// it is undefined. It looks for every entity as ground.Locate does: white space,
// case and the like do not matter. Time is linear but for logarithms.
func Grounding(document string, found extraction.Extraction) outcome.Score {
	index := ground.NewIndex(document)
	quoted, standing, invented := 0, 0, 0
	for _, e := range found.Entities {
		_, report := index.Ground(extraction.Extraction{Entities: []extraction.Entity{e}})
		invented += len(report.Invented)
		lost := len(report.Lost)
		switch {
		case len(e.Mentions) > 0:
			quoted++
			if lost < len(e.Mentions) {
				standing++
			}
		case len(report.Grounded) > 0:
			standing++
		}
	}
	n := len(found.Entities)
	if n == 0 {
		return outcome.Score{Name: GroundedRate, Reason: "nothing was extracted that could stand in the document"}
	}
	value := float64(standing) / float64(n)
	return outcome.Score{
		Name: GroundedRate, Value: &value, Ratio: &outcome.Ratio{Num: int64(standing), Den: int64(n)},
		Counts:  map[string]int64{inventedEntities: int64(invented)},
		Comment: fmt.Sprintf("%d/%d extracted entities stand in the document (%d with quotes, %d by name); %d occur nowhere in it", standing, n, quoted, n-quoted, invented),
	}
}
