package scoring

import (
	"testing"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// This file has a test for each scenario of the specification, with the name of the scenario.

func ents(nameAndType ...string) []extraction.Entity {
	list := []extraction.Entity{}
	for i := 0; i+1 < len(nameAndType); i += 2 {
		list = append(list, extraction.Entity{Name: nameAndType[i], Type: nameAndType[i+1]})
	}
	return list
}

func rels(sourceTypeTarget ...string) []extraction.Relationship {
	list := []extraction.Relationship{}
	for i := 0; i+2 < len(sourceTypeTarget); i += 3 {
		list = append(list, extraction.Relationship{Source: sourceTypeTarget[i], Type: sourceTypeTarget[i+1], Target: sourceTypeTarget[i+2]})
	}
	return list
}

func with(change func(*Options)) Options {
	o := DefaultOptions()
	change(&o)
	return o
}

func scoreEntities(t *testing.T, o Options, expected, extracted []extraction.Entity) Result {
	t.Helper()
	return mustNew(t, o).Score(extraction.Extraction{Entities: expected}, extraction.Extraction{Entities: extracted})
}

func scoreRelationships(t *testing.T, o Options, expected, extracted []extraction.Relationship) Result {
	t.Helper()
	return mustNew(t, o).Score(extraction.Extraction{Relationships: expected}, extraction.Extraction{Relationships: extracted})
}

func wantScore(t *testing.T, r Result, name string, num, den int64, value float64) {
	t.Helper()
	s, ok := outcome.Lookup(r.Scores, name)
	if !ok || s.Value == nil || s.Ratio == nil {
		t.Fatalf("%s has no value: %+v", name, s)
	}
	if *s.Value != value || *s.Ratio != (outcome.Ratio{Num: num, Den: den}) {
		t.Errorf("%s = %v (%v), want %v (%d/%d)", name, *s.Value, *s.Ratio, value, num, den)
	}
}

func wantUndefined(t *testing.T, r Result, name, reason string) {
	t.Helper()
	s, ok := outcome.Lookup(r.Scores, name)
	if !ok || s.Value != nil || s.Reason != reason {
		t.Errorf("%s = %+v, want no value because %q", name, s, reason)
	}
}

// wantMatch checks the only matched pair. If kind is "", there must be none.
func wantMatch(t *testing.T, r Result, kind EntityMatchKind, num, den int64) {
	t.Helper()
	if kind == "" {
		if len(r.Entities) != 0 {
			t.Errorf("matched %+v, want no match", r.Entities)
		}
		return
	}
	if len(r.Entities) != 1 || r.Entities[0].Kind != kind || r.Entities[0].Ratio != (outcome.Ratio{Num: num, Den: den}) {
		t.Errorf("matched %+v, want %s with %d/%d", r.Entities, kind, num, den)
	}
}

func wantMatchType(t *testing.T, r Result, kind MatchType) {
	t.Helper()
	if kind == "" {
		if len(r.Relationships) != 0 {
			t.Errorf("matched %+v, want no match", r.Relationships)
		}
		return
	}
	if len(r.Relationships) != 1 || r.Relationships[0].MatchType != kind {
		t.Errorf("matched %+v, want %s", r.Relationships, kind)
	}
}

// specEntities returns entities of which 3 of 5 expected match 3 of 4 extracted.
func specEntities() (expected, extracted []extraction.Entity) {
	return ents("Ada", "person", "Bob", "person", "Rome", "place", "Oslo", "place", "Acme", "company"),
		ents("Ada", "person", "Bob", "place", "Rome", "place", "Lima", "place")
}

func TestSpec_EntityPrecisionCalculation(t *testing.T) {
	expected, extracted := specEntities()
	r := scoreEntities(t, DefaultOptions(), expected, extracted)
	wantScore(t, r, "entity_precision", 3, 4, 0.75)
	if s, _ := outcome.Lookup(r.Scores, EntityPrecision); s.Comment != "3/4 extracted entities matched" {
		t.Errorf("comment %q", s.Comment)
	}
}

func TestSpec_EntityRecallCalculation(t *testing.T) {
	expected, extracted := specEntities()
	wantScore(t, scoreEntities(t, DefaultOptions(), expected, extracted), "entity_recall", 3, 5, 0.6)
}

func TestSpec_EntityF1ScoreCalculation(t *testing.T) {
	expected, extracted := specEntities()
	// 2·0.75·0.6/(0.75+0.6) = 0.9/1.35 = 2/3 = 6/9
	wantScore(t, scoreEntities(t, DefaultOptions(), expected, extracted), "entity_f1", 6, 9, 6.0/9)
}

func TestSpec_RelationshipAccuracyCalculation(t *testing.T) {
	expected := rels("A", "owns", "B", "C", "owns", "D", "E", "owns", "F", "G", "owns", "H")
	// One extracted statement of four expected: accuracy is a precision.
	r := scoreRelationships(t, DefaultOptions(), expected, rels("A", "owns", "B"))
	wantScore(t, r, "relationship_accuracy", 1, 1, 1)
	wantScore(t, r, "relationship_recall", 1, 4, 0.25)
	wantScore(t, r, "relationship_f1", 2, 5, 0.4)
	r = scoreRelationships(t, DefaultOptions(), expected, rels("A", "owns", "B", "B", "owns", "A", "X", "owns", "Y"))
	wantScore(t, r, "relationship_accuracy", 1, 3, 1.0/3)
}

func TestSpec_TypeAccuracyCalculation(t *testing.T) {
	expected, extracted := specEntities()
	// Ada and Rome have the expected type, Bob has not.
	wantScore(t, scoreEntities(t, DefaultOptions(), expected, extracted), "type_accuracy", 2, 3, 2.0/3)
}

func TestSpec_ExactNameMatch(t *testing.T) {
	r := scoreEntities(t, DefaultOptions(), ents("John Smith", ""), ents("John Smith", ""))
	wantMatch(t, r, ExactName, 1, 1)
	if r.Entities[0].Similarity != 1.0 {
		t.Errorf("similarity %v, want 1.0", r.Entities[0].Similarity)
	}
	// Equal names match even if no similarity can exceed the threshold.
	r = scoreEntities(t, with(func(o *Options) { o.Threshold = "1" }), ents("John Smith", ""), ents("John Smith", ""))
	wantMatch(t, r, ExactName, 1, 1)
}

func TestSpec_FuzzyNameMatch(t *testing.T) {
	// 3 edits in 13 code points: 10/13 = 0.7692.
	for threshold, kind := range map[string]EntityMatchKind{"0.85": "", "0.77": "", "0.75": FuzzyName, "0.65": FuzzyName} {
		r := scoreEntities(t, with(func(o *Options) { o.Threshold = threshold }), ents("John Smith", ""), ents("John D. Smith", ""))
		wantMatch(t, r, kind, 10, 13)
	}
	// 1 edit in 10: 0.9.
	wantMatch(t, scoreEntities(t, DefaultOptions(), ents("John Smith", ""), ents("Jon Smith", "")), FuzzyName, 9, 10)
}

func TestSpec_CaseInsensitiveMatching(t *testing.T) {
	wantMatch(t, scoreEntities(t, DefaultOptions(), ents("John Smith", ""), ents("JOHN SMITH", "")), ExactName, 1, 1)
}

func TestSpec_ExactRelationshipMatch(t *testing.T) {
	r := scoreRelationships(t, DefaultOptions(), rels("John", "parent_of", "Mary"), rels("John", "parent_of", "Mary"))
	wantMatchType(t, r, "exact")
}

func TestSpec_InverseRelationshipMatch(t *testing.T) {
	expected := rels("John", "parent_of", "Mary")
	wantMatchType(t, scoreRelationships(t, DefaultOptions(), expected, rels("Mary", "child_of", "John")), "inverse")
	// The ends must be swapped, and only with the inverse type.
	wantMatchType(t, scoreRelationships(t, DefaultOptions(), expected, rels("John", "child_of", "Mary")), "")
	wantMatchType(t, scoreRelationships(t, DefaultOptions(), expected, rels("Mary", "parent_of", "John")), "")
}

func TestSpec_SymmetricRelationshipMatch(t *testing.T) {
	r := scoreRelationships(t, DefaultOptions(), rels("John", "married_to", "Mary"), rels("Mary", "married_to", "John"))
	wantMatchType(t, r, "exact")
}

func TestSpec_FuzzyEntityNamesInRelationships(t *testing.T) {
	// j. smith / john smith: 3 edits in 10 code points, 0.7.
	expected, extracted := rels("J. Smith", "parent_of", "Mary"), rels("John Smith", "parent_of", "Mary")
	swapped := rels("Mary", "child_of", "John Smith")
	for threshold, kinds := range map[string][2]MatchType{
		"0.85": {"", ""}, "0.7": {"", ""}, "0.69": {"fuzzy", "inverse-fuzzy"},
	} {
		o := with(func(o *Options) { o.Threshold = threshold })
		wantMatchType(t, scoreRelationships(t, o, expected, extracted), kinds[0])
		wantMatchType(t, scoreRelationships(t, o, expected, swapped), kinds[1])
		o.FuzzyRelationships = false
		wantMatchType(t, scoreRelationships(t, o, expected, extracted), "")
	}
	r := scoreRelationships(t, DefaultOptions(), rels("Jon Smith", "parent_of", "Mary"), extracted)
	wantMatchType(t, r, "fuzzy")
	if m := r.Relationships[0]; m.SourceRatio != (outcome.Ratio{Num: 9, Den: 10}) || m.TargetSimilarity != 1 {
		t.Errorf("similarities of the ends: %+v", m)
	}
}

func TestSpec_InverseRelationshipTypesSupported(t *testing.T) {
	pairs := [][2]string{
		{"parent_of", "child_of"}, {"employs", "employed_by"}, {"contains", "contained_in"},
		{"owns", "owned_by"}, {"manages", "managed_by"}, {"created", "created_by"},
		{"supervises", "supervised_by"}, {"leads", "led_by"}, {"member_of", "has_member"},
		{"located_in", "contains_location"}, {"lived_in", "was_residence_of"},
		{"born_in", "birthplace_of"}, {"died_in", "deathplace_of"}, {"originated_from", "origin_of"},
	}
	for _, p := range pairs {
		for _, way := range [][2]string{{p[0], p[1]}, {p[1], p[0]}} {
			r := scoreRelationships(t, DefaultOptions(), rels("A", way[0], "B"), rels("B", way[1], "A"))
			wantMatchType(t, r, "inverse")
		}
	}
	if got := len(DefaultOptions().Inverse); got != len(pairs) {
		t.Errorf("%d pairs by default, want %d", got, len(pairs))
	}
	// Never chained: contains_location is not an inverse of contained_in.
	wantMatchType(t, scoreRelationships(t, DefaultOptions(), rels("A", "contained_in", "B"), rels("B", "contains_location", "A")), "")
	wantMatchType(t, scoreRelationships(t, DefaultOptions(), rels("A", "located_in", "B"), rels("A", "contained_in", "B")), "")
}

func TestSpec_SymmetricRelationshipTypesSupported(t *testing.T) {
	types := []string{"married_to", "sibling_of", "related_to", "colleague_of", "friend_of", "neighbor_of", "connected_to", "associated_with", "partnered_with"}
	for _, typ := range types {
		wantMatchType(t, scoreRelationships(t, DefaultOptions(), rels("A", typ, "B"), rels("B", typ, "A")), "exact")
		// With a similar end it is fuzzy, like any other type.
		wantMatchType(t, scoreRelationships(t, DefaultOptions(), rels("Jon Smith", typ, "B"), rels("B", typ, "John Smith")), "fuzzy")
	}
	if got := len(DefaultOptions().Symmetric); got != len(types) {
		t.Errorf("%d types by default, want %d", got, len(types))
	}
}
