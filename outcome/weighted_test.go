package outcome_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestSummary_weighted checks that the weighted score is (1·1 + 0.5·2 + 0·3) / (1+2+3) = 1/3. The
// third item failed and counts as 0; the fourth has no value although it did not fail, and does not
// count.
func TestSummary_weighted(t *testing.T) {
	header := outcome.Header{Scorer: outcome.Scorer{Primary: "q"}, Metadata: map[string]string{
		outcome.PDFSHA256: "aa", outcome.QuestionsSHA256: "bb",
	}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	for i, v := range []float64{1, 0.5, -1, -2} {
		weight := float64(i + 1)
		o := outcome.Outcome{Item: string(rune('a' + i)), Scores: []outcome.Score{{Name: "q", Weight: &weight}}}
		switch v {
		case -1:
			o.Class, o.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout}
		case -2:
		default:
			o.Scores[0].Value = &v
		}
		sum.Add(o)
	}
	s := sum.Summary()
	if s.Answers == nil || s.WeightedScore == nil || math.Abs(*s.WeightedScore-1./3) > 1e-15 {
		t.Fatalf("%+v", s.Answers)
	}
	raw, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(raw), `"weighted_score":0.333`) || !strings.Contains(string(raw), `"pdf_sha256":"aa","questions_sha256":"bb"`) {
		t.Errorf("%v %s", err, raw)
	}
}

// TestSummary_weightless checks that weights that sum to 0 leave the score undefined, and that
// a run without a document has no such keys.
func TestSummary_weightless(t *testing.T) {
	one, none := 1.0, 0.0
	o := outcome.Outcome{Item: "a", Scores: []outcome.Score{{Name: "q", Value: &one, Weight: &none}}}
	header := outcome.Header{Scorer: outcome.Scorer{Primary: "q"}, Metadata: map[string]string{outcome.PDFSHA256: "aa"}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	sum.Add(o)
	if s := sum.Summary(); s.Answers == nil || s.WeightedScore != nil {
		t.Errorf("%+v", s.Answers)
	}
	header.Metadata = nil
	sum = outcome.NewSummariser(header, outcome.SummaryConfig{})
	sum.Add(o)
	raw, err := json.Marshal(sum.Summary())
	if err != nil || strings.Contains(string(raw), "weighted_score") {
		t.Errorf("%v %s", err, raw)
	}
}

// TestSummary_oddWeights checks that a value with an invalid weight, or too large for
// weighting, does not count: (1·1 + 0·3)/4 of the two others.
func TestSummary_oddWeights(t *testing.T) {
	header := outcome.Header{Scorer: outcome.Scorer{Primary: "q"}, Metadata: map[string]string{outcome.PDFSHA256: "aa"}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	for _, o := range []struct{ value, weight float64 }{{1, 1}, {0, 3}, {0.5, -1}, {0.5, math.NaN()}, {0.5, 2e12}, {2e12, 1}} {
		sum.Add(outcome.Outcome{Scores: []outcome.Score{{Name: "q", Value: &o.value, Weight: &o.weight}}})
	}
	sum.Add(outcome.Outcome{Scores: []outcome.Score{{Name: "q", Value: new(0.5)}}})
	if got := sum.Summary().WeightedScore; got == nil || *got != 0.25 {
		t.Errorf("%v", got)
	}
}

// TestSummary_weightedTrials checks that trials do not count as items. Item a has (1 + 0.5)/2
// with weight 1, b (0.5 + 0 for the failed trial)/2 with weight 3: (0.75 + 3·0.25)/4.
func TestSummary_weightedTrials(t *testing.T) {
	header := outcome.Header{Trials: 2, Scorer: outcome.Scorer{Primary: "q"}, Metadata: map[string]string{outcome.PDFSHA256: "aa"}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	for item, values := range map[string][]float64{"a": {1, 0.5}, "b": {0.5, -1}} {
		weight := map[string]float64{"a": 1, "b": 3}[item]
		for i, v := range values {
			o := outcome.Outcome{Item: item, Trial: i + 1, Scores: []outcome.Score{{Name: "q", Value: &v, Weight: &weight}}}
			if v < 0 {
				o.Class, o.Scores[0].Value = outcome.Timeout, nil
			}
			sum.Add(o)
		}
	}
	if s := sum.Summary(); s.WeightedScore == nil || *s.WeightedScore != 0.375 || *s.Scores[0].WeightedMean != 0.375 {
		t.Errorf("%+v", s.Answers)
	}
}
