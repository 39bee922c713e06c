package scoring

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/testkit/suite"
)

// randomName returns a name of two or three random words. Few such names are similar.
func randomName(r *rand.Rand) string {
	var words []string
	for range 2 + r.IntN(2) {
		word := make([]byte, 3+r.IntN(7))
		for i := range word {
			word[i] = byte('a' + r.IntN(26))
		}
		words = append(words, string(word))
	}
	return strings.Join(words, " ")
}

func randomExtraction(r *rand.Rand, n int) extraction.Extraction {
	types := []string{"person", "place", "company"}
	relations := []string{"owns", "employs", "married_to", "born_in"}
	e := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for range n {
		e.Entities = append(e.Entities, extraction.Entity{Name: randomName(r), Type: types[r.IntN(3)]})
	}
	for range n {
		e.Relationships = append(e.Relationships, extraction.Relationship{
			Source: e.Entities[r.IntN(n)].Name, Target: e.Entities[r.IntN(n)].Name, Type: relations[r.IntN(4)],
		})
	}
	return e
}

// perturbed returns gold as a model might extract it: some things are missing, misspelled,
// mistyped, swapped or invented.
func perturbed(r *rand.Rand, gold extraction.Extraction) extraction.Extraction {
	spelling := map[string]string{}
	misspell := func(name string) string {
		if _, known := spelling[name]; !known {
			runes := []rune(name)
			if len(runes) > 0 && r.IntN(4) == 0 {
				i := r.IntN(len(runes))
				runes = append(runes[:i:i], runes[i+1:]...)
			}
			spelling[name] = string(runes)
		}
		return spelling[name]
	}
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for _, e := range gold.Entities {
		switch e.Name = misspell(e.Name); r.IntN(10) {
		case 0:
			continue
		case 1:
			e.Type = "other"
		case 2:
			out.Entities = append(out.Entities, extraction.Entity{Name: randomName(r), Type: e.Type})
		}
		out.Entities = append(out.Entities, e)
	}
	for _, rel := range gold.Relationships {
		rel.Source, rel.Target = misspell(rel.Source), misspell(rel.Target)
		switch r.IntN(10) {
		case 0:
			continue
		case 1:
			rel.Type = "other"
		case 2:
			rel.Source, rel.Target = rel.Target, rel.Source
		}
		out.Relationships = append(out.Relationships, rel)
	}
	return shuffled(out, r)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// scoreWithin scores and fails if that takes longer than limit, which is generous for a busy
// machine.
func scoreWithin(t *testing.T, limit time.Duration, expected, extracted extraction.Extraction) Result {
	t.Helper()
	start := time.Now()
	r := mustNew(t, DefaultOptions()).Score(expected, extracted)
	if took := time.Since(start); took > limit {
		t.Errorf("took %v, more than %v", took, limit)
	} else {
		t.Logf("took %v; warnings %q", took, r.Warnings)
	}
	checkCatalogue(t, r)
	return r
}

func TestScore_longNames(t *testing.T) {
	r := newRand(1)
	long := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(randomName(r) + " ")
		}
		return b.String()[:n]
	}
	t.Run("one of 70,000 code points", func(t *testing.T) {
		scoreWithin(t, 10*time.Second, extraction.Extraction{Entities: ents(long(70_000), "")}, extraction.Extraction{Entities: ents(long(70_000), "")})
	})
	t.Run("eight of 10,000", func(t *testing.T) {
		suite.Slow(t, "64 pairs of long names")
		var expected, extracted []string
		for range 8 {
			expected, extracted = append(expected, long(10_000), ""), append(extracted, long(10_000), "")
		}
		scoreWithin(t, 20*time.Second, extraction.Extraction{Entities: ents(expected...)}, extraction.Extraction{Entities: ents(extracted...)})
	})
	t.Run("similar ones match", func(t *testing.T) {
		name := long(10_000)
		got := scoreWithin(t, 5*time.Second, extraction.Extraction{Entities: ents(name, "")}, extraction.Extraction{Entities: ents("x"+name[2:], "")})
		if got.Counts.Entities.Matched != 1 {
			t.Errorf("%+v", got.Counts.Entities)
		}
	})
	t.Run("repetitive ones", func(t *testing.T) {
		a, b := strings.Repeat("ab", 5000), strings.Repeat("aab", 3333)
		scoreWithin(t, 10*time.Second, extraction.Extraction{Entities: ents(a, ""), Relationships: rels(a, "owns", b)}, extraction.Extraction{Entities: ents(b, ""), Relationships: rels(b, "owns", a)})
	})
}

func TestScore_invalidUTF8(t *testing.T) {
	bad := ents("caf\xe9", "p\xff", "caf\xe8", "", "\xff", "")
	r := scoreWithin(t, 5*time.Second, extraction.Extraction{Entities: bad, Relationships: rels("\xff", "owns", "\xfe")}, extraction.Extraction{Entities: bad, Relationships: rels("\xff", "owns", "\xfe")})
	if r.Counts.Entities.Exact != 3 || r.Counts.Relationships.Exact != 1 {
		t.Errorf("%+v %+v", r.Counts.Entities, r.Counts.Relationships)
	}
}

