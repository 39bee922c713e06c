package answer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/testkit/suite"
)

func document() extraction.Document {
	return extraction.Document{
		Text: "x",
		Objects: map[string]extraction.ObjectSchema{
			"Person":       {Name: "Person"},
			"Organization": {Name: "Organisation"},
			"Legal_Case":   {Name: "Legal_Case"},
		},
		Relationships: map[string]extraction.RelationshipSchema{
			"works_for": {Name: "works_for", SourceTypes: []string{"person"}, TargetTypes: []string{"Organisation", "Legal case"}},
			"knows":     {Name: "knows"},
		},
	}
}

// entities returns entities from pairs of name and type.
func entities(pairs ...string) []extraction.Entity {
	var list []extraction.Entity
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, extraction.Entity{Name: pairs[i], Type: pairs[i+1]})
	}
	return list
}

func TestValidate(t *testing.T) {
	ann := entities("Ann", "Person", "Acme", "Organization")
	rel := func(source, kind, target string) []extraction.Relationship {
		return []extraction.Relationship{{Source: source, Type: kind, Target: target}}
	}
	allowed := func(types ...string) func(*extraction.Document) {
		return func(d *extraction.Document) { d.AllowedTypes = types }
	}
	tests := map[string]struct {
		e      extraction.Extraction
		change func(*extraction.Document)
		want   []string
	}{
		"nothing":                {extraction.Extraction{}, nil, nil},
		"all well":               {extraction.Extraction{Entities: ann, Relationships: rel("Ann", "works_for", "Acme")}, nil, nil},
		"other spellings":        {extraction.Extraction{Entities: entities("Ann Lee", "PERSON", "Acme", "organisation", "R v A", "legal case"), Relationships: rel("ann  lee", "Works For", "ACME")}, nil, nil},
		"an empty name":          {extraction.Extraction{Entities: entities(" \t", "Person")}, nil, []string{"entities[0]: the name is empty"}},
		"an unknown type":        {extraction.Extraction{Entities: entities("Ann", "Persn")}, nil, []string{`entities[0] "Ann": the type "Persn" is none of the allowed types: Legal_Case, Organization, Person (did you mean "Person"?)`}},
		"no type":                {extraction.Extraction{Entities: entities("Ann", "")}, nil, []string{`entities[0] "Ann": the type "" is none of the allowed types: Legal_Case, Organization, Person`}},
		"not allowed here":       {extraction.Extraction{Entities: ann}, allowed("Person"), []string{`entities[1] "Acme": the type "Organization" is none of the allowed types: Person`}},
		"an unknown statement":   {extraction.Extraction{Entities: ann, Relationships: rel("Ann", "know", "Acme")}, nil, []string{`relationships[0] "Ann" know "Acme": the relationship_type is none of the relationship schemas: knows, works_for (did you mean "knows"?)`}},
		"an end of no entity":    {extraction.Extraction{Entities: ann, Relationships: rel("Ann", "knows", "Bob")}, nil, []string{`relationships[0] "Ann" knows "Bob": the target is the name of no entity: add the entity, or leave the relationship out`}},
		"empty ends":             {extraction.Extraction{Entities: ann, Relationships: rel("", "knows", " ")}, nil, []string{`relationships[0] "" knows " ": the source is empty`, `relationships[0] "" knows " ": the target is empty`}},
		"a dangling end":         {extraction.Extraction{Entities: ann, Relationships: []extraction.Relationship{{SourceRef: "e9", Target: "Ann", Type: "knows"}}}, nil, []string{`relationships[0] "" knows "Ann": the source refers to "e9", which is the id of no entity`}},
		"the wrong way round":    {extraction.Extraction{Entities: ann, Relationships: rel("Acme", "works_for", "Ann")}, nil, []string{`relationships[0] "Acme" works_for "Ann": the source is of the type Organization, the schema allows person`, `relationships[0] "Acme" works_for "Ann": the target is of the type Person, the schema allows Organisation, Legal case`}},
		"two of one name":        {extraction.Extraction{Entities: append(entities("Acme", "Person"), ann...), Relationships: rel("Ann", "works_for", "Acme")}, nil, nil},
		"an alias is a name":     {extraction.Extraction{Entities: []extraction.Entity{{Name: "Ann Lee", Aliases: []string{"Ann"}, Type: "Person"}}, Relationships: rel("Ann", "knows", "ann lee")}, nil, nil},
		"without any schema":     {extraction.Extraction{Entities: entities("Ann", "", "Acme", "Anything"), Relationships: rel("Ann", "", "Acme")}, func(d *extraction.Document) { d.Objects, d.Relationships = nil, nil }, nil},
		"types without schemas":  {extraction.Extraction{Entities: entities("Ann", "Dog")}, func(d *extraction.Document) { d.Objects = nil; d.AllowedTypes = []string{"Cat", "Cat"} }, []string{`entities[0] "Ann": the type "Dog" is none of the allowed types: Cat`}},
		"an untyped end will do": {extraction.Extraction{Entities: entities("Ann", "", "Acme", ""), Relationships: rel("Ann", "works_for", "Acme")}, func(d *extraction.Document) { d.Objects = nil }, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			doc := document()
			if tt.change != nil {
				tt.change(&doc)
			}
			if diff := cmp.Diff(tt.want, Validate(tt.e, doc, Both)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(len(tt.want), len(Validate(Normalise(tt.e, doc), doc, Both))); diff != "" {
				t.Error("after Normalise:", diff)
			}
		})
	}
}

