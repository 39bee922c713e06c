package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline/chunk"
	"extraction-experiment/scoring"
)

func Example() {
	text := "Ann leads Acme. She lives in Rome.\n\nAcme moved. ANN did not."
	var parts []chunk.Part
	for _, c := range chunk.Split(text, chunk.Config{MaxRunes: 40}) {
		var found extraction.Extraction
		for _, name := range []string{"Ann", "ANN", "Acme", "Rome"} {
			if strings.Contains(c.Text, name) {
				found.Entities = append(found.Entities, extraction.Entity{Name: name})
			}
		}
		parts = append(parts, chunk.Part{Extraction: found, Chunk: c})
	}
	merged, _ := chunk.Merge(parts, chunk.Vocabulary{})
	fmt.Println(len(parts), "chunks")
	for _, e := range merged.Entities {
		fmt.Println(e.Name)
	}
	// Output:
	// 2 chunks
	// Ann
	// Acme
	// Rome
}

// TestVocabulary_scoring holds that the tables of the scorer can be given.
func TestVocabulary_scoring(t *testing.T) {
	v := chunk.Vocabulary(scoring.SpecificationVocabulary())
	merged, _ := chunk.Merge([]chunk.Part{
		{Extraction: extraction.Extraction{Relationships: []extraction.Relationship{{Source: "A", Target: "B", Type: "parent_of"}}}},
		{Extraction: extraction.Extraction{Relationships: []extraction.Relationship{{Source: "b", Target: "a", Type: "child_of"}}}},
	}, v)
	if len(merged.Relationships) != 1 {
		t.Errorf("parent_of and child_of are not one: %v", merged.Relationships)
	}
}
