package compare

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

func scoredOutcome(item string, values map[string]float64) outcome.Outcome {
	o := outcome.Outcome{Item: item, Trial: 1}
	for _, name := range []string{"f1", "other"} {
		s := outcome.Score{Name: name}
		if v, ok := values[name]; ok {
			s.Value = &v
		}
		o.Scores = append(o.Scores, s)
	}
	return o
}

// TestMoves moves f1 from (0.2 + 0.6)/2 = 0.4 to (0.5 + 0.6 + 1)/3 = 0.7 with one up and one
// newly defined, and other from 1 to 0.5 with one of two down.
func TestMoves(t *testing.T) {
	m := NewMoves("f1")
	m.Add(scoredOutcome("a", map[string]float64{"f1": 0.2, "other": 1}), scoredOutcome("a", map[string]float64{"f1": 0.5, "other": 0}))
	m.Add(scoredOutcome("b", map[string]float64{"f1": 0.6, "other": 1}), scoredOutcome("b", map[string]float64{"f1": 0.6, "other": 1}))
	m.Add(scoredOutcome("c", nil), scoredOutcome("c", map[string]float64{"f1": 1}))
	r := m.Result(outcome.Header{Name: "new", Rescored: &outcome.Origin{Name: "old"}, Scorer: outcome.Scorer{Primary: "f1"}}, nil)
	var got strings.Builder
	for _, s := range r.Scores {
		fmt.Fprintf(&got, "%s %.3f %.3f %d>%d +%d -%d d%d u%d\n", s.Score, *s.Before, *s.After, s.NOld, s.NNew, s.Up, s.Down, s.Defined, s.Undefined)
	}
	if want := "f1 0.400 0.700 2>3 +1 -0 d1 u0\nother 1.000 0.500 2>2 +0 -1 d0 u0\n"; got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	if len(r.Moved) != 1 || r.Moved[0].Item != "a" {
		t.Errorf("moved items: %+v", r.Moved)
	}
}

// TestMoves_anyOrder checks that the ten largest changes of 500 do not depend on the order of the
// outcomes. Item i moves by i/500.
func TestMoves_anyOrder(t *testing.T) {
	for seed := range uint64(5) {
		m := NewMoves("f1")
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(500) {
			name := fmt.Sprintf("i%03d", i)
			m.Add(scoredOutcome(name, map[string]float64{"f1": 0}), scoredOutcome(name, map[string]float64{"f1": float64(i) / 500}))
		}
		r := m.Result(outcome.Header{Scorer: outcome.Scorer{Primary: "f1"}}, nil)
		for k, item := range r.Moved {
			if want := fmt.Sprintf("i%03d", 499-k); item.Item != want {
				t.Fatalf("seed %d: place %d is %s, want %s", seed, k, item.Item, want)
			}
		}
		if len(r.Moved) != 10 {
			t.Errorf("%d items", len(r.Moved))
		}
	}
}

// TestMoves_anyOrderOfScores checks that the order of the outcomes changes no digit of a mean of
// thirds, and no line. The first item failed before, so only its error had a value.
func TestMoves_anyOrderOfScores(t *testing.T) {
	var before, after []outcome.Outcome
	for i := range 9 {
		v, one := float64(i+1)/3, 1.0
		o := outcome.Outcome{Item: fmt.Sprint(i), Seq: int64(i + 1), Trial: 1, Scores: []outcome.Score{{Name: "f1", Value: &v}, {Name: "error", Value: &one}}}
		after = append(after, o)
		if i == 0 {
			o.Scores = []outcome.Score{{Name: "f1"}, {Name: "error", Value: &one}}
		}
		before = append(before, o)
	}
	want := ""
	for seed := range uint64(20) {
		m := NewMoves("f1")
		for _, i := range rand.New(rand.NewPCG(seed, 2)).Perm(len(before)) {
			m.Add(before[i], after[i])
		}
		raw, err := json.Marshal(m.Result(outcome.Header{Scorer: outcome.Scorer{Primary: "f1"}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(raw)
		}
		if string(raw) != want {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, raw, want)
		}
	}
}
