package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
)

type (
	entity       = extraction.Entity
	span         = extraction.Span
	relationship = extraction.Relationship
	extract      = extraction.Extraction
)

// spacedChunks returns chunks of 100 code points with the extractions, one after the other.
func spacedChunks(extractions ...extract) []chunkResult {
	var parts []chunkResult
	for i, e := range extractions {
		parts = append(parts, chunkResult{e, chunk{Start: 100 * i}})
	}
	return parts
}

// mustDecode decodes an extraction and panics on errors.
func mustDecode(raw string) extract {
	e, _, err := extraction.DecodeExtraction([]byte(raw))
	if err != nil {
		panic(err)
	}
	return e
}

func TestMerge(t *testing.T) {
	inverse := extraction.Vocabulary{Inverse: [][2]string{{"employs", "employed_by"}}, Symmetric: []string{"married_to"}}
	tests := map[string]struct {
		parts []chunkResult
		v     extraction.Vocabulary
		want  extract
		warns []string
	}{
		"nothing": {want: extract{}},
		"lists are nil only if nil everywhere": {
			parts: spacedChunks(extract{}, extract{Entities: []entity{}}),
			want:  extract{Entities: []entity{}},
		},
		"equal names": {
			parts: spacedChunks(
				extract{Entities: []entity{{ID: "e1", Name: "Acme  Corp", Type: "Company", Aliases: []string{"ACME"}, Mentions: []span{{Quote: "Acme", Start: 90, End: 94}}}}},
				extract{Entities: []entity{{ID: "e1", Name: "ＡＣＭＥ corp", Type: "company", Description: "makes all", Aliases: []string{"acme", "A."}, Mentions: []span{{Quote: "A.", Start: 7, End: 9}, {Quote: "x", Start: 0, End: 0}}}}}),
			want: extract{Entities: []entity{{Name: "Acme  Corp", Type: "Company", Description: "makes all", Aliases: []string{"ACME", "A."},
				Mentions: []span{{Quote: "x", Start: 0, End: 0}, {Quote: "Acme", Start: 90, End: 94}, {Quote: "A.", Start: 107, End: 109}}}}},
		},
		"the same mention of the overlap is one": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 101, End: 102}}}}},
				extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 1, End: 2}}}}}),
			want: extract{Entities: []entity{{Name: "A", Mentions: []span{{Quote: "A", Start: 101, End: 102}}}}},
		},
		"no type fits every type": {
			parts: spacedChunks(extract{Entities: []entity{{Name: "A"}}}, extract{Entities: []entity{{Name: "a", Type: "T"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "T"}}},
		},
		"properties: the first that are given": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"b":null,"c":1}`)}}},
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"a":"<","b":2,"c":3}`)}}}),
			want: extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"b":null,"c":1}`)}}},
		},
		"properties that the first lacks": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`null`)}}},
				extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"b":2}`)}}}),
			want: extract{Entities: []entity{{Name: "A", Properties: json.RawMessage(`{"b":2}`)}}},
		},
		"most chunks decide the type": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "A", Type: "City"}}},
				extract{Entities: []entity{{Name: "A", Type: "Person"}}},
				extract{Entities: []entity{{Name: "A", Type: "person"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "Person"}}},
			warns: []string{`entity "A": chunks disagree about its type; of 2 "Person" is kept`},
		},
		"of a tie the first chunk": {
			parts: spacedChunks(extract{Entities: []entity{{Name: "A", Type: "City"}}}, extract{Entities: []entity{{Name: "A", Type: "Person"}}}),
			want:  extract{Entities: []entity{{Name: "A", Type: "City"}}},
			warns: []string{`"City" is kept`},
		},
		"two types in one chunk are two things": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "Paris", Type: "City"}, {Name: "Bo"}, {Name: "Paris", Type: "Person"}}},
				extract{Entities: []entity{{Name: "Paris", Type: "Person", Description: "d"}}}),
			want: extract{Entities: []entity{{Name: "Paris", Type: "City"}, {Name: "Bo"}, {Name: "Paris", Type: "Person", Description: "d"}}},
		},
		"identifiers are local": {
			parts: spacedChunks(
				mustDecode(`{"entities":[{"id":"1","name":"A"}],"relationships":[{"source":"1","target_ref":"1","type":"r"}]}`),
				mustDecode(`{"entities":[{"id":"1","name":"B"}],"relationships":[{"source":"1","target_ref":"7","type":"r"}]}`)),
			want: extract{Entities: []entity{{Name: "A"}, {Name: "B"}},
				Relationships: []relationship{{Source: "A", Target: "A", Type: "r"}, {Source: "B", TargetRef: "7", Type: "r"}}},
		},
		"equal statements": {
			parts: spacedChunks(
				extract{Entities: []entity{{Name: "A", Aliases: []string{"Aa"}}}, Relationships: []relationship{{Source: "A", Target: "B", Type: "works_for"}}},
				extract{Relationships: []relationship{{Source: "a", Target: "b", Type: "Works for", Description: "d"}, {Source: "B", Target: "A", Type: "works_for"}}}),
			want: extract{Entities: []entity{{Name: "A", Aliases: []string{"Aa"}}},
				Relationships: []relationship{{Source: "A", Target: "B", Type: "works_for", Description: "d"}, {Source: "B", Target: "A", Type: "works_for"}}},
		},
		"dangling statements are never one": {
			parts: spacedChunks(extract{Relationships: []relationship{{Source: "A", TargetRef: "7", Type: "r"}}}, extract{Relationships: []relationship{{Source: "A", TargetRef: "7", Type: "r"}}}),
			want:  extract{Relationships: []relationship{{Source: "A", TargetRef: "7", Type: "r"}, {Source: "A", TargetRef: "7", Type: "r"}}},
		},
		"swapped statements without a vocabulary": {
			parts: spacedChunks(extract{Relationships: []relationship{{Source: "A", Target: "B", Type: "married_to"}}}, extract{Relationships: []relationship{{Source: "B", Target: "A", Type: "married_to"}}}),
			want:  extract{Relationships: []relationship{{Source: "A", Target: "B", Type: "married_to"}, {Source: "B", Target: "A", Type: "married_to"}}},
		},
		"swapped statements with one": {
			parts: spacedChunks(
				extract{Relationships: []relationship{{Source: "A", Target: "B", Type: "married_to"}, {Source: "C", Target: "A", Type: "employs"}}},
				extract{Relationships: []relationship{{Source: "B", Target: "A", Type: "married to"}, {Source: "A", Target: "C", Type: "employed_by"}, {Source: "C", Target: "A", Type: "employed_by"}}}),
			v: inverse,
			want: extract{Relationships: []relationship{{Source: "A", Target: "B", Type: "married_to"}, {Source: "C", Target: "A", Type: "employs"},
				{Source: "C", Target: "A", Type: "employed_by"}}},
		},
		"a single part stays but for exact repetitions": {
			parts: spacedChunks(extract{
				Entities:      []entity{{ID: "1", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "2", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "3", Name: "a"}},
				Relationships: []relationship{{Source: "a", Target: "B", Type: "r"}, {Source: "a", Target: "B", Type: "r"}, {Source: "A", Target: "B", Type: "r"}}}),
			want: extract{
				Entities:      []entity{{ID: "1", Name: "A", Type: "T", Aliases: []string{"a"}}, {ID: "3", Name: "a"}},
				Relationships: []relationship{{Source: "a", Target: "B", Type: "r"}, {Source: "A", Target: "B", Type: "r"}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, warnings := mergeChunks(tt.parts, tt.v)
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
			again, _ := mergeChunks([]chunkResult{{Extraction: got}}, tt.v)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("merging again changes it:\n%s", diff)
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
	_, warnings := mergeChunks(spacedChunks(a, b), extraction.Vocabulary{})
	if len(warnings) != maxWarnings+1 || !strings.Contains(warnings[maxWarnings], "200 more") || len(warnings[0]) > 250 {
		t.Errorf("%d warnings, last %q", len(warnings), warnings[len(warnings)-1])
	}
}

// TestVocabulary_scoring checks that the vocabulary of the scorer can be used.
func TestVocabulary_scoring(t *testing.T) {
	v := scoring.SpecificationVocabulary()
	merged, _ := mergeChunks([]chunkResult{
		{Extraction: extraction.Extraction{Relationships: []extraction.Relationship{{Source: "A", Target: "B", Type: "parent_of"}}}},
		{Extraction: extraction.Extraction{Relationships: []extraction.Relationship{{Source: "b", Target: "a", Type: "child_of"}}}},
	}, v)
	if len(merged.Relationships) != 1 {
		t.Errorf("parent_of and child_of are not one: %v", merged.Relationships)
	}
}

var testVocabulary = extraction.Vocabulary{Inverse: [][2]string{{"r", "s"}}, Symmetric: []string{"m"}}

// drawExtraction draws an extraction from few words, so that many are equal.
func drawExtraction(t *rapid.T, types []string) extract {
	name := rapid.SampledFrom([]string{"A", "a", " b", "B", "C", "c  d", "C D", "", "é", "e\u0301"})
	var e extract
	for range rapid.IntRange(0, 5).Draw(t, "entities") {
		drawn := entity{
			ID:          rapid.SampledFrom([]string{"", "1", "2", "A"}).Draw(t, "id"),
			Name:        name.Draw(t, "name"),
			Type:        rapid.SampledFrom(types).Draw(t, "type"),
			Description: rapid.SampledFrom([]string{"", "d"}).Draw(t, "description"),
			Aliases:     rapid.SliceOfN(name, 0, 2).Draw(t, "aliases"),
		}
		if rapid.Bool().Draw(t, "more") {
			drawn.Properties = json.RawMessage(rapid.SampledFrom([]string{`{"x":1}`, `{"x":null,"y":2}`, `[1]`, `{bad`}).Draw(t, "properties"))
			start := rapid.IntRange(-1, 9).Draw(t, "start")
			drawn.Mentions = []span{{Quote: "q", Start: start, End: start + rapid.IntRange(-1, 2).Draw(t, "length")}}
		}
		e.Entities = append(e.Entities, drawn)
	}
	for range rapid.IntRange(0, 5).Draw(t, "relationships") {
		end := rapid.SampledFrom([]string{"A", "a", "B", "C", "1", "2", "zz", "c d", ""})
		e.Relationships = append(e.Relationships, relationship{
			Source: end.Draw(t, "source"), Target: end.Draw(t, "target"), TargetRef: rapid.SampledFrom([]string{"", "", "1", "9"}).Draw(t, "ref"),
			Type: rapid.SampledFrom([]string{"r", "s", "m", "R"}).Draw(t, "relation"),
		})
	}
	return e
}

func drawParts(t *rapid.T, types []string) []chunkResult {
	var parts []chunkResult
	for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
		parts = append(parts, chunkResult{drawExtraction(t, types), chunk{Start: 10 * i}})
	}
	return parts
}

func TestMerge_again(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merged, _ := mergeChunks(drawParts(t, []string{"", "T", "t", "U"}), testVocabulary)
		again, warnings := mergeChunks([]chunkResult{{Extraction: merged}}, testVocabulary)
		if diff := cmp.Diff(merged, again); diff != "" || len(warnings) > 0 {
			t.Fatalf("merging again changes it: %s%q", diff, warnings)
		}
	})
}

