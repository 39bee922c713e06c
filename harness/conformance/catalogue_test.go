package conformance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/evaluator"
	"extraction-experiment/extraction"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/scoring"
)

func newScorer(t testing.TB) *scoring.Scorer {
	t.Helper()
	s, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCatalogue certifies every score on its fixtures. Scores without fixtures and fixtures
// without a score are errors.
func TestCatalogue(t *testing.T) {
	files, err := filepath.Glob("catalogue/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scores := cli.Each(scoring.Catalog(), func(d scoring.Definition) string { return d.Name })
	for _, name := range append(scores, scoring.GroundedRate) {
		path := filepath.Join("catalogue", name+".yaml")
		at := slices.Index(files, path)
		if at < 0 {
			t.Errorf("the score %s has no fixtures: write harness/conformance/%s", name, path)
			continue
		}
		files = slices.Delete(files, at, at+1)
		set, err := conformance.Read(path)
		if err != nil || set.Evaluator.Scorer != name {
			t.Errorf("%s: %v, it is for %q", path, err, set.Evaluator.Scorer)
			continue
		}
		b, err := conformance.NewBuiltin(name, newScorer(t))
		if err != nil {
			t.Fatal(err)
		}
		r, err := conformance.Run(t.Context(), conformance.Config{Evaluator: b, Fixtures: set.Fixtures, Runs: 10})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[conformance.Label]int{}
		for _, f := range r.Fixtures {
			labels[f.Label]++
			if !f.Pass || *f.Variance != 0 {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if len(labels) != 3 {
			t.Errorf("%s: fixtures of every label are needed, there are %v", name, labels)
		}
	}
	if len(files) > 0 {
		t.Errorf("fixtures for no score: %v", files)
	}
}

var (
	entityNames       = []string{"Ann Lee", "Ann Lea", "ANN LEE", "Acme Corporation", "Acme Corporatoin", "Jon Smith", "John Smith", "北京大学", "Müller", "Zebra"}
	entityTypes       = []string{"Person", "person", "Organization", "Place", ""}
	relationshipTypes = []string{"works_for", "employs", "parent_of", "child_of", "married_to", "knows"}
)

func drawExtraction(t *rapid.T, label string, types []string) extraction.Extraction {
	e := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for i := range rapid.IntRange(0, 5).Draw(t, label+" entities") {
		l := fmt.Sprint(label, " entity ", i)
		e.Entities = append(e.Entities, extraction.Entity{Name: rapid.SampledFrom(entityNames).Draw(t, l), Type: rapid.SampledFrom(types).Draw(t, l+" type")})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, label+" relationships") {
		l := fmt.Sprint(label, " relationship ", i)
		e.Relationships = append(e.Relationships, extraction.Relationship{
			Source: rapid.SampledFrom(entityNames).Draw(t, l), Target: rapid.SampledFrom(entityNames).Draw(t, l+" target"), Type: rapid.SampledFrom(relationshipTypes).Draw(t, l+" type"),
		})
	}
	return e
}

// scoreValues returns the values of all defined scores of a pair.
func scoreValues(t testing.TB, scorer *scoring.Scorer, expected, extracted extraction.Extraction) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, s := range scorer.Score(expected, extracted).Scores {
		if s.Value != nil {
			values[s.Name] = *s.Value
		}
	}
	return values
}

// mirrored maps a score to the one that has its value if the two sides are swapped.
var mirrored = map[string]string{
	scoring.EntityPrecision: scoring.EntityRecall, scoring.EntityRecall: scoring.EntityPrecision,
	scoring.RelationshipAccuracy: scoring.RelationshipRecall, scoring.RelationshipRecall: scoring.RelationshipAccuracy,
	scoring.EntityF1: scoring.EntityF1, scoring.RelationshipF1: scoring.RelationshipF1, scoring.EntityExactF1: scoring.EntityExactF1,
}

// TestCatalogue_properties checks for every score that it is within its bounds, that the order of
// lists does not matter, that gold against itself scores 1 if defined, that swapping the sides
// swaps precision and recall and keeps F1, and that an unexpected entity and relationship never
// raise it.
func TestCatalogue_properties(t *testing.T) {
	scorer := newScorer(t)
	rapid.Check(t, func(rt *rapid.T) {
		// Every expected entity has a type: without one, typed scores of gold against itself are
		// below 1.
		expected, extracted := drawExtraction(rt, "expected", entityTypes[:4]), drawExtraction(rt, "extracted", entityTypes)
		seed := rapid.Uint64().Draw(rt, "seed")
		got := scoreValues(t, scorer, expected, extracted)
		for name, v := range got {
			if !(v >= 0 && v <= 1) || name == scoring.ItemPerfect && v != 0 && v != 1 {
				rt.Fatalf("%s is %v", name, v)
			}
		}
		checkEqual(rt, "shuffled", got, scoreValues(t, scorer, shuffled(expected, seed), shuffled(extracted, seed+1)), nil)
		for name, v := range scoreValues(t, scorer, expected, expected) {
			if v != 1 {
				rt.Fatalf("gold against itself: %s is %v", name, v)
			}
		}
		checkEqual(rt, "swapped", got, scoreValues(t, scorer, extracted, expected), mirrored)
		more := extraction.Extraction{
			Entities:      append(slices.Clone(extracted.Entities), extraction.Entity{Name: "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", Type: "Person"}),
			Relationships: append(slices.Clone(extracted.Relationships), extraction.Relationship{Source: "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", Target: "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", Type: "invented"}),
		}
		for name, v := range scoreValues(t, scorer, expected, more) {
			if before, ok := got[name]; ok && v > before {
				rt.Fatalf("noise raised %s from %v to %v", name, before, v)
			}
		}
	})
}

// checkEqual compares scores of a with those of b under the mapped names, or all if names is nil.
func checkEqual(t *rapid.T, what string, a, b map[string]float64, names map[string]string) {
	for name, v := range a {
		other := name
		if names != nil {
			if other = names[name]; other == "" {
				continue
			}
		}
		if w, ok := b[other]; !ok || v != w {
			t.Fatalf("%s: %s is %v, %s is %v (%v)", what, name, v, other, w, ok)
		}
	}
}

func shuffled(e extraction.Extraction, seed uint64) extraction.Extraction {
	r := rand.New(rand.NewPCG(seed, 1))
	e.Entities, e.Relationships = slices.Clone(e.Entities), slices.Clone(e.Relationships)
	r.Shuffle(len(e.Entities), func(i, j int) { e.Entities[i], e.Entities[j] = e.Entities[j], e.Entities[i] })
	r.Shuffle(len(e.Relationships), func(i, j int) {
		e.Relationships[i], e.Relationships[j] = e.Relationships[j], e.Relationships[i]
	})
	return e
}

func TestBuiltin_faults(t *testing.T) {
	if _, err := conformance.NewBuiltin("entity_f0", newScorer(t)); cli.ExitCode(err) != 64 {
		t.Errorf("an unknown score: %v", err)
	}
	b, err := conformance.NewBuiltin("type_accuracy", newScorer(t))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := json.Marshal(extraction.Extraction{Entities: []extraction.Entity{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]evaluator.Case{
		"undefined": {Reference: string(empty), Candidate: string(empty)}, "no gold": {Candidate: string(empty)}, "no answer": {Reference: string(empty), Candidate: "7"},
	} {
		if v, err := b.Evaluate(t.Context(), c); err == nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
