package extraction_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// generator makes pairs of similar extractions: elements are left out, repeated and added, names
// differ a little, and some relationships have ends that are no entity.
type generator struct{ *rand.Rand }

var (
	firstNames        = []string{"John", "Jon", "Jane", "Müller", "Анна", "北京", "O'Brien", "Apollo", "São", "Louis"}
	lastNames         = []string{"Smith", "Smyth", "Corporation", "11", "12", "Иванова", "大学", "-- x", "XIV", "Paulo"}
	entityTypes       = []string{"Person", "person", "Organization", "", "Place_Name", "place name"}
	relationshipTypes = []string{"parent_of", "child_of", "married_to", "employs", "employed_by", "knows", "located_in"}
)

func pick(g generator, from []string) string { return from[g.IntN(len(from))] }

func (g generator) entities(n int) []map[string]any {
	list := []map[string]any{}
	for range n {
		e := map[string]any{"name": pick(g, firstNames) + " " + pick(g, lastNames), "type": pick(g, entityTypes)}
		if g.IntN(4) == 0 {
			e["aliases"] = []string{pick(g, firstNames), pick(g, lastNames) + "x"}
		}
		list = append(list, e)
	}
	return list
}

func (g generator) relationships(n int, entities []map[string]any) []map[string]any {
	list := []map[string]any{}
	for range n {
		r := map[string]any{"relationship_type": pick(g, relationshipTypes), "source_name": pick(g, firstNames) + " " + pick(g, lastNames)}
		if len(entities) > 0 && g.IntN(3) > 0 {
			r["source_name"] = entities[g.IntN(len(entities))]["name"]
		}
		r["target_name"] = pick(g, firstNames) + " " + pick(g, lastNames)
		if g.IntN(8) == 0 {
			delete(r, "target_name")
			r["target_ref"] = "e99"
		}
		list = append(list, r)
	}
	return list
}

// extraction returns one side of a pair; disturb makes the other side from it.
func (g generator) extraction() map[string]any {
	e := g.entities(g.IntN(8))
	return map[string]any{"entities": e, "relationships": g.relationships(g.IntN(6), e)}
}

// disturb leaves out some elements of a side, repeats others and adds new ones.
func (g generator) disturb(side map[string]any) map[string]any {
	out := map[string]any{}
	for key, list := range side {
		var kept []map[string]any
		for _, thing := range list.([]map[string]any) {
			switch g.IntN(6) {
			case 0: // left out
			case 1:
				kept = append(kept, thing, thing)
			default:
				kept = append(kept, thing)
			}
		}
		out[key] = kept
	}
	out["entities"] = append(out["entities"].([]map[string]any), g.entities(g.IntN(3))...)
	out["relationships"] = append(out["relationships"].([]map[string]any), g.relationships(g.IntN(3), nil)...)
	return out
}

func (g generator) shuffle(side map[string]any) map[string]any {
	out := map[string]any{}
	for key, list := range side {
		mixed := append([]map[string]any{}, list.([]map[string]any)...)
		g.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		out[key] = mixed
	}
	return out
}

