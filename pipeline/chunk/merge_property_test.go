package chunk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/extraction"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var table = Vocabulary{Inverse: [][2]string{{"r", "s"}}, Symmetric: []string{"m"}}

// drawExtraction draws from few words, so that everything collides.
func drawExtraction(t *rapid.T, types []string) extract {
	name := rapid.SampledFrom([]string{"A", "a", " b", "B", "C", "c  d", "C D", "", "é", "e\u0301"})
	var e extract
	for range rapid.IntRange(0, 5).Draw(t, "entities") {
		one := entity{
			ID:          rapid.SampledFrom([]string{"", "1", "2", "A"}).Draw(t, "id"),
			Name:        name.Draw(t, "name"),
			Type:        rapid.SampledFrom(types).Draw(t, "type"),
			Description: rapid.SampledFrom([]string{"", "d"}).Draw(t, "description"),
			Aliases:     rapid.SliceOfN(name, 0, 2).Draw(t, "aliases"),
		}
		if rapid.Bool().Draw(t, "more") {
			one.Properties = json.RawMessage(rapid.SampledFrom([]string{`{"x":1}`, `{"x":null,"y":2}`, `[1]`, `{bad`}).Draw(t, "properties"))
			start := rapid.IntRange(-1, 9).Draw(t, "start")
			one.Mentions = []span{{Quote: "q", Start: start, End: start + rapid.IntRange(-1, 2).Draw(t, "length")}}
		}
		e.Entities = append(e.Entities, one)
	}
	for range rapid.IntRange(0, 5).Draw(t, "relationships") {
		end := rapid.SampledFrom([]string{"A", "a", "B", "C", "1", "2", "zz", "c d", ""})
		e.Relationships = append(e.Relationships, state{
			Source: end.Draw(t, "source"), Target: end.Draw(t, "target"), TargetRef: rapid.SampledFrom([]string{"", "", "1", "9"}).Draw(t, "ref"),
			Type: rapid.SampledFrom([]string{"r", "s", "m", "R"}).Draw(t, "relation"),
		})
	}
	return e
}

func drawParts(t *rapid.T, types []string) []Part {
	var parts []Part
	for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
		parts = append(parts, Part{drawExtraction(t, types), Chunk{Start: 10 * i, End: 10*i + 12}})
	}
	return parts
}

func TestMerge_again(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once, _ := Merge(drawParts(t, []string{"", "T", "t", "U"}), table)
		twice, warnings := Merge([]Part{{Extraction: once}}, table)
		if diff := cmp.Diff(once, twice); diff != "" || len(warnings) > 0 {
			t.Fatalf("merging again changes it: %s%q", diff, warnings)
		}
	})
}

// TestMerge_ends checks that a statement that names an entity of its part names
// one afterwards, and that no statement is lost but to an equal one.
func TestMerge_ends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawParts(t, []string{"", "T", "U"})
		merged, _ := Merge(parts, Vocabulary{})
		k := newKeys()
		listed, spelled := map[string]bool{}, map[string]bool{}
		for _, e := range merged.Entities {
			spelled[e.Name] = true
			listed[k.name(e.Name)] = true
			for _, alias := range e.Aliases {
				listed[k.name(alias)] = true
			}
		}
		had := map[string]bool{}
		for _, p := range parts {
			for _, e := range p.Extraction.Entities {
				had[k.name(e.Name)] = true
				if k.name(e.Name) != "" && !listed[k.name(e.Name)] {
					t.Fatalf("the name %q is lost", e.Name)
				}
			}
		}
		for _, r := range merged.Relationships {
			for _, end := range []string{r.Source, r.Target} {
				if len(parts) > 1 && k.name(end) != "" && had[k.name(end)] && !spelled[end] {
					t.Fatalf("%q is at the end of %v and is no entity", end, r)
				}
			}
		}
	})
}

// TestMerge_order moves the parts about in the document: what is found stays the
// same but for order, first spellings, and values of which the first counts.
func TestMerge_order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawParts(t, []string{"T"})
		moved := rapid.Permutation(parts).Draw(t, "order")
		if len(parts) == 1 {
			return
		}
		for i := range moved {
			moved[i].Chunk = Chunk{Start: 10 * i, End: 10*i + 12}
		}
		a, _ := Merge(parts, Vocabulary{})
		b, _ := Merge(moved, Vocabulary{})
		if diff := cmp.Diff(nameSets(a), nameSets(b)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// nameSets returns the names and aliases of each entity, without order.
func nameSets(e extraction.Extraction) []string {
	k := newKeys()
	var sets []string
	for _, one := range e.Entities {
		if k.name(one.Name) == "" {
			continue // of several without a name, equal ones go
		}
		names := []string{k.name(one.Name)}
		for _, alias := range one.Aliases {
			names = append(names, k.name(alias))
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
		once, _ := Merge([]Part{{a, Chunk{Start: 0, End: 12}}, {b, Chunk{Start: 10, End: 22}}}, table)
		if twice, _ := Merge([]Part{{Extraction: once}}, table); !cmp.Equal(once, twice) {
			t.Fatalf("merging again changes it: %s", cmp.Diff(once, twice))
		}
		if len(once.Entities) > len(a.Entities)+len(b.Entities) || len(once.Relationships) > len(a.Relationships)+len(b.Relationships) {
			t.Fatal("something appeared from nowhere")
		}
		if (once.Entities == nil) != (a.Entities == nil && b.Entities == nil) {
			t.Fatal("nil and empty are confused")
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	parts := make([]Part, 20)
	for i := range parts {
		var e extract
		for j := range 10_000 {
			name := fmt.Sprintf("Entity %d", (i*5_000+j)%60_000)
			e.Entities = append(e.Entities, entity{Name: name, Type: "T", Aliases: []string{strings.ToUpper(name), "E" + name}})
			e.Relationships = append(e.Relationships, state{Source: name, Target: "Entity 7", Type: "knows"})
		}
		parts[i] = Part{e, Chunk{Start: 1000 * i, End: 1000*i + 1100}}
	}
	b.ReportAllocs()
	for b.Loop() {
		Merge(parts, table)
	}
}
