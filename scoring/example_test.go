package scoring_test

import (
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/scoring"
)

func Example() {
	scorer, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		panic(err)
	}
	expected := extraction.Extraction{Entities: []extraction.Entity{{Name: "Ada Lovelace"}, {Name: "London"}}}
	extracted := extraction.Extraction{Entities: []extraction.Entity{{Name: "ada lovelace"}}}
	for _, s := range scorer.Score(expected, extracted).Scores[:3] {
		fmt.Println(s.Name, *s.Value, s.Comment)
	}
	// Output:
	// entity_precision 1 1/1 extracted entities matched
	// entity_recall 0.5 1/2 expected entities matched
	// entity_f1 0.6666666666666666 1 matched of 2 expected and 1 extracted
}
