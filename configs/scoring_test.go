package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/scoring"
)

// TestRelations checks that relations.yaml equals the default tables of the scorer.
func TestRelations(t *testing.T) {
	raw, err := LoadScoring("relations.yaml")
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
	if diff := cmp.Diff(want, extraction.Vocabulary{Inverse: got.Inverse, Symmetric: got.Symmetric}); diff != "" {
		t.Error(diff)
	}
}

// TestExperimentFile_scoring checks that the scorer accepts the options of the example.
func TestExperimentFile_scoring(t *testing.T) {
	e, err := Load("experiment.yaml")
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
	for text, want := range map[string]string{
		"- a list\n": "where keys with values are expected", "a: {b\n": "line", "a: {1: 2}\n? [x]\n: y\n": "reading",
		"a: 1\na: 2\n": "already defined", "threshold: 0.8\n---\nthreshold: 0.9\n": "one document is expected",
	} {
		path := writeFile(t, text)
		if raw, err := LoadScoring(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q was read as %s, %v; want %q", text, raw, err, want)
		}
	}
}

// TestLoadScoring_empty checks that files with only comments have no options.
func TestLoadScoring_empty(t *testing.T) {
	for _, text := range []string{"", "# threshold: 0.8\n", "null\n"} {
		raw, err := LoadScoring(writeFile(t, text))
		if err != nil || string(raw) != "{}" {
			t.Errorf("%q was read as %s, %v", text, raw, err)
		}
	}
}

// TestScoring_threshold checks that a threshold is the text of the file, which a float64 would round, in a
// file of its own and in that of an experiment.
func TestScoring_threshold(t *testing.T) {
	for text, want := range map[string]string{
		"threshold: 0.888888888888888889\n": `{"threshold":"0.888888888888888889"}`,
		"threshold: 1e-400\n":               `{"threshold":"1e-400"}`,
		"threshold: -0\ninitials: true\n":   `{"initials":true,"threshold":"-0"}`,
		"a: &t 0.50\nthreshold: *t\n":       `{"a":0.5,"threshold":"0.50"}`,
		"threshold: [0.5]\n":                `{"threshold":[0.5]}`,
		"threshold:\n":                      `{"threshold":null}`,
	} {
		own, err := LoadScoring(writeFile(t, text))
		if string(own) != want || err != nil {
			t.Errorf("%q was read as %s, %v; want %s", text, own, err, want)
		}
		e, err := Load(writeFile(t, "scoring:\n  "+strings.ReplaceAll(text, "\n", "\n  ")))
		if nested, err2 := e.ScoringJSON(); string(nested) != want || err != nil || err2 != nil {
			t.Errorf("%q in an experiment was read as %s, %v, %v; want %s", text, nested, err, err2, want)
		}
	}
}
