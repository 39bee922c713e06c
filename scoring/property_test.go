package scoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// checkCatalogue checks what holds for all results: every score of the catalogue occurs once and
// in order, is within its range and consistent with its ratio, and has either a value or a
// reason.
func checkCatalogue(t interface{ Fatalf(string, ...any) }, r Result) {
	catalogue := Catalog()
	if len(r.Scores) != len(catalogue) {
		t.Fatalf("%d scores, the catalogue has %d", len(r.Scores), len(catalogue))
	}
	for i, s := range r.Scores {
		d := catalogue[i]
		if s.Name != d.Name || s.Boolean != d.Boolean {
			t.Fatalf("score %d is %+v, want %s", i, s, d.Name)
		}
		if (s.Value == nil) == (s.Reason == "") {
			t.Fatalf("%s has neither or both of value and reason: %+v", s.Name, s)
		}
		if s.Value == nil {
			continue
		}
		v := *s.Value
		if !(v >= 0 && v <= 1) || s.Boolean && v != 0 && v != 1 || s.Comment == "" || bytes.ContainsAny([]byte(s.Comment), "{}") {
			t.Fatalf("%s is out of bounds or unexplained: %+v", s.Name, s)
		}
		if s.Ratio.Den > 0 && v != float64(s.Ratio.Num)/float64(s.Ratio.Den) || s.Ratio.Den == 0 && v != toFloat(s.Vacuous) {
			t.Fatalf("%s is not its ratio: %v, %+v", s.Name, v, *s.Ratio)
		}
	}
}

// checkMeasure checks that the result of Measure equals that of Score except for explanations.
func checkMeasure(t interface{ Fatalf(string, ...any) }, long, short Result) {
	plain := func(list []outcome.Score) []outcome.Score {
		list = slices.Clone(list)
		for i := range list {
			list[i].Counts, list[i].Comment = nil, ""
		}
		return list
	}
	if diff := cmp.Diff(plain(long.Scores), plain(short.Scores)) + cmp.Diff(long.Groups, short.Groups) + cmp.Diff(long.Counts, short.Counts); diff != "" {
		t.Fatalf("without explanations: %s", diff)
	}
}

func toFloat(b bool) float64 { return float64(toInt(b)) }

func checkSelfScore(t interface{ Fatalf(string, ...any) }, r Result) {
	for _, s := range r.Scores {
		if s.Value != nil && *s.Value != 1 {
			t.Fatalf("gold against itself: %s is %v", s.Name, *s.Value)
		}
		if s.Value == nil && s.Name != TypeAccuracy {
			t.Fatalf("gold against itself: %s has no value", s.Name)
		}
	}
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Normalise:          rapid.SampledFrom([]Normalisation{NFKCCaseFold, Lower, NoNormalisation}).Draw(t, "normalise"),
		Threshold:          rapid.SampledFrom(someThresholds).Draw(t, "threshold"),
		ThresholdInclusive: rapid.Bool().Draw(t, "inclusive"),
		FoldDiacritics:     rapid.Bool().Draw(t, "diacritics"),
		FuzzyEntities:      rapid.Bool().Draw(t, "fuzzy entities"),
		FuzzyRelationships: rapid.Bool().Draw(t, "fuzzy relationships"),
		Initials:           rapid.Bool().Draw(t, "initials"),
		DigitsEqual:        rapid.Bool().Draw(t, "digits"),
		Inverse:            [][2]string{{"owns", "owned_by"}, {"holds", "owned_by"}, {"mirrors", "mirrors"}},
		Symmetric:          []string{"married_to", "mirrors"},
		TypeAliases:        rapid.SampledFrom([]map[string]string{nil, {"thing": "place"}, {"holds": "owns"}}).Draw(t, "aliases"),
		Dedupe:             rapid.SampledFrom([]Dedupe{KeepAll, CollapseExact}).Draw(t, "dedupe"),
	}
}

func drawExtraction(t *rapid.T, label string, aliases bool) extraction.Extraction {
	return extraction.Extraction{
		Entities:      drawEntities(t, label+" entity", 8, someNames, aliases),
		Relationships: drawRelationships(t, label+" relationship", 8, someEnds, someRelations),
	}
}

func shuffled(e extraction.Extraction, r *rand.Rand) extraction.Extraction {
	e.Entities, e.Relationships = slices.Clone(e.Entities), slices.Clone(e.Relationships)
	r.Shuffle(len(e.Entities), func(i, j int) { e.Entities[i], e.Entities[j] = e.Entities[j], e.Entities[i] })
	r.Shuffle(len(e.Relationships), func(i, j int) {
		e.Relationships[i], e.Relationships[j] = e.Relationships[j], e.Relationships[i]
	})
	return e
}

