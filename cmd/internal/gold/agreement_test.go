package gold

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/extraction"
	"extraction-experiment/report"
	"extraction-experiment/scoring"
)

func entities(words ...string) (list []extraction.Entity) {
	list = []extraction.Entity{}
	for i := 0; i < len(words); i += 2 {
		list = append(list, extraction.Entity{Name: words[i], Type: words[i+1]})
	}
	return list
}

func relationships(words ...string) []extraction.Relationship {
	list := []extraction.Relationship{}
	for i := 0; i < len(words); i += 3 {
		list = append(list, extraction.Relationship{Source: words[i], Type: words[i+1], Target: words[i+2]})
	}
	return list
}

func annotatorOf(name string, items map[string]extraction.Extraction) annotator {
	a := annotator{name: name, gold: map[string]annotation{}}
	for id, e := range items {
		a.gold[id] = annotation{Extraction: e}
	}
	return a
}

// TestAgree compares the results for two annotators with results worked out by hand.
//
//	one    A has Ann Lee, Acme, Rome; B has Ann Lee, and Acme with another type: 2 pairs, of 3 and 2, 1 of equal type
//	       A has 1 statement, B has it and another one: 1 pair, of 1 and 2
//	two    both have nothing
//	three  A has Bob, also called Robert; B has Robert. Aliases of expected entities count, those of extracted ones do not:
//	       B against A is 1 pair, of 1 and 1; A against B is none. Only A annotates no relationships
func TestAgree(t *testing.T) {
	bob := extraction.Entity{Name: "Bob", Aliases: []string{"Robert"}}
	a := annotatorOf("a", map[string]extraction.Extraction{
		"one": {Entities: entities("Ann Lee", "person", "Acme", "org", "Rome", "place"),
			Relationships: relationships("Ann Lee", "works_for", "Acme")},
		"two":   {Entities: entities(), Relationships: relationships()},
		"three": {Entities: []extraction.Entity{bob}},
		"four":  {Entities: entities()},
	})
	b := annotatorOf("b", map[string]extraction.Extraction{
		"one": {Entities: entities("Ann Lee", "person", "Acme", "place"),
			Relationships: relationships("Ann Lee", "works_for", "Acme", "Acme", "located_in", "Rome")},
		"two":   {Entities: entities(), Relationships: relationships()},
		"three": {Entities: entities("Robert", ""), Relationships: relationships()},
	})
	got, err := agree(a, b, scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		score        string
		mean, pooled [2]float64 // B against A, A against B
		n            int
	}{
		// (2/2 + 1 + 1/1)/3 and (2/3 + 1 + 0/1)/3; (2+1)/(2+1) and 2/(3+1)
		{"entity_precision", [2]float64{1, 5. / 9}, [2]float64{1, 1. / 2}, 3},
		// (2/3 + 1 + 1/1)/3 and (2/2 + 1 + 0)/3; (2+1)/(3+1) and 2/(2+1)
		{"entity_recall", [2]float64{8. / 9, 2. / 3}, [2]float64{3. / 4, 2. / 3}, 3},
		// (2·2/5 + 1 + 1)/3 and (2·2/5 + 1 + 0)/3; 2·3/7 and 2·2/7
		{"entity_f1", [2]float64{14. / 15, 3. / 5}, [2]float64{6. / 7, 4. / 7}, 3},
		{"type_accuracy", [2]float64{1. / 2, 1. / 2}, [2]float64{1. / 2, 1. / 2}, 1},
		// For item one, and for item two as 1; item three has no types. (2·1/5 + 1)/2, pooled 2/5.
		{"entity_typed_f1", [2]float64{7. / 10, 7. / 10}, [2]float64{2. / 5, 2. / 5}, 2},
		{"entity_strict_f1", [2]float64{7. / 10, 7. / 10}, [2]float64{2. / 5, 2. / 5}, 2},
		// (1/2 + 1)/2 and (1/1 + 1)/2; 1/2 and 1/1
		{"relationship_accuracy", [2]float64{3. / 4, 1}, [2]float64{1. / 2, 1}, 2},
		{"relationship_recall", [2]float64{1, 3. / 4}, [2]float64{1, 1. / 2}, 2},
		// (2·1/3 + 1)/2; 2/3
		{"relationship_f1", [2]float64{5. / 6, 5. / 6}, [2]float64{2. / 3, 2. / 3}, 2},
	} {
		for way, direction := range []report.Direction{got.BAgainstA, got.AAgainstB} {
			s, ok := direction.Scores.Lookup(want.score)
			if !ok || s.N != want.n || math.Abs(*s.Mean-want.mean[way]) > 1e-12 || math.Abs(*s.Pooled-want.pooled[way]) > 1e-12 {
				t.Errorf("%s, way %d: %+v, want mean %v, pooled %v, n %d", want.score, way, s, want.mean[way], want.pooled[way],
					want.n)
			}
			if want.n > 1 && (s.CI95 == nil || s.CI95[0] >= *s.Mean && *s.Mean > 0 || s.CI95[1] <= *s.Mean && *s.Mean < 1) {
				t.Errorf("%s, way %d: mean %v, interval %v", want.score, way, *s.Mean, s.CI95)
			}
		}
	}
	both := fmt.Sprint(got.Items, got.OnlyA, got.OnlyB, got.OneEntities, got.OneRelationships, got.Directed)
	if want := "3 [four] [] 0 1 map[entity_exact_f1:1 entity_f1:1]"; both != want {
		t.Errorf("got %s, want %s", both, want)
	}
	if fmt.Sprint(got.SameBothWays) != "[entity_typed_f1 entity_strict_f1 type_accuracy relationship_f1]" {
		t.Errorf("the same both ways: %v", got.SameBothWays)
	}
	for _, g := range got.BAgainstA.Groups { // A has one place, which B does not have; B's place is A's Acme
		if g.Name == "place" && (g.Expected != 1 || g.Extracted != 1 || g.Matched != 0) {
			t.Errorf("%+v", g)
		}
	}
}

