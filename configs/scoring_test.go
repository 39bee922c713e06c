package configs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/configs"
	"extraction-experiment/scoring"
)

// TestRelations keeps the file that users copy equal to the scorer's default.
func TestRelations(t *testing.T) {
	raw, err := configs.LoadScoring("relations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	empty := scoring.DefaultOptions()
	empty.Inverse, empty.Symmetric = nil, nil
	got, err := scoring.ParseOptions(raw, empty)
	if err != nil {
		t.Fatal(err)
	}
	want := scoring.SpecificationVocabulary()
	if diff := cmp.Diff(want, scoring.Vocabulary{Inverse: got.Inverse, Symmetric: got.Symmetric}); diff != "" {
		t.Error(diff)
	}
}

// TestExperimentFile_scoring hands the options of the example to the scorer.
func TestExperimentFile_scoring(t *testing.T) {
	e, err := configs.Load("experiment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := e.ScoringJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scoring.ParseOptions(raw, scoring.DefaultOptions()); err != nil {
		t.Error(err)
	}
}

func TestLoadScoring_problems(t *testing.T) {
	for name, text := range map[string]string{"a.yaml": "- a list\n", "b.yaml": "a: {b\n", "c.yaml": "a: {1: 2}\n? [x]\n: y\n"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if raw, err := configs.LoadScoring(path); err == nil {
			t.Errorf("%s was read as %s", name, raw)
		}
	}
}
