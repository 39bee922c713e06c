package outcome_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestSummary_weighted: (1·1 + 0.5·2 + 0·3) / (1+2+3) = 1/3; the third item
// failed and counts as 0, the fourth has no value although it did not fail and
// does not count at all.
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

// TestSummary_weightless: weights that sum up to 0 leave the score undefined,
// and a run without a document has no such keys.
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