// TestAgree_entitiesOfOne: the aliases of the only list of entities hold for the relationships of both. Nothing
// else of the list counts: item_perfect is 1 for item one, and has no value for two, of which A has entities alone.
func TestAgree_entitiesOfOne(t *testing.T) {
	acme := []extraction.Entity{{Name: "Acme", Type: "org", Aliases: []string{"Big Blue"}}, {Type: "org"}} // one without a name
	a := annotatorOf("a", map[string]extraction.Extraction{
		"one": {Entities: acme, Relationships: relationships("Ann", "works_for", "Acme")}, "two": {Entities: acme}})
	b := annotatorOf("b", map[string]extraction.Extraction{
		"one": {Relationships: relationships("Ann", "works_for", "Big Blue")}, "two": {}})
	got, err := agree(a, b, scoring.DefaultOptions())
	if err != nil || got.OneEntities != 2 {
		t.Fatal(err, got.OneEntities)
	}
	for _, direction := range []report.Direction{got.BAgainstA, got.AAgainstB} {
		for _, s := range direction.Scores {
			counts := strings.HasPrefix(s.Name, "relationship_") || s.Name == "item_perfect"
			if counts && (s.N != 1 || *s.Mean != 1) || !counts && s.N != 0 {
				t.Errorf("%+v", s)
			}
		}
		if g := direction.Groups; len(g) != 1 || g[0].Name != "works_for" || g[0].Matched != 1 {
			t.Errorf("%+v", g)
		}
	}
}

// TestAgree_symmetric: without aliases and with all types, swapping the annotators swaps precision
// and recall and does not change F1.
func TestAgree_symmetric(t *testing.T) {
	names := rapid.SampledFrom([]string{"Ann Lee", "Anne Lee", "Ann Leeds", "Acme", "Acme Inc", "Rome", "ROME", "Roma"})
	types := rapid.SampledFrom([]string{"person", "org", "place"})
	kinds := rapid.SampledFrom([]string{"knows", "owns", "owned_by"})
	draw := rapid.Custom(func(t *rapid.T) extraction.Extraction {
		e := extraction.Extraction{Entities: entities(), Relationships: relationships()}
		for range rapid.IntRange(0, 5).Draw(t, "entities") {
			e.Entities = append(e.Entities, entities(names.Draw(t, "name"), types.Draw(t, "type"))...)
		}
		for range rapid.IntRange(0, 3).Draw(t, "statements") {
			one := relationships(names.Draw(t, "source"), kinds.Draw(t, "type"), names.Draw(t, "target"))
			e.Relationships = append(e.Relationships, one...)
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := map[string]extraction.Extraction{}, map[string]extraction.Extraction{}
		for i := range rapid.IntRange(1, 4).Draw(t, "items") {
			a[fmt.Sprint(i)], b[fmt.Sprint(i)] = draw.Draw(t, "a"), draw.Draw(t, "b")
		}
		got, err := agree(annotatorOf("a", a), annotatorOf("b", b), scoring.DefaultOptions())
		if err != nil || len(got.Directed) > 0 {
			t.Fatalf("%v, not the same both ways: %v", err, got.Directed)
		}
		for precision, recall := range map[string]string{"entity_precision": "entity_recall",
			"relationship_accuracy": "relationship_recall", "entity_f1": "entity_f1"} {
			p, _ := got.BAgainstA.Scores.Lookup(precision)
			r, _ := got.AAgainstB.Scores.Lookup(recall)
			if *p.Mean != *r.Mean || *p.Pooled != *r.Pooled || p.N != r.N {
				t.Fatalf("%s of B against A is %v, %s of A against B is %v", precision, *p.Mean, recall, *r.Mean)
			}
		}
		self, err := agree(annotatorOf("a", a), annotatorOf("a", a), scoring.DefaultOptions())
		if f1, _ := self.BAgainstA.Scores.Lookup("entity_f1"); err != nil || *f1.Mean != 1 || *f1.Pooled != 1 {
			t.Fatalf("A against itself: %v, %+v", err, f1)
		}
	})
}
