package scoring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// faultText formats a fault as "cause what expected>extracted".
func faultText(f Fault) string {
	index := func(i *int) string {
		if i == nil {
			return "-"
		}
		return fmt.Sprint(*i)
	}
	return fmt.Sprintf("%s %s %s>%s", f.Cause, f.What, index(f.Expected), index(f.Extracted))
}

func TestClassify(t *testing.T) {
	const document = "ada lovelace wrote to charles babbage from london about microsoft corporation"
	cases := map[string]struct {
		expected, extracted extraction.Extraction
		exactOnly           bool
		want                []string
	}{
		"nothing wrong": {
			expected:  extraction.Extraction{Entities: ents("Ada Lovelace", "Person")},
			extracted: extraction.Extraction{Entities: ents("ada  lovelace", "person")},
		},
		"missed, spurious and invented": {
			expected:  extraction.Extraction{Entities: ents("Ada Lovelace", "Person")},
			extracted: extraction.Extraction{Entities: ents("London", "Place", "Xyzzy", "Place")},
			want:      []string{"missed entity 0>-", "spurious entity ->0", "invented entity ->1"},
		},
		"a part of the name is a boundary": { // 12/21 edits: similarity 0.43
			expected:  extraction.Extraction{Entities: ents("Microsoft Corporation", "Company")},
			extracted: extraction.Extraction{Entities: ents("Microsoft", "Company")},
			want:      []string{"boundary entity 0>0"},
		},
		"a name that is a part of it, in other letters": { // 12/21 edits: similarity 0.43
			expected:  extraction.Extraction{Entities: ents("Microsoft", "Company")},
			extracted: extraction.Extraction{Entities: ents("MICROSOFT CORPORATION", "Company")},
			want:      []string{"boundary entity 0>0"},
		},
		"a name that matches where spelling may differ": { // 1/13 edits
			expected:  extraction.Extraction{Entities: ents("Ada Lovelace", "Person"), Relationships: rels("Ada Lovelace", "lives_in", "London")},
			extracted: extraction.Extraction{Entities: ents("Ada Lovelaces", "Person"), Relationships: rels("Ada Lovelaces", "lives_in", "London")},
			exactOnly: true,
			want:      []string{"boundary entity 0>0", "boundary relationship 0>0"},
		},
		"the more similar of two is the boundary": {
			expected:  extraction.Extraction{Entities: ents("Microsoft", "Company", "Microsoft Corp", "Company")},
			extracted: extraction.Extraction{Entities: ents("Microsoft Corporation", "Company")},
			want:      []string{"missed entity 0>-", "boundary entity 1>0"},
		},
		"swapped rather than a boundary": {
			expected:  extraction.Extraction{Relationships: rels("London", "owns", "Ada Love", "Ada Lovelace", "owns", "London")},
			extracted: extraction.Extraction{Relationships: rels("London", "owns", "Ada Lovelace")},
			want:      []string{"missed relationship 0>-", "swapped_direction relationship 1>0"},
		},
		"in the order of what is expected": {
			expected:  extraction.Extraction{Entities: ents("London", "Place", "Charles Babbage", "Person")},
			extracted: extraction.Extraction{Entities: ents("Microsoft", "Company", "Charles Babb", "Person")},
			want:      []string{"missed entity 0>-", "boundary entity 1>1", "spurious entity ->0"},
		},
		"a similar name is a boundary": { // 3/10 edits: similarity 0.7
			expected:  extraction.Extraction{Entities: ents("John Smith", "Person")},
			extracted: extraction.Extraction{Entities: ents("Jane Smith", "Person")},
			want:      []string{"boundary entity 0>0"},
		},
		"the most similar pair is joined, the other is left over": {
			expected:  extraction.Extraction{Entities: ents("Charles Babbage", "Person")},
			extracted: extraction.Extraction{Entities: ents("Babbage", "Person", "Charles Babb", "Person")}, // 7/15 and 12/15
			want:      []string{"boundary entity 0>1", "spurious entity ->0"},
		},
		"a wrong type": {
			expected:  extraction.Extraction{Entities: ents("London", "City")},
			extracted: extraction.Extraction{Entities: ents("London", "Person")},
			want:      []string{"wrong_type entity 0>0"},
		},
		"a repetition": {
			expected:  extraction.Extraction{Entities: ents("London", "City")},
			extracted: extraction.Extraction{Entities: ents("London", "City", "LONDON", "City")},
			want:      []string{"duplicate entity ->0"}, // of two equal ones the matching took the later
		},
		"a repetition by inverse, whichever stands first": {
			expected:  extraction.Extraction{Relationships: rels("Ada Lovelace", "parent_of", "Charles Babbage")},
			extracted: extraction.Extraction{Relationships: rels("Charles Babbage", "child_of", "Ada Lovelace", "Ada Lovelace", "parent_of", "Charles Babbage")},
			want:      []string{"duplicate relationship ->0"},
		},
		"what is listed thrice and nowhere expected": {
			expected:  extraction.Extraction{Entities: ents()},
			extracted: extraction.Extraction{Entities: ents("Xyzzy", "Place", "Xyzzy", "Place", "XYZZY", "Place")},
			want:      []string{"duplicate entity ->0", "duplicate entity ->1", "invented entity ->2"}, // capitals sort first
		},
		"a relationship that is listed twice and nowhere expected": {
			expected:  extraction.Extraction{Relationships: rels()},
			extracted: extraction.Extraction{Relationships: rels("Ada Lovelace", "parent_of", "Charles Babbage", "Charles Babbage", "child_of", "Ada Lovelace")},
			want:      []string{"spurious relationship ->0", "duplicate relationship ->1"},
		},
		"gold that repeats itself": {
			expected:  extraction.Extraction{Entities: ents("London", "City", "London", "City")},
			extracted: extraction.Extraction{Entities: ents("London", "City")},
			want:      []string{"duplicate entity 1>-"},
		},
		"relationships": {
			expected: extraction.Extraction{Relationships: rels("Ada Lovelace", "wrote_to", "Charles Babbage",
				"Ada Lovelace", "lives_in", "London", "London", "home_of", "Microsoft Corporation")},
			extracted: extraction.Extraction{Relationships: rels("Charles Babbage", "wrote_to", "Ada Lovelace",
				"Ada Lovelace", "born_in", "London", "London", "home_of", "Microsoft",
				"Zorro", "met", "Ada Lovelace", "London", "saw", "")},
			want: []string{"swapped_direction relationship 0>0", "wrong_relationship_type relationship 1>1",
				"boundary relationship 2>2", "invented relationship ->3", "dangling_end relationship ->4"},
		},
		"both directions extracted of a directed one": {
			expected:  extraction.Extraction{Relationships: rels("Ada Lovelace", "wrote_to", "Charles Babbage")},
			extracted: extraction.Extraction{Relationships: rels("Ada Lovelace", "wrote_to", "Charles Babbage", "Charles Babbage", "wrote_to", "Ada Lovelace")},
			want:      []string{"swapped_direction relationship ->1"},
		},
		"of the misses the nearest is one of another pair": { // 8/10 and 7/10 to the first, 6/10 to the second
			expected:  extraction.Extraction{Entities: ents("abcdefghij", "T", "abcdefgxyz", "T")},
			extracted: extraction.Extraction{Entities: ents("abcdefghkk", "T", "abcqqqqxyz", "T")},
			want:      []string{"boundary entity 0>0", "boundary entity 1>1"},
		},
		"the same the other way round": {
			expected:  extraction.Extraction{Entities: ents("abcdefghkk", "T", "abcqqqqxyz", "T")},
			extracted: extraction.Extraction{Entities: ents("abcdefghij", "T", "abcdefgxyz", "T")},
			want:      []string{"boundary entity 0>0", "boundary entity 1>1"},
		},
		"a repetition explains no miss": { // 6/8 edits apart
			expected:  extraction.Extraction{Entities: ents("London", "City", "Londoner", "Person")},
			extracted: extraction.Extraction{Entities: ents("London", "City", "London", "City")},
			want:      []string{"missed entity 1>-", "duplicate entity ->1"},
		},
		"names that have little in common": { // 2/6
			expected:  extraction.Extraction{Entities: ents("Prague", "City")},
			extracted: extraction.Extraction{Entities: ents("Paris", "City")},
			want:      []string{"missed entity 0>-", "invented entity ->0"},
		},
		"another type of a relationship that is there": {
			expected:  extraction.Extraction{Relationships: rels("Ada Lovelace", "lives_in", "London")},
			extracted: extraction.Extraction{Relationships: rels("Ada Lovelace", "lives_in", "London", "Ada Lovelace", "born_in", "London")},
			want:      []string{"wrong_relationship_type relationship ->1"},
		},
		"an end that has little in common": {
			expected:  extraction.Extraction{Relationships: rels("Ada Lovelace", "lives_in", "London")},
			extracted: extraction.Extraction{Relationships: rels("Ada Lovelace", "lives_in", "Microsoft Corporation")},
			want:      []string{"missed relationship 0>-", "spurious relationship ->0"},
		},
		"a source that is a part of the name": { // 8/15
			expected:  extraction.Extraction{Relationships: rels("Charles Babbage", "lives_in", "London")},
			extracted: extraction.Extraction{Relationships: rels("Babbage", "lives_in", "London")},
			want:      []string{"boundary relationship 0>0"},
		},
		"a source that is similar": { // 3/10
			expected:  extraction.Extraction{Relationships: rels("John Smith", "lives_in", "London")},
			extracted: extraction.Extraction{Relationships: rels("Jane Smith", "lives_in", "London")},
			want:      []string{"boundary relationship 0>0"},
		},
		"an end that is a reference to nothing": {
			expected:  extraction.Extraction{Relationships: rels("Ada Lovelace", "wrote_to", "Charles Babbage")},
			extracted: extraction.Extraction{Relationships: []extraction.Relationship{{Source: "Ada Lovelace", Type: "wrote_to", TargetRef: "e9"}}},
			want:      []string{"missed relationship 0>-", "dangling_end relationship ->0"},
		},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			o := DefaultOptions()
			o.FuzzyEntities, o.FuzzyRelationships = !tt.exactOnly, !tt.exactOnly
			r := mustNew(t, o).Score(tt.expected, tt.extracted)
			faults := Classify(r, func(name string) bool { return strings.Contains(document, strings.ToLower(name)) })
			if diff := cmp.Diff(tt.want, cli.Each(faults, faultText)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClassify_once checks that every miss and every wrong type is in exactly one fault, and
// nothing else is in any.
func TestClassify_once(t *testing.T) {
	scorer := mustNew(t, DefaultOptions())
	name := rapid.SampledFrom([]string{"", "Ada", "Ada Lovelace", "Adam Lovelace", "London", "Londen", "Microsoft", "Microsoft Corp", "J. Smith", "John Smith"})
	kind := rapid.SampledFrom([]string{"", "a", "b", "parent_of", "child_of"})
	side := rapid.Custom(func(t *rapid.T) extraction.Extraction {
		e := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
		for range rapid.IntRange(0, 6).Draw(t, "entities") {
			e.Entities = append(e.Entities, extraction.Entity{Name: name.Draw(t, "name"), Type: kind.Draw(t, "type")})
		}
		for range rapid.IntRange(0, 6).Draw(t, "relationships") {
			e.Relationships = append(e.Relationships, extraction.Relationship{Source: name.Draw(t, "source"), Type: kind.Draw(t, "type"), Target: name.Draw(t, "target")})
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		r := scorer.Score(side.Draw(t, "expected"), side.Draw(t, "extracted"))
		var want, got []string
		for _, m := range r.Entities {
			if m.Type == TypeWrong {
				want = append(want, fmt.Sprint("entity e", m.ExpectedIndex), fmt.Sprint("entity x", m.ExtractedIndex))
			}
		}
		for _, m := range r.MissedEntities {
			want = append(want, fmt.Sprint("entity e", m.Index))
		}
		for _, m := range r.SpuriousEntities {
			want = append(want, fmt.Sprint("entity x", m.Index))
		}
		for _, m := range r.MissedRelationships {
			want = append(want, fmt.Sprint("relationship e", m.Index))
		}
		for _, m := range r.SpuriousRelationships {
			want = append(want, fmt.Sprint("relationship x", m.Index))
		}
		for _, f := range Classify(r, nil) {
			if f.Expected != nil {
				got = append(got, fmt.Sprint(f.What, " e", *f.Expected))
			}
			if f.Extracted != nil {
				got = append(got, fmt.Sprint(f.What, " x", *f.Extracted))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("things at fault (-want +got):\n%s", diff)
		}
	})
}

// TestClassify_order checks that the number of faults of each cause does not depend on the order
// of the lists. Collapsed repetitions are excluded, since they have the wording of the first.
func TestClassify_order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.Dedupe = KeepAll
		s := mustNew(t, o)
		expected, extracted := drawExtraction(t, "expected", false), drawExtraction(t, "extracted", false)
		causes := func(r Result) map[string]int {
			n := map[string]int{}
			for _, f := range Classify(r, func(name string) bool { return !strings.HasPrefix(name, "item") }) {
				n[f.What+" "+string(f.Cause)]++
			}
			return n
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		want := causes(s.Score(expected, extracted))
		got := causes(s.Score(shuffled(expected, random), shuffled(extracted, random)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
