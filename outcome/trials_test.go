package outcome

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// failed is the value of a failed trial; its score counts as 0.
const failed = -1

// trialsOf returns an outcome for each value of each item; the values of an item are its trials.
func trialsOf(values map[string][]float64) []Outcome {
	var list []Outcome
	for item, row := range values {
		for i, v := range row {
			o := Outcome{Item: item, Trial: i + 1, Scores: []Score{{Name: "f1", Value: &v}}}
			if v == failed {
				o.Class, o.Scores = Timeout, []Score{{Name: "f1"}}
			}
			list = append(list, o)
		}
	}
	return list
}

func TestSummary_trialsByHand(t *testing.T) {
	// a: 0.5 0.7 0.6, mean 0.6 · b: 1 1 1, mean 1 · c: 0.8 failed 0.4, mean 0.6
	// of those scored, 0.4 with the failed one as 0 · d: failed failed failed.
	sum := summariseTrials(trialsOf(map[string][]float64{
		"a": {.5, .7, .6}, "b": {1, 1, 1}, "c": {.8, failed, .4}, "d": {failed, failed, failed},
	}), 3)
	approx := cmpopts.EquateApprox(0, 1e-12)
	if diff := cmp.Diff(Items{Planned: 12, Scored: 8, Failed: 4}, sum.Items); diff != "" {
		t.Error(diff)
	}
	// mean (0.6+1+0.6)/3 = 2.2/3; with failures as 0 (0.6+1+0.4+0)/4 = 0.5.
	// 0.6 1 0.6, with a 0: mean 0.55, variance (1.72/4 − 0.55²)/5 = 0.0255, size 0.2475/0.0255 − 1;
	// with a 1: mean 0.8, variance 0.04/5, size 0.16/0.008 − 1 = 19: beta of 15.2 and 3.8.
	want := Stat{Name: "f1", Mean: new(2.2 / 3), N: 3, CI95: &[2]float64{0.23559644077426523, 0.9419731881738223}, Min: new(.6), Max: new(1.0), FailuresAsZero: new(.5), CI95AsZero: &[2]float64{0.12630887287662174, 0.8736911271233783}, Failed: 1}
	if diff := cmp.Diff(want, sum.Scores[0], approx); diff != "" {
		t.Error(diff)
	}
	// Trials over a b c d with failures as 0: (0.5+1+0.8+0)/4 = 0.575, (0.7+1+0+0)/4
	// = 0.425, (0.6+1+0.4+0)/4 = 0.5; their mean is 0.5, sd √((0.075²+0.075²)/2) = 0.075.
	// Variances within: a 0.01, b 0, c (0.4²+0.4²+0)/2 = 0.16, d 0: mean 0.0425.
	trials := &Trials{
		Count: 3, Items: 4,
		Runs:   []Trial{{Trial: 1, Scored: 3, Failed: 1, Mean: new(.575)}, {Trial: 2, Scored: 2, Failed: 2, Mean: new(.425)}, {Trial: 3, Scored: 3, Failed: 1, Mean: new(.5)}},
		Scores: []Spread{{Name: "f1", Least: new(.425), Top: new(.575), Between: new(.075), Within: new(math.Sqrt(.0425)), Consistent: 2, N: 4}},
		Flaky:  2,
		FlakyItems: []FlakyItem{
			{ID: "c", Trials: 3, Failed: 1, Least: 0, Top: .8, Mean: .4},
			{ID: "a", Trials: 3, Least: .5, Top: .7, Mean: .6},
		},
	}
	if diff := cmp.Diff(trials, sum.Trials, approx); diff != "" {
		t.Error(diff)
	}
	// A failed item has its trial; they are sorted by arrival and trial.
	failures := []FailureCount{{Timeout, 4, []FailedItem{{ID: "c", Trial: 2}, {ID: "d", Trial: 1}, {ID: "d", Trial: 2}}}}
	if diff := cmp.Diff(failures, sum.Failures); diff != "" {
		t.Error(diff)
	}
	// One row for each item, its worst trial.
	worst := []WorstItem{{ID: "c", Trial: 3, Score: .4}, {ID: "a", Trial: 1, Score: .5}}
	if diff := cmp.Diff(worst, sum.Worst); diff != "" {
		t.Error(diff)
	}
}