// TestMerge_ends checks that a relationship end that named an entity of a part names one after
// merging, and that the name of no entity is lost.
func TestMerge_ends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawParts(t, []string{"", "T", "U"})
		merged, _ := mergeChunks(parts, extraction.Vocabulary{})
		foldedNames, names := map[string]bool{}, map[string]bool{}
		for _, e := range merged.Entities {
			names[e.Name] = true
			foldedNames[textutil.FoldName(e.Name)] = true
			for _, alias := range e.Aliases {
				foldedNames[textutil.FoldName(alias)] = true
			}
		}
		existing := map[string]bool{}
		for _, p := range parts {
			for _, e := range p.Extraction.Entities {
				existing[textutil.FoldName(e.Name)] = true
				if textutil.FoldName(e.Name) != "" && !foldedNames[textutil.FoldName(e.Name)] {
					t.Fatalf("the name %q is lost", e.Name)
				}
			}
		}
		for _, r := range merged.Relationships {
			for _, end := range []string{r.Source, r.Target} {
				if len(parts) > 1 && textutil.FoldName(end) != "" && existing[textutil.FoldName(end)] && !names[end] {
					t.Fatalf("%q is at the end of %v and is not an entity", end, r)
				}
			}
		}
	})
}

// TestMerge_order checks that the order of the parts does not change which names an entity has.
func TestMerge_order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawParts(t, []string{"T"})
		shuffled := rapid.Permutation(parts).Draw(t, "order")
		if len(parts) == 1 {
			return
		}
		for i := range shuffled {
			shuffled[i].chunk = chunk{Start: 10 * i}
		}
		a, _ := mergeChunks(parts, extraction.Vocabulary{})
		b, _ := mergeChunks(shuffled, extraction.Vocabulary{})
		if diff := cmp.Diff(nameSets(a), nameSets(b)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// nameSets returns the folded names and aliases of each entity, sorted.
func nameSets(extracted extraction.Extraction) []string {
	var sets []string
	for _, e := range extracted.Entities {
		if textutil.FoldName(e.Name) == "" {
			continue // exact repetitions among entities without a name are removed
		}
		names := []string{textutil.FoldName(e.Name)}
		for _, alias := range e.Aliases {
			names = append(names, textutil.FoldName(alias))
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
		sets = append(sets, fmt.Sprintf("%q", names))
	}
	slices.Sort(sets)
	return sets
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"entities":[{"id":"1","name":"A","type":"T","aliases":["B"],"mentions":[{"quote":"A","start":0,"end":1}]}],"relationships":[{"source":"1","target_ref":"x","type":"r"}]}`),
		[]byte(`{"entities":[{"name":"B","type":"T","properties":{"a":null}},{"name":"a","type":"U"}],"relationships":[{"source":"B","target":"A","type":"s"}]}`))
	f.Add([]byte(`{"entities":[{"name":""}]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, _, err := extraction.DecodeExtraction(first)
		if err != nil {
			return
		}
		b, _, err := extraction.DecodeExtraction(second)
		if err != nil {
			return
		}
		merged, _ := mergeChunks([]chunkResult{{a, chunk{Start: 0}}, {b, chunk{Start: 10}}}, testVocabulary)
		if again, _ := mergeChunks([]chunkResult{{Extraction: merged}}, testVocabulary); !cmp.Equal(merged, again) {
			t.Fatalf("merging again changes it: %s", cmp.Diff(merged, again))
		}
		if len(merged.Entities) > len(a.Entities)+len(b.Entities) || len(merged.Relationships) > len(a.Relationships)+len(b.Relationships) {
			t.Fatal("something appeared from nowhere")
		}
		if (merged.Entities == nil) != (a.Entities == nil && b.Entities == nil) {
			t.Fatal("nil and empty are confused")
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	parts := make([]chunkResult, 20)
	for i := range parts {
		var e extract
		for j := range 10_000 {
			name := fmt.Sprintf("Entity %d", (i*5_000+j)%60_000)
			e.Entities = append(e.Entities, entity{Name: name, Type: "T", Aliases: []string{strings.ToUpper(name), "E" + name}})
			e.Relationships = append(e.Relationships, relationship{Source: name, Target: "Entity 7", Type: "knows"})
		}
		parts[i] = chunkResult{e, chunk{Start: 1000 * i}}
	}
	b.ReportAllocs()
	for b.Loop() {
		mergeChunks(parts, testVocabulary)
	}
}

// person returns the name of a person, who works for the company of the same number.
func person(i int) string  { return fmt.Sprintf("Dr. Vera Ågren%02d", i) }
func company(i int) string { return fmt.Sprintf("Nordwind%02d Ltd.", i) }

// fortyPages returns a document of about 40 pages (about 110,000 code points). Each page has a few
// people and companies again and again, and the next page has others, so that each name is in
// several chunks and none is in all. Many sentences cross the borders of chunks.
func fortyPages() string {
	var b strings.Builder
	for n := 0; b.Len() < 111_000; n++ {
		i := (n/90*5 + n*n%11) % 30
		switch n % 3 {
		case 0:
			fmt.Fprintf(&b, "%s works for %s since 3. May, e.g. in Oslo. ", person(i), company(i))
		case 1:
			fmt.Fprintf(&b, "Nobody had expected %s there! ", person(i))
		default:
			fmt.Fprintf(&b, "Was it %s who paid 3.50 € — or not? ", company(i))
		}
		if n%25 == 24 {
			b.WriteString("\n\n")
		}
	}
	return b.String()
}

// fakeExtract returns the people and companies in a chunk, with all mentions, and who works for
// whom.
func fakeExtract(text string) extract {
	e := extract{Entities: []entity{}, Relationships: []relationship{}}
	for i := range 30 {
		for kind, name := range map[string]string{"Person": person(i), "Company": company(i)} {
			if spans := findSpans(text, name); spans != nil {
				e.Entities = append(e.Entities, entity{Name: name, Type: kind, Mentions: spans})
			}
		}
	}
	slices.SortFunc(e.Entities, func(a, b entity) int { return strings.Compare(a.Name, b.Name) })
	for i := range e.Entities {
		e.Entities[i].ID = fmt.Sprint("e", i)
	}
	for i := range 30 {
		if strings.Contains(text, person(i)+" works for "+company(i)) {
			e.Relationships = append(e.Relationships, relationship{Source: person(i), Target: company(i), Type: "works_for"})
		}
	}
	return e
}

// findSpans returns the span of every occurrence of name, in code points.
func findSpans(text, name string) []span {
	var spans []span
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return spans
		}
		start := len([]rune(text[:at+i]))
		spans = append(spans, span{Quote: name, Start: start, End: start + len([]rune(name))})
		at += i + len(name)
	}
}

func TestMerge_fortyPages(t *testing.T) {
	text := fortyPages()
	chunks := splitText(text, 6_000, 300)
	if len(chunks) != 20 {
		t.Fatalf("%d chunks", len(chunks))
	}
	chunkCount := map[string]int{}
	var parts []chunkResult
	for _, c := range chunks {
		found := fakeExtract(c.Text)
		for _, e := range found.Entities {
			chunkCount[e.Name]++
		}
		parts = append(parts, chunkResult{found, c})
	}
	counts := slices.Sorted(maps.Values(chunkCount))
	if len(counts) < 40 || counts[0] < 2 || counts[len(counts)-1] == len(chunks) {
		t.Fatalf("%d entities, in %v chunks: they do not recur as this test needs it", len(counts), counts)
	}
	got, warnings := mergeChunks(parts, extraction.Vocabulary{})
	whole := fakeExtract(text)
	want, _ := mergeChunks([]chunkResult{{Extraction: whole}}, extraction.Vocabulary{})
	for i := range want.Entities {
		want.Entities[i].ID = ""
	}
	slices.SortFunc(got.Entities, func(a, b entity) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(got.Relationships, func(a, b relationship) int { return strings.Compare(a.Source, b.Source) })
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Errorf("read in chunks and read whole differ: %s%q", diff, warnings)
	}
}
