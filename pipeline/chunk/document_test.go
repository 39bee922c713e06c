package chunk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// person is somebody of the generated document, who works for the company of
// the same number.
func person(i int) string  { return fmt.Sprintf("Dr. Vera Ågren%02d", i) }
func company(i int) string { return fmt.Sprintf("Nordwind%02d Ltd.", i) }

// fortyPages writes a document of about 40 pages (about 110,000 code points): on
// each page a few people and companies are met again and again, and others on
// the next, so that all recur in several chunks and none in every one. Many
// sentences lie across the borders of chunks.
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

// read is a deterministic model: it finds the people and companies that stand in
// a chunk, each at every place, and who works for whom, with identifiers that
// are local to the chunk.
func read(text string) extract {
	e := extract{Entities: []entity{}, Relationships: []state{}}
	for i := range 30 {
		for kind, name := range map[string]string{"Person": person(i), "Company": company(i)} {
			if spans := places(text, name); spans != nil {
				e.Entities = append(e.Entities, entity{Name: name, Type: kind, Mentions: spans})
			}
		}
	}
	slices.SortFunc(e.Entities, func(a, b entity) int { return strings.Compare(a.Name, b.Name) })
	ids := map[string]string{}
	for i := range e.Entities {
		e.Entities[i].ID = fmt.Sprint("e", i)
		ids[e.Entities[i].Name] = e.Entities[i].ID
	}
	for i := range 30 {
		if strings.Contains(text, person(i)+" works for "+company(i)) {
			e.Relationships = append(e.Relationships, state{SourceRef: ids[person(i)], TargetRef: ids[company(i)], Type: "works_for"})
		}
	}
	return e
}

func places(text, name string) []span {
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
	chunks := Split(text, Config{MaxRunes: 6_000, Overlap: 300})
	if len(chunks) != 20 {
		t.Fatalf("%d chunks", len(chunks))
	}
	recurring := map[string]int{}
	var parts []Part
	for _, c := range chunks {
		found := read(c.Text)
		for _, e := range found.Entities {
			recurring[e.Name]++
		}
		parts = append(parts, Part{found, c})
	}
	counts := slices.Sorted(maps.Values(recurring))
	if len(counts) < 40 || counts[0] < 2 || counts[len(counts)-1] == len(chunks) {
		t.Fatalf("%d entities, in %v chunks: they do not recur as this test needs it", len(counts), counts)
	}
	got, warnings := Merge(parts, Vocabulary{})
	whole := read(text)
	want, _ := Merge([]Part{{Extraction: whole}}, Vocabulary{})
	for i := range want.Entities {
		want.Entities[i].ID = ""
	}
	slices.SortFunc(got.Entities, func(a, b entity) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(got.Relationships, func(a, b state) int { return strings.Compare(a.Source, b.Source) })
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Errorf("read in chunks and read whole differ: %s%q", diff, warnings)
	}
}