// TestValidate_parts checks that the first stage is not asked again for relationships, which it
// leaves to the second, and the second not for entities.
func TestValidate_parts(t *testing.T) {
	e := extraction.Extraction{Entities: entities("Ann", "Dog"), Relationships: []extraction.Relationship{{Source: "Bob", Type: "x"}}}
	if got := Validate(e, document(), EntitiesOnly); len(got) != 1 || !strings.HasPrefix(got[0], "entities[0]") {
		t.Errorf("got %q", got)
	}
	got := Validate(e, document(), RelationshipsOnly)
	if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, "relationships[0]") }) {
		t.Errorf("got %q", got)
	}
}

func TestValidate_bounded(t *testing.T) {
	n := suite.SampleOr(100, 1000)
	e := extraction.Extraction{Entities: slices.Repeat(entities(strings.Repeat("é", 5000), strings.Repeat("日", 5000)), n)}
	got := Validate(e, document(), Both)
	if len(got) != 21 || got[20] != fmt.Sprintf("and %d more problems", n-20) || len(strings.Join(got, "")) > 20_000 {
		t.Errorf("%d problems, the last %q", len(got), got[len(got)-1])
	}
}

// TestValidate_manyTypesOfOneName checks that a name of more than maxTypesOfName types may be at
// any end of a relationship.
func TestValidate_manyTypesOfOneName(t *testing.T) {
	var e extraction.Extraction
	for i := range maxTypesOfName + 10 {
		e.Entities = append(e.Entities, extraction.Entity{Name: "Ann", Type: fmt.Sprint("t", i)})
	}
	e.Relationships = []extraction.Relationship{{Source: "Ann", Type: "works_for", Target: "Ann"}}
	doc := document()
	doc.Objects = nil
	if got := Validate(e, doc, Both); got != nil {
		t.Errorf("got %q", got)
	}
	e.Entities = e.Entities[:maxTypesOfName]
	if got := Validate(e, doc, Both); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestNormalise(t *testing.T) {
	doc := document()
	doc.Objects["person_"] = extraction.ObjectSchema{} // folds like Person
	e := extraction.Extraction{
		Entities:      entities("a b", "Person", "c", "PERSON", "d", "legal-case", "e", "Organisation", "f", "Robot", "g", ""),
		Relationships: []extraction.Relationship{{Source: "A  B", Type: "WorksFor", Target: "c"}, {Type: "KNOWS "}, {Type: "owns"}},
	}
	before := slices.Clone(e.Entities)
	got := Normalise(e, doc)
	// PERSON could be Person or person_, and stays unchanged.
	want := extraction.Extraction{
		Entities:      entities("a b", "Person", "c", "PERSON", "d", "Legal_Case", "e", "Organization", "f", "Robot", "g", ""),
		Relationships: []extraction.Relationship{{Source: "A  B", Type: "works_for", Target: "c"}, {Type: "knows"}, {Type: "owns"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, e.Entities); diff != "" {
		t.Error("the extraction given was changed:", diff)
	}
	if got := Normalise(extraction.Extraction{}, doc); got.Entities != nil || got.Relationships != nil {
		t.Error("nil became empty")
	}
	if got := Normalise(extraction.Extraction{Entities: []extraction.Entity{}}, doc); got.Entities == nil {
		t.Error("empty became nil")
	}
}

// TestNormalise_namesInSchemas checks that the name inside a schema means its key, unless two
// schemas have the name or it is another key.
func TestNormalise_namesInSchemas(t *testing.T) {
	doc := extraction.Document{Objects: map[string]extraction.ObjectSchema{
		"org": {Name: "Organisation"}, "a": {Name: "Both"}, "b": {Name: "both"}, "c": {Name: "org"}, "d": {}, "_": {Name: "-"},
	}}
	for range 20 { // maps have no order
		got := Normalise(extraction.Extraction{Entities: entities("1", "ORGANISATION", "2", "Both", "3", "Org", "4", "", "5", "_", "6", "-")}, doc)
		want := entities("1", "org", "2", "Both", "3", "org", "4", "", "5", "_", "6", "-")
		if diff := cmp.Diff(want, got.Entities); diff != "" {
			t.Fatal(diff)
		}
	}
}
