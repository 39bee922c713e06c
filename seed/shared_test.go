package seed

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
)

// The public data is good gold: nothing is wrong with it, and what is odd is
// known. Three statements of documents60 stand there in both directions although
// their types are not symmetric, two of them between names of the same thing.
func TestCheck_sharedData(t *testing.T) {
	tests := map[string]struct {
		items    int
		warnings map[Kind]int
	}{
		"documents60.jsonl": {60, map[Kind]int{Contradicts: 3}},
		"sentences22.jsonl": {22, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := "../../shared/data/" + name
			if _, err := os.Stat(path); err != nil {
				t.Skipf("%s is not here", name)
			}
			report, err := Check(dataset.ReadFile(t.Context(), path), Config{Vocabulary: vocabulary()})
			if err != nil || report.Err() != nil {
				t.Fatalf("%v, %v", err, report.Err())
			}
			if report.Items != tt.items {
				t.Errorf("%d items, want %d", report.Items, tt.items)
			}
			if diff := cmp.Diff(tt.warnings, report.Warnings.Kinds); diff != "" {
				t.Error(diff)
				for _, f := range report.Warnings.First[:min(30, len(report.Warnings.First))] {
					t.Log(f)
				}
			}
		})
	}
}

// vocabulary is a small part of the specification's tables.
func vocabulary() Vocabulary {
	return Vocabulary{
		Inverse: [][2]string{{"parent_of", "child_of"}, {"employs", "employed_by"}, {"contains", "contained_in"},
			{"located_in", "contains_location"}, {"member_of", "has_member"}, {"created", "created_by"}},
		Symmetric: []string{"married_to", "sibling_of", "partnered_with"},
	}
}
