package extraction_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// capitals is an Extractor of a program of its own: words that begin with a capital letter.
type capitals struct{}

func (capitals) Extract(_ context.Context, doc extraction.Document) (
	found extraction.Extraction, calls []outcome.Call, err error,
) {
	for _, word := range strings.Fields(doc.Text) {
		if word != strings.ToLower(word) {
			found.Entities = append(found.Entities, extraction.Entity{Name: strings.Trim(word, "."), Type: "Person"})
		}
	}
	return found, nil, nil
}

// This example measures an extractor of one's own with the scores of the command. Such a run can be
// compared with runs of the command over the same items.
func Example() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	items := filepath.Join(folder, "items.jsonl")
	const item = `{"document_text": "Ada was born in London.", "expectedOutput": ` +
		`{"entities": [{"name": "Ada", "type": "Person"}, {"name": "London", "type": "City"}]}}`
	if err := os.WriteFile(items, []byte(item), 0o600); err != nil {
		log.Fatal(err)
	}
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	options, err := json.Marshal(scoring.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	result, err := experiment.Run(context.Background(), experiment.Config{
		Header:  outcome.Header{Name: "capitals-v1", Harness: harness.Name, Scorer: harness.ScorerInfo(options)},
		Dataset: items,
		Task:    &harness.Task{Extractor: capitals{}},
		Scorer:  harness.Scorer{Rules: rules},
		Path:    filepath.Join(folder, "capitals-v1.run"), // without it, below .experiment/runs
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"entity_f1", "type_accuracy"} {
		score, _ := result.Summary.Scores.Lookup(name)
		fmt.Println(name, *score.Mean)
	}
	// Output:
	// entity_f1 1
	// type_accuracy 0.5
}