func TestSummary_trialsUneven(t *testing.T) {
	sum := summariseTrials(trialsOf(map[string][]float64{"a": {.5, .5}, "b": {1}}), 2)
	if sum.Trials.Uneven != 1 || sum.Trials.Items != 2 || sum.Trials.Flaky != 0 || sum.Trials.Scores[0].N != 1 {
		t.Errorf("%+v", sum.Trials)
	}
	// A single trial has no spread, and no trials give no scores.
	sum = summariseTrials(trialsOf(map[string][]float64{"a": {.5}}), 2)
	if s := sum.Trials.Scores[0]; s.Between != nil || s.Within != nil || s.Least != nil {
		t.Errorf("%+v", s)
	}
	// An item without the score in any trial is not one of those that failed: (0.5 + 0)/2.
	list := trialsOf(map[string][]float64{"a": {.5, .5}, "b": {failed, failed}})
	for trial := 1; trial <= 2; trial++ {
		list = append(list, Outcome{Item: "c", Trial: trial, Scores: []Score{{Name: "f1", Reason: "undefined"}}})
	}
	if s := summariseTrials(list, 2).Scores[0]; *s.FailuresAsZero != .25 || s.Undefined != 1 {
		t.Errorf("%+v", s)
	}
	// A trial in which no item has the score is not one of a mean of 0.
	list = append(trialsOf(map[string][]float64{"a": {.5, .7}}), Outcome{Item: "a", Trial: 3, Scores: []Score{{Name: "f1", Reason: "undefined"}}})
	if s := summariseTrials(list, 3).Trials.Scores[0]; *s.Least != .5 || *s.Top != .7 {
		t.Errorf("%v to %v", *s.Least, *s.Top)
	}
	if sum = summariseTrials(nil, 2); sum.Trials.Items != 0 || len(sum.Scores) != 0 {
		t.Errorf("%+v", sum.Trials)
	}
}

// TestSummary_oddTrials checks that the first of two scores of one name counts, that a value
// that is not a number does not, and that the lowest of different weights counts: (0.5·1 +
// 1·1)/2 = 0.75.
func TestSummary_oddTrials(t *testing.T) {
	h := header()
	h.Trials, h.Metadata = 2, map[string]string{PDFSHA256: "aa"}
	s := NewSummariser(h, SummaryConfig{})
	add := func(item string, trial int, value, weight float64) {
		s.Add(Outcome{Item: item, Trial: trial, Scores: []Score{{Name: "f1", Value: &value, Weight: &weight}, {Name: "f1", Value: new(0.0), Weight: new(0.0)}}})
	}
	add("a", 1, 0.25, 3)
	add("a", 2, 0.75, 1)
	add("b", 1, 1, 1)
	add("b", 2, math.NaN(), 2)
	got := s.Summary()
	if stat := got.Scores[0]; stat.N != 2 || *stat.Mean != 0.75 || *stat.WeightedMean != 0.75 || stat.Undefined != 0 {
		t.Errorf("%+v", stat)
	}
	if runs := got.Trials.Runs; *runs[0].Mean != 0.625 || *runs[1].Mean != 0.75 {
		t.Errorf("%+v", runs)
	}
	if spread := got.Trials.Scores[0]; spread.N != 1 || spread.Consistent != 0 {
		t.Errorf("%+v", spread)
	}
}

// TestSummary_trialsAreNoItems checks that repeating every outcome exactly changes neither mean
// nor interval, whatever the number of trials.
func TestSummary_trialsAreNoItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once, many := map[string][]float64{}, map[string][]float64{}
		trials := rapid.IntRange(2, 5).Draw(t, "trials")
		for i := range rapid.IntRange(1, 12).Draw(t, "items") {
			id := fmt.Sprint(i)
			v := rapid.SampledFrom([]float64{0, .25, .5, 1, failed}).Draw(t, "value")
			once[id] = []float64{v}
			for range trials {
				many[id] = append(many[id], v)
			}
		}
		want, got := summarise(trialsOf(once)), summariseTrials(trialsOf(many), trials)
		if diff := cmp.Diff(want.Scores, got.Scores); diff != "" {
			t.Fatal(diff)
		}
		s := got.Trials.Scores[0]
		if got.Trials.Flaky != 0 || s.Consistent != s.N || s.N != len(once) || *s.Within != 0 || *s.Between > 1e-12 {
			t.Fatalf("%+v", s)
		}
	})
}
