package chunk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/extraction"

	"github.com/google/go-cmp/cmp"
)

type (
	entity  = extraction.Entity
	span    = extraction.Span
	state   = extraction.Relationship
	extract = extraction.Extraction
)

// at places extractions at the offsets 0, 100, 200 …
func at(extractions ...extract) []Part {
	var parts []Part
	for i, e := range extractions {
		parts = append(parts, Part{e, Chunk{Start: 100 * i, End: 100*i + 100}})
	}
	return parts
}

func TestMerge(t *testing.T) {
	inverse := Vocabulary{Inverse: [][2]string{{"employs", "employed_by"}}, Symmetric: []string{"married_to"}}
	tests := map[string]struct {
		parts []Part
		v     Vocabulary
		want  extract
		warns []string
	}{
		"nothing": {want: extract{}},
		"lists are nil only if nil everywhere": {
			parts: at(extract{}, extract{Entities: []entity{}}),
			want:  extract{Entities: []entity{}},
		},
		"equal names": {
			parts: at(
				extract{Entities: []entity{{ID: "e1", Name: "Acme  Corp", Type: "Company", Aliases: []string{"ACME"}, Mentions: []span{{Quote: "Acme", Start: 90, End: 94}}}}},
				extract{Entities: []entity{{ID: "e1", Name: "ＡＣＭＥ corp", Type: "company", Description: "makes all", Aliases: []string{"acme", "A."}, Mentions: []span{{Quote: "A.", Start: 7, End: 9}, {Quote: "x", Start: 0, End: 0}}}}}),
			want: extract{Entities: []entity{{Name: "Acme  Corp", Type: "Company", Description: "makes all", Aliases: []string{"ACME", "A."},
				Mentions: []span{{Quote: "x", Start: 0, End: 0}, {Quote: "Acme", Start: 90, End: 94}, {Quote: "A.", Start: 107, End: 109}}}}},
		},
		"the same mention of the overlap is one": {
			parts: at(
				extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 101, End: 102}}}}},
				extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 1, End: 2}}}}}),
			want: extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 101, End: 102}}}}},
		},
		"no type fits every type": {
			parts: at(extract{Entities: []entity{{Name: "A"}}}, extract{Entities: []entity{{Name: "a", Type: "T"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "T"}}},
		},
		"properties: first value that is not null": {
			parts: at(
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"b":null,"c":1}`)}}},
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"a":"<","b":2,"c":3}`)}}}),
			want: extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"a":"<","b":2,"c":1}`)}}},
		},
		"most chunks decide the type": {
			parts: at(
				extract{Entities: []entity{{Name: "A", Type: "City"}}},
				extract{Entities: []entity{{Name: "A", Type: "Person"}}},
				extract{Entities: []entity{{Name: "A", Type: "person"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "Person"}}},
			warns: []string{`entity "A": chunks disagree about its type ("City" in 1, "Person" in 2); "Person" is kept`},
		},
		"of a tie the first chunk": {
			parts: at(extract{Entities: []entity{{Name: "A", Type: "City"}}}, extract{Entities: []entity{{Name: "A", Type: "Person"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "City"}}},
			warns: []string{`"City" is kept`},
		},
		"two types in one chunk are two things": {
			parts: at(
				extract{Entities: []entity{{Name: "Paris", Type: "City"}, {Name: "Bo"}, {Name: "Paris", Type: "Person"}}},
				extract{Entities: []entity{{Name: "Paris", Type: "Person", Description: "d"}}}),
			want: extract{Entities: []entity{{Name: "Paris", Type: "City"}, {Name: "Bo"}, {Name: "Paris", Type: "Person", Description: "d"}}},
		},
		"a name that is an alias": {
			parts: at(
				extract{Entities: []entity{{Name: "Apple", Type: "Company"}, {Name: "Apple", Type: "Fruit"}}},
				extract{Entities: []entity{{Name: "Apple Inc", Type: "Company", Aliases: []string{"apple"}}},
					Relationships: []state{{Source: "Apple Inc", Type: "sells", Target: "phones"}}}),
			want: extract{Entities: []entity{{Name: "Apple", Type: "Company", Aliases: []string{"Apple Inc"}}, {Name: "Apple", Type: "Fruit"}},
				Relationships: []state{{Source: "Apple", Type: "sells", Target: "phones"}}},
		},
		"an alias of two joins nothing": {
			parts: at(
				extract{Entities: []entity{{Name: "Ann Smith", Aliases: []string{"Smith"}}, {Name: "Bob Smith", Aliases: []string{"Smith"}}}},
				extract{Entities: []entity{{Name: "Smith"}}, Relationships: []state{{Source: "Smith", Type: "r", Target: "Ann smith"}}}),
			want: extract{
				Entities:      []entity{{Name: "Ann Smith", Aliases: []string{"Smith"}}, {Name: "Bob Smith", Aliases: []string{"Smith"}}, {Name: "Smith"}},
				Relationships: []state{{Source: "Smith", Type: "r", Target: "Ann Smith"}}},
			warns: []string{`entity "Smith": it is an alias of "Ann Smith" and of "Bob Smith"; it is kept apart`},
		},
		"identifiers are local": {
			parts: at(
				extract{Entities: []entity{{ID: "1", Name: "A"}}, Relationships: []state{{Source: "1", TargetRef: "1", Type: "r"}}},
				extract{Entities: []entity{{ID: "1", Name: "B"}}, Relationships: []state{{Source: "1", TargetRef: "7", Type: "r"}}}),
			want: extract{Entities: []entity{{Name: "A"}, {Name: "B"}},
				Relationships: []state{{Source: "A", Target: "A", Type: "r"}, {Source: "B", TargetRef: "7", Type: "r"}}},
		},
		"equal statements": {
			parts: at(
				extract{Entities: []entity{{Name: "A", Aliases: []string{"Aa"}}}, Relationships: []state{{Source: "A", Target: "B", Type: "works_for"}}},
				extract{Relationships: []state{{Source: "aa", Target: "b", Type: "Works for", Description: "d"}, {Source: "B", Target: "A", Type: "works_for"}}}),
			want: extract{Entities: []entity{{Name: "A", Aliases: []string{"Aa"}}},
				Relationships: []state{{Source: "A", Target: "B", Type: "works_for", Description: "d"}, {Source: "B", Target: "A", Type: "works_for"}}},
		},
		"dangling statements are never one": {
			parts: at(extract{Relationships: []state{{Source: "A", TargetRef: "7", Type: "r"}}}, extract{Relationships: []state{{Source: "A", TargetRef: "7", Type: "r"}}}),
			want:  extract{Relationships: []state{{Source: "A", TargetRef: "7", Type: "r"}, {Source: "A", TargetRef: "7", Type: "r"}}},
		},
		"swapped statements without a vocabulary": {
			parts: at(extract{Relationships: []state{{Source: "A", Target: "B", Type: "married_to"}}}, extract{Relationships: []state{{Source: "B", Target: "A", Type: "married_to"}}}),
			want:  extract{Relationships: []state{{Source: "A", Target: "B", Type: "married_to"}, {Source: "B", Target: "A", Type: "married_to"}}},
		},
		"swapped statements with one": {
			parts: at(
				extract{Relationships: []state{{Source: "A", Target: "B", Type: "married_to"}, {Source: "C", Target: "A", Type: "employs"}}},
				extract{Relationships: []state{{Source: "B", Target: "A", Type: "married to"}, {Source: "A", Target: "C", Type: "employed_by"}, {Source: "C", Target: "A", Type: "employed_by"}}}),
			v: inverse,
			want: extract{Relationships: []state{{Source: "A", Target: "B", Type: "married_to"}, {Source: "C", Target: "A", Type: "employs"},
				{Source: "C", Target: "A", Type: "employed_by"}}},
		},
		"a single part stays but for exact repetitions": {
			parts: at(extract{
				Entities:      []entity{{ID: "1", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "2", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "3", Name: "a"}},
				Relationships: []state{{Source: "a", Target: "B", Type: "r"}, {Source: "a", Target: "B", Type: "r"}, {Source: "A", Target: "B", Type: "r"}}}),
			want: extract{
				Entities:      []entity{{ID: "1", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "3", Name: "a"}},
				Relationships: []state{{Source: "a", Target: "B", Type: "r"}, {Source: "A", Target: "B", Type: "r"}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, warnings := Merge(tt.parts, tt.v)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if len(warnings) != len(tt.warns) {
				t.Fatalf("warnings %q", warnings)
			}
			for i, w := range tt.warns {
				if !strings.Contains(warnings[i], w) {
					t.Errorf("warning %q, want %q", warnings[i], w)
				}
			}
			again, _ := Merge([]Part{{Extraction: got}}, tt.v)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("merging again changes it:\n%s", diff)
			}
			backwards := slices.Clone(tt.parts)
			slices.Reverse(backwards)
			if turned, _ := Merge(backwards, tt.v); !cmp.Equal(turned, got) {
				t.Errorf("parts in another order give another result:\n%s", cmp.Diff(got, turned))
			}
		})
	}
}

func TestMerge_warningsAreBounded(t *testing.T) {
	var a, b extract
	for i := range 300 {
		name := strings.Repeat("x", 100+i)
		a.Entities = append(a.Entities, entity{Name: name, Type: "A"})
		b.Entities = append(b.Entities, entity{Name: name, Type: "B"})
	}
	_, warnings := Merge(at(a, b), Vocabulary{})
	if len(warnings) != maxWarnings+1 || !strings.Contains(warnings[maxWarnings], "200 more") || len(warnings[0]) > 250 {
		t.Errorf("%d warnings, last %q", len(warnings), warnings[len(warnings)-1])
	}
}