// contents returns a result without indices and with sorted lists.
func contents(r Result) map[string]any {
	var lines []string
	for _, m := range r.Entities {
		m.ExpectedIndex, m.ExtractedIndex = 0, 0
		lines = append(lines, fmt.Sprintf("match %+v", m))
	}
	for _, m := range r.Relationships {
		m.ExpectedIndex, m.ExtractedIndex = 0, 0
		lines = append(lines, fmt.Sprintf("match %+v", m))
	}
	for i, list := range [][]EntityMiss{r.MissedEntities, r.SpuriousEntities} {
		for _, m := range list {
			line := fmt.Sprint("miss ", i, m.Name, m.Type, m.Reason)
			if m.Nearest != nil {
				line += fmt.Sprint(m.Nearest.Name, m.Nearest.Type, m.Nearest.Ratio, m.Nearest.TakenBy != nil)
			}
			lines = append(lines, line)
		}
	}
	for i, list := range [][]RelationshipMiss{r.MissedRelationships, r.SpuriousRelationships} {
		for _, m := range list {
			line := fmt.Sprint("miss ", i, m.Statement, m.Reason)
			if m.Nearest != nil {
				line += fmt.Sprint(m.Nearest.Statement, m.Nearest.SourceSimilarity, m.Nearest.TargetSimilarity, m.Nearest.TakenBy != nil)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return map[string]any{
		"counts": r.Counts, "scores": r.Scores, "groups": r.Groups, "warnings": r.Warnings, "lines": lines,
		"duplicates": []int{
			len(r.Duplicates.ExpectedEntities), len(r.Duplicates.ExtractedEntities),
			len(r.Duplicates.ExpectedRelationships), len(r.Duplicates.ExtractedRelationships),
		},
	}
}

func TestScore_orderOfListsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.Dedupe = KeepAll
		s := mustNew(t, o)
		expected, extracted := drawExtraction(t, "expected", true), drawExtraction(t, "extracted", false)
		r := s.Score(expected, extracted)
		checkCatalogue(t, r)
		checkMeasure(t, r, s.Measure(expected, extracted))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		again := s.Score(shuffled(expected, random), shuffled(extracted, random))
		if diff := cmp.Diff(contents(r), contents(again)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestScore_orderOfListsChangesNothing_collapsed compares counts and scores only: collapsing
// keeps the spelling of the first, so matches may show another one.
func TestScore_orderOfListsChangesNothing_collapsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		o.Dedupe = CollapseExact
		s := mustNew(t, o)
		expected, extracted := drawExtraction(t, "expected", true), drawExtraction(t, "extracted", false)
		r := s.Score(expected, extracted)
		checkCatalogue(t, r)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		again := s.Score(shuffled(expected, random), shuffled(extracted, random))
		if diff := cmp.Diff(r.Counts, again.Counts); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(r.Scores, again.Scores); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestScore_swappingSidesSwapsPrecisionAndRecall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawOptions(t))
		a, b := drawExtraction(t, "a", false), drawExtraction(t, "b", false)
		there, back := s.Score(a, b), s.Score(b, a)
		if there.Counts.Entities.Matched != back.Counts.Entities.Matched || there.Counts.Relationships.Correct != back.Counts.Relationships.Correct {
			t.Fatalf("%+v and %+v", there.Counts, back.Counts)
		}
		for p, r := range map[string]string{EntityPrecision: EntityRecall, RelationshipAccuracy: RelationshipRecall} {
			x, _ := outcome.Lookup(there.Scores, p)
			y, _ := outcome.Lookup(back.Scores, r)
			if *x.Value != *y.Value {
				t.Fatalf("%s is %v, swapped %s is %v", p, *x.Value, r, *y.Value)
			}
		}
	})
}

// TestScore_goldAgainstItself uses gold that can match completely: no names, types or ends are
// empty.
func TestScore_goldAgainstItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawOptions(t))
		gold := drawExtraction(t, "gold", true)
		gold.Entities = slices.DeleteFunc(gold.Entities, func(e extraction.Entity) bool { return e.Name == "" || e.Type == "" })
		gold.Relationships = slices.DeleteFunc(gold.Relationships, func(r extraction.Relationship) bool {
			return r.Source == "" || r.Target == "" || r.Type == ""
		})
		r := s.Score(gold, gold)
		checkCatalogue(t, r)
		checkSelfScore(t, r)
	})
}

func TestScore_spuriousEntityCannotRaisePrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mustNew(t, drawOptions(t))
		expected, extracted := drawExtraction(t, "expected", true), drawExtraction(t, "extracted", false)
		if len(extracted.Entities) == 0 {
			return
		}
		before, _ := outcome.Lookup(s.Score(expected, extracted).Scores, EntityPrecision)
		extracted.Entities = append(extracted.Entities, extraction.Entity{Name: "zzzzzzzzzzzz qqqqqqqqq"})
		r := s.Score(expected, extracted)
		after, _ := outcome.Lookup(r.Scores, EntityPrecision)
		matched := slices.ContainsFunc(r.Entities, func(m EntityMatch) bool { return m.Extracted == "zzzzzzzzzzzz qqqqqqqqq" })
		if len(r.SpuriousEntities) > 0 && *after.Value > *before.Value && !matched {
			t.Fatalf("precision rose from %v to %v", *before.Value, *after.Value)
		}
	})
}

func TestScore_isSafeForConcurrentUse(t *testing.T) {
	s := mustNew(t, DefaultOptions())
	expected, extracted := specEntities()
	want, err := json.Marshal(s.Score(extraction.Extraction{Entities: expected}, extraction.Extraction{Entities: extracted}))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				got, err := json.Marshal(s.Score(extraction.Extraction{Entities: expected}, extraction.Extraction{Entities: extracted}))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s (%v)", got, err)
				}
			}
		})
	}
	wait.Wait()
}

func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringOfN(rapid.RuneFrom([]rune("abcä北")), 0, 40, -1).Draw(t, "a")
		b := rapid.StringOfN(rapid.RuneFrom([]rune("abcä北")), 0, 40, -1).Draw(t, "b")
		checkDistance(t, a, b, rapid.IntRange(0, 45).Draw(t, "limit"))
	})
}

func checkDistance(t interface{ Fatalf(string, ...any) }, a, b string, limit int) {
	want := levenshtein.ComputeDistance(a, b)
	if want > limit {
		want = -1
	}
	ed := &editor{}
	ed.distance([]rune("something else"), []rune("that was there before"), 20)
	for _, p := range [][2]string{{a, b}, {b, a}} {
		if got, _ := ed.distance([]rune(p[0]), []rune(p[1]), limit); got != want {
			t.Fatalf("distance of %q and %q within %d is %d, want %d", p[0], p[1], limit, got, want)
		}
	}
}

func FuzzSimilarity(f *testing.F) {
	f.Add("John D. Smith", "John Smith", 3)
	f.Add("", "北京大学", 4)
	f.Add("aaaaaaaaab", "baaaaaaaaa", 9)
	f.Fuzz(func(t *testing.T, a, b string, limit int) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) || limit < 0 || len(a)+len(b) > 4000 {
			return
		}
		checkDistance(t, a, b, limit)
		n := &names{dictionary: newDictionary(DefaultOptions().normalise)}
		n.add(a)
		n.add(b)
		n.close()
		p, q := n.profile(n.id(a)), n.profile(n.id(b))
		if d, _ := (&editor{}).distance(p.runes, q.runes, 1<<20); minEdits(p.letters, q.letters) > d {
			t.Fatalf("%q and %q: at least %d edits, but %d do", a, b, minEdits(p.letters, q.letters), d)
		}
	})
}

func FuzzScore(f *testing.F) {
	f.Add([]byte(`{"entities":[{"name":"Ann","type":"P","aliases":["A"]},{"name":"\ud800"}],"relationships":[{"source":"Ann","target":"Bob","type":"owns"}]}`),
		[]byte(`{"entities":[{"name":"ann"}],"relationships":[{"source":"Bob","target_ref":"x","type":"owned_by"}]}`), "0.5", byte(255))
	f.Add([]byte(`{}`), []byte(`{"entities":[]}`), "1", byte(0))
	f.Fuzz(func(t *testing.T, first, second []byte, threshold string, flags byte) {
		expected, _, err := extraction.DecodeExtraction(first)
		if err != nil {
			return
		}
		extracted, _, err := extraction.DecodeExtraction(second)
		if err != nil {
			return
		}
		bit := func(n int) bool { return flags>>n&1 == 1 }
		o := with(func(o *Options) {
			o.Threshold, o.ThresholdInclusive, o.FoldDiacritics, o.Initials = threshold, bit(0), bit(1), bit(2)
			o.DigitsEqual, o.FuzzyEntities, o.FuzzyRelationships = bit(3), bit(4), bit(5)
			if bit(6) {
				o.Dedupe = CollapseExact
			}
			if bit(7) {
				o.Normalise = NoNormalisation
			}
		})
		s, err := New(o)
		if err != nil {
			return
		}
		r := s.Score(expected, extracted)
		checkCatalogue(t, r)
		again := s.Score(shuffled(expected, rand.New(rand.NewPCG(1, 2))), shuffled(extracted, rand.New(rand.NewPCG(3, 4))))
		if diff := cmp.Diff(r.Counts, again.Counts); diff != "" {
			t.Fatal(diff)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
