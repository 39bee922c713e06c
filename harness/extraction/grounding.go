package extraction

import (
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/ground"
)

// The scores of grounding. They need no expected output, only the document.
const (
	// GroundedRate is the share of the extracted entities that stand in the
	// document: one that carries quotes if at least one of them occurs, any
	// other if its name or an alias does. 0 to 1, more is better.
	GroundedRate = "grounded_rate"
	// InventedRate is the share of which neither a quote, nor the name, nor an
	// alias occurs. 0 to 1, less is better.
	InventedRate = "invented_rate"
)

// GroundingScores lists them in the order in which they are shown.
func GroundingScores() []string { return []string{GroundedRate, InventedRate} }

// LowerIsBetter lists the scores of this harness of which less is better.
func LowerIsBetter() []string { return []string{InventedRate} }

// nothingExtracted is the reason why a score of grounding has no value.
const nothingExtracted = "nothing was extracted that could stand in the document"

// Grounding returns GroundedRate and InventedRate of what was extracted from a
// document. It looks for every entity as ground.Locate does: white space, case and
// the like do not matter. Time is linear but for logarithms.
func Grounding(document string, found extraction.Extraction) []outcome.Score {
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
	how := fmt.Sprintf("%d/%d extracted entities stand in the document (%d with quotes, %d by name)", standing, n, quoted, n-quoted)
	return []outcome.Score{
		groundingScore(GroundedRate, standing, n, how),
		groundingScore(InventedRate, invented, n, fmt.Sprintf("%d/%d extracted entities do not occur in the document", invented, n)),
	}
}

// groundingScore makes a score; of nothing it is undefined.
func groundingScore(name string, num, den int, comment string) outcome.Score {
	if den == 0 {
		return outcome.Score{Name: name, OutputOnly: true, Reason: nothingExtracted}
	}
	value := float64(num) / float64(den)
	return outcome.Score{Name: name, OutputOnly: true, Value: &value, Ratio: &outcome.Ratio{Num: int64(num), Den: int64(den)}, Comment: comment}
}
