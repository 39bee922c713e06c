package outcome

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawOutcomes draws outcomes whose scores are in [0,1].
func drawOutcomes(t *rapid.T) []Outcome {
	n := rapid.IntRange(0, 30).Draw(t, "n")
	outcomes := make([]Outcome, n)
	for i := range outcomes {
		o := Outcome{
			Item:    rapid.StringN(0, 3, -1).Draw(t, "item"),
			Trial:   i%3 + 1,
			Seq:     int64(i / 2), // ties
			Latency: time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "latency")),
			Usage:   Usage{Input: rapid.Int64Range(0, 1e6).Draw(t, "input")},
		}
		if rapid.Bool().Draw(t, "cost known") {
			o.CostUSD = new(rapid.Float64Range(0, 1).Draw(t, "cost"))
		}
		if rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
			o.Class = rapid.SampledFrom(append(Classes(), "odd")).Draw(t, "class")
			o.Failure = &Failure{o.Class, rapid.StringN(0, 5, -1).Draw(t, "message")}
		}
		for _, name := range []string{"f1", "other"} {
			switch kind := rapid.IntRange(0, 3).Draw(t, name); {
			case kind == 0: // not listed
			case kind == 1 || o.Failed():
				o.Scores = append(o.Scores, Score{Name: name})
			case kind == 2:
				o.Scores = append(o.Scores, Score{Name: name, Value: new(rapid.Float64Range(0, 1).Draw(t, "value"))})
			default:
				den := rapid.Int64Range(1, 9).Draw(t, "den")
				o.Scores = append(o.Scores, ratio(name, rapid.Int64Range(0, den).Draw(t, "num"), den))
			}
		}
		o.Groups = []Group{{"entity_type", rapid.SampledFrom([]string{"A", "B"}).Draw(t, "type"),
			rapid.Int64Range(0, 9).Draw(t, "e"), rapid.Int64Range(0, 9).Draw(t, "x"), 0}}
		outcomes[i] = o
	}
	return outcomes
}

func summarise(outcomes []Outcome) Summary { return summariseTrials(outcomes, 1) }

func summariseTrials(outcomes []Outcome, trials int) Summary {
	h := header()
	h.Trials = trials
	s := NewSummariser(h, SummaryConfig{Order: []string{"other"}})
	for _, o := range outcomes {
		s.Add(o)
	}
	return s.Summary()
}

func TestSummary_orderChangesNoDigit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outcomes := drawOutcomes(t)
		trials := rapid.SampledFrom([]int{1, 3}).Draw(t, "trials")
		want, err := json.Marshal(summariseTrials(outcomes, trials))
		if err != nil {
			t.Fatal(err)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(outcomes), func(i, j int) {
			outcomes[i], outcomes[j] = outcomes[j], outcomes[i]
		})
		got, err := json.Marshal(summariseTrials(outcomes, trials))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("shuffled:\n%s\nin order:\n%s", got, want)
		}
	})
}

func TestSummary_bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outcomes := drawOutcomes(t)
		sum := summarise(outcomes)
		if sum.Items.Scored+sum.Items.Failed != len(outcomes) {
			t.Fatalf("%+v of %d", sum.Items, len(outcomes))
		}
		failed := 0
		for _, f := range sum.Failures {
			failed += f.Count
		}
		if failed != sum.Items.Failed {
			t.Fatalf("%d failures by class, %d failed", failed, sum.Items.Failed)
		}
		for _, s := range sum.Scores {
			if s.N+s.Failed+s.Undefined > len(outcomes) || s.Failed > sum.Items.Failed {
				t.Fatalf("%+v of %d outcomes", s, len(outcomes))
			}
			if s.Mean == nil {
				continue
			}
			if *s.FailuresAsZero > *s.Mean {
				t.Fatalf("failures as zero %v over the mean %v", *s.FailuresAsZero, *s.Mean)
			}
			if *s.Mean < *s.Min || *s.Mean > *s.Max {
				t.Fatalf("mean %v outside [%v, %v]", *s.Mean, *s.Min, *s.Max)
			}
			if s.Pooled != nil && (*s.Pooled < 0 || *s.Pooled > 1) {
				t.Fatalf("pooled %v", *s.Pooled)
			}
			if (s.CI95 != nil) != (s.N >= 2) {
				t.Fatalf("interval %v for n = %d", s.CI95, s.N)
			}
			if s.CI95 != nil && (*s.Mean < s.CI95[0] || *s.Mean > s.CI95[1] || s.CI95[0] >= s.CI95[1]) {
				t.Fatalf("mean %v outside %v", *s.Mean, *s.CI95)
			}
			if ci := s.CI95AsZero; ci != nil && (*s.FailuresAsZero < ci[0] || *s.FailuresAsZero > ci[1]) {
				t.Fatalf("mean with failures as zero %v outside %v", *s.FailuresAsZero, *ci)
			}
		}
	})
}

func TestStats_JSONKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "names")
		want := Stats{}
		for i, name := range names {
			want = append(want, Stat{Name: name, N: i, Mean: new(float64(i))})
		}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Stats
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzStatsUnmarshal(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `[]`, `{"f1":{"mean":1,"ci95":[0,1]}}`, `{"f1":`, `{"f1":3}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s Stats
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Stats
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