func pairLine(t testing.TB, id int, expected, extracted map[string]any) string {
	raw, err := json.Marshal(map[string]any{"id": fmt.Sprint(id), "expected": expected, "extracted": extracted})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

type scoredLine struct {
	ID     string
	Counts map[string]*int64
	Scores map[string]*float64
}

func scorePairs(t testing.TB, pairs string) []scoredLine {
	t.Helper()
	var out bytes.Buffer
	p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "pairs"}
	if err := p.Score(context.Background(), strings.NewReader(pairs), &out); err != nil {
		t.Fatal(err)
	}
	var lines []scoredLine
	for dec := json.NewDecoder(&out); ; {
		var l scoredLine
		if err := dec.Decode(&l); err == io.EOF {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
}

// TestPairs_shuffled checks that no count and no score of 2,000 generated pairs (200 without
// suite.Full) changes if all lists are shuffled.
func TestPairs_shuffled(t *testing.T) {
	pairs := suite.SampleOr(200, 2000)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var plain, mixed strings.Builder
	for i := range pairs {
		expected := g.extraction()
		extracted := g.disturb(expected)
		plain.WriteString(pairLine(t, i, expected, extracted))
		mixed.WriteString(pairLine(t, i, g.shuffle(expected), g.shuffle(extracted)))
	}
	a, b := scorePairs(t, plain.String()), scorePairs(t, mixed.String())
	if len(a) != pairs || len(b) != pairs {
		t.Fatalf("%d and %d lines of %d", len(a), len(b), pairs)
	}
	matched := int64(0)
	for i := range a {
		if diff := cmp.Diff(a[i], b[i]); diff != "" {
			t.Fatalf("pair %d, shuffled:\n%s", i, diff)
		}
		matched += *a[i].Counts["matched_entities"]
	}
	if matched < int64(pairs) { // otherwise the test proves little
		t.Errorf("only %d entities matched in all", matched)
	}
}

func TestPairs_problemsDoNotStopTheRest(t *testing.T) {
	in := "\ufeff" + `{"id":"a","expected":{"entities":[]},"extracted":{}}

not json
{"id":"b","expected":{"entities":5},"extracted":{}}
{"id":"c","expected":{"entities":[]},"extracted":{"entities":"x"}}
{"id":"d","expected":{"entities":[]},"extracted":{},"options":{"treshold":1}}
{"id":"e","expected":null,"extracted":null,"error":"timeout: 30s"}
["f"]
{"id":"g"}
{"id":"a","expected":{"entities":[]},"extracted":{}}
{"id":"e","expected":{"entities":[]},"extracted":{}}
{"id":"h","expected":{"entities":[]},"extracted":{},"expected":{}}`
	var out bytes.Buffer
	var seen []outcome.Outcome
	p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "x.jsonl", Scored: func(o outcome.Outcome) { seen = append(seen, o) }}
	err := p.Score(t.Context(), strings.NewReader(in), &out)
	for _, want := range []string{"x.jsonl: line 3", "x.jsonl: line 4: expected: entities", "x.jsonl: line 5: extracted: entities", "x.jsonl: line 6", "threshold",
		"x.jsonl: line 8: expected an object with id, expected and extracted", "x.jsonl: line 9: expected an object", "the last two are required",
		`x.jsonl: line 10: the id "a" is that of line 1`, `x.jsonl: line 11: the id "e" is that of line 7`,
		`x.jsonl: line 12: the key "expected" is given twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || len(seen) != 2 || seen[1].Class != outcome.Timeout {
		t.Errorf("%d lines, outcomes %+v\n%s", lines, seen, out.String())
	}
}

// TestPairs_broken checks that the results of all lines before a read error are written.
func TestPairs_broken(t *testing.T) {
	const pairs = 1000
	diskErr := errors.New("the disk is gone")
	good := strings.Repeat(`{"expected":{"entities":[]},"extracted":{}}`+"\n", pairs) // ids may be missing
	var out bytes.Buffer
	p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "x.jsonl"}
	err := p.Score(t.Context(), io.MultiReader(strings.NewReader(good+`{"id":`), iotest.ErrReader(diskErr)), &out)
	if !errors.Is(err, diskErr) || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "x.jsonl: line 1001") {
		t.Errorf("got %v", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != pairs {
		t.Errorf("%d lines of %d", lines, pairs)
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(`{"id":"a","expected":{"entities":[{"name":"Ann"}]},"extracted":{"entities":[{"name":"Anne"}]},"options":{"threshold":"0.5"}}`)
	f.Add(`{"extracted":null,"error":"x"}`)
	f.Add(`{"expected":{},"id":"\u0061\ud800","options":null,"id":"b","extracted":{"entities":null},"error":"y"}`)
	f.Add(`{"ID":"a","expected":{},"extracted":{},"Extracted":null,"error":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var out, unusual bytes.Buffer
		p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "fuzz"}
		_ = p.Score(t.Context(), strings.NewReader(text), &out) // any error, no panic
		// An unknown key must not change the result.
		text = regexp.MustCompile(`(?m)^\s*\{`).ReplaceAllString(text, "${0}\"ignored\":0,")
		_ = p.Score(t.Context(), strings.NewReader(text), &unusual)
		if out.String() != unusual.String() {
			t.Fatalf("%s became\n%s, with an unknown key\n%s", text, &out, &unusual)
		}
		for l := range strings.Lines(out.String()) {
			if !json.Valid([]byte(l)) {
				t.Fatalf("not JSON: %s", l)
			}
		}
	})
}

// BenchmarkPairs scores a stream of 1,000 generated pairs.
func BenchmarkPairs(b *testing.B) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var one strings.Builder
	for i := range 1000 {
		expected := g.extraction()
		one.WriteString(pairLine(b, i, expected, g.disturb(expected)))
	}
	b.ReportAllocs()
	for b.Loop() {
		p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "pairs"}
		if err := p.Score(b.Context(), strings.NewReader(one.String()), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/pair")
}

// TestPairs_kinds checks that an id must be a string or null, that an error without a class is one
// of the provider, and that bytes that are not UTF-8 are read as encoding/json reads them.
func TestPairs_kinds(t *testing.T) {
	in := `{"id":5,"expected":{},"extracted":{}}
{"id":null,"expected":{},"extracted":null,"error":"no luck"}
{"id":"a` + "\xff" + `","expected":{},"extracted":{}}`
	var seen []outcome.Outcome
	p := harness.Pairs{Options: scoring.DefaultOptions(), Name: "x", Scored: func(o outcome.Outcome) { seen = append(seen, o) }}
	err := p.Score(t.Context(), strings.NewReader(in), nil)
	if err == nil || !strings.Contains(err.Error(), "x: line 1: id: expected a string, got 5") {
		t.Errorf("%v", err)
	}
	if len(seen) != 2 || seen[0].Class != outcome.Provider || seen[1].Item != "a\ufffd" {
		t.Errorf("%+v", seen)
	}
}