// numbered returns n entities and relationships whose names are similar to very many others.
func numbered(from, n int) extraction.Extraction {
	var e extraction.Extraction
	for i := range n {
		e.Entities = append(e.Entities, extraction.Entity{Name: fmt.Sprintf("employee number %06d", from+i), Type: "person"})
		e.Relationships = append(e.Relationships, extraction.Relationship{Source: "acme", Type: "employs", Target: fmt.Sprintf("employee number %06d", from+i)})
	}
	return e
}

func TestScore_large(t *testing.T) {
	suite.Slow(t, "large inputs")
	t.Run("10,000 against a perturbed copy", func(t *testing.T) {
		r := newRand(2)
		gold := randomExtraction(r, 10_000)
		scoreWithin(t, 60*time.Second, gold, perturbed(r, gold))
	})
	t.Run("600 similar names against 600 others", func(t *testing.T) {
		got := scoreWithin(t, 60*time.Second, numbered(0, 600), numbered(300, 600))
		if got.Counts.Entities.Exact != 300 || got.Counts.Relationships.Exact != 300 {
			t.Errorf("%+v %+v", got.Counts.Entities, got.Counts.Relationships)
		}
	})
	t.Run("3,000 similar names against 3,000 others", func(t *testing.T) {
		a, b := numbered(0, 3_000), numbered(3_000, 3_000)
		a.Relationships, b.Relationships = nil, nil
		first := scoreWithin(t, 60*time.Second, a, b)
		r := newRand(3)
		second := scoreWithin(t, 60*time.Second, shuffled(a, r), shuffled(b, r))
		if diff := cmp.Diff(first.Counts, second.Counts); diff != "" || len(first.Warnings) == 0 {
			t.Errorf("warnings %q, counts differ by %s", first.Warnings, diff)
		}
	})
	t.Run("20,000 copies of one name, all of other types", func(t *testing.T) {
		var a, b extraction.Extraction
		for i := range 20_000 {
			a.Entities = append(a.Entities, extraction.Entity{Name: "Ada", Type: fmt.Sprint("a", i)})
			b.Entities = append(b.Entities, extraction.Entity{Name: "ADA", Type: fmt.Sprint("a", 2*i)})
		}
		// Types a0, a2 … a19998 are on both sides.
		if got := scoreWithin(t, 60*time.Second, a, b); got.Counts.Entities.Strict != 10_000 || got.Counts.Entities.Matched != 20_000 {
			t.Errorf("%+v", got.Counts.Entities)
		}
	})
}

// TestEndNames_shared checks that the names of entities that share an alias are put together once, and
// in one list for all aliases that they share.
func TestEndNames_shared(t *testing.T) {
	expected := extraction.Extraction{Entities: ents("Acme", "", "Apex", "")}
	for i := range expected.Entities {
		expected.Entities[i].Aliases = []string{"the company", "the firm"}
	}
	c := newCall(mustNew(t, DefaultOptions()), expected, extraction.Extraction{}, true)
	company, firm := c.names.id("the company"), c.names.id("the firm")
	if a, b := c.endNames.names(company), c.endNames.names(firm); len(a) != 4 || &a[0] != &b[0] {
		t.Errorf("%v %v", a, b)
	}
	if n := testing.AllocsPerRun(1, func() { c.endNames.names(company) }); n > 0 {
		t.Errorf("%v allocations for names that are known", n)
	}
}

func documents60(t testing.TB) []extraction.Extraction {
	f, err := os.Open("../../shared/data/documents60.jsonl")
	if err != nil {
		t.Skip("the development documents are not here")
	}
	defer f.Close()
	var list []extraction.Extraction
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var item struct {
			Expected  json.RawMessage `json:"expected_output"`
			Expected2 json.RawMessage `json:"expected"`
			Expected3 json.RawMessage `json:"expectedOutput"`
		}
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			t.Fatal(err)
		}
		raw := append(append(item.Expected, item.Expected2...), item.Expected3...)
		e, _, err := extraction.DecodeExtraction(raw)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	if err := lines.Err(); err != nil || len(list) != 60 {
		t.Fatalf("%d documents (%v)", len(list), err)
	}
	return list
}

func TestScore_documents60(t *testing.T) {
	s := mustNew(t, DefaultOptions())
	r := newRand(4)
	for i, gold := range documents60(t) {
		checkSelfScore(t, s.Score(gold, gold))
		out := perturbed(r, gold)
		first := s.Score(gold, out)
		checkCatalogue(t, first)
		again := s.Score(shuffled(gold, r), shuffled(out, r))
		if diff := cmp.Diff(contents(first), contents(again)); diff != "" {
			t.Fatalf("document %d: %s", i, diff)
		}
	}
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{20, 1000, 100_000} {
		b.Run(fmt.Sprintf("%d entities and relationships", n), func(b *testing.B) {
			r := newRand(5)
			gold := randomExtraction(r, n)
			out := perturbed(r, gold)
			s := mustNew(b, DefaultOptions())
			b.ReportAllocs()
			for b.Loop() {
				s.Score(gold, out)
			}
		})
	}
	b.Run("60 documents", func(b *testing.B) {
		gold := documents60(b)
		var out []extraction.Extraction
		r := newRand(6)
		for _, g := range gold {
			out = append(out, perturbed(r, g))
		}
		s := mustNew(b, DefaultOptions())
		b.ReportAllocs()
		for b.Loop() {
			for i := range gold {
				s.Score(gold[i], out[i])
			}
		}
	})
}
