package report_test

import (
	"strings"
	"testing"

	"extraction-experiment/bench"
	"extraction-experiment/report"
)

// TestBench checks that causes that differ only in the trial share a row, and that a system that
// never answered has no metrics.
func TestBench(t *testing.T) {
	cause := bench.Cause{CaseID: "letters", Trial: 1, Metric: "quoteInvariantRate", Code: bench.QuoteMismatch, Quote: "b", Detail: "at 0 to 1 (rune)"}
	again, other := cause, bench.Cause{CaseID: "words", Trial: 2, Metric: "successRate", Detail: "nothing\x1b[31m"}
	again.Trial = 2
	r := bench.Report{
		Run: "r", Mode: "variance", Model: "m", Trials: 2, Sources: "2 of x.jsonl", Answered: 3, FailedCalls: 1,
		Failures: []bench.FailedCalls{{Class: "provider", Count: 1, CaseID: "words", Message: "nobody there"}},
		Breadth:  bench.Breadth{TotalCaseCount: 2, SmokeCaseCount: 2}, QuoteErrors: map[bench.Code]int{bench.QuoteMismatch: 2},
		Categories: []bench.Category{{Name: "smoke", Cases: 2, SchemaValidRate: 1}},
		Causes:     []bench.Cause{cause, again, other}, DriftingCases: []string{"words"}, Warnings: []string{"with care"},
	}
	want := `bench r: variance, m, 2 trials of 2 cases
cases     2 of x.jsonl · 2 smoke · 0 regression in 0 categories
calls     3 answered · 1 failed

Failed calls
  class     calls  such as
──────────────────────────
  provider      1  words
      nobody there

Metrics
  schemaValidRate            0.0000
  quoteInvariantRate         0.0000
    QUOTE_MISMATCH                2
  uniqueExtractionStability  0.0000
  successRate                0.0000
    standard deviation       0.0000
  coverageRate               0.0000
  caseOutcomeDriftRate       0.0000
  extractions per trial: min 0, max 0, mean 0.0, stability 0.0000, variance
  0.0000

Categories
  category  cases  success  schema   quote  coverage
────────────────────────────────────────────────────
  smoke         2   0.0000  1.0000  0.0000    0.0000

What lowered the metrics
  case     metric              code            times  first trial
─────────────────────────────────────────────────────────────────
  letters  quoteInvariantRate  QUOTE_MISMATCH      2            1
      b: at 0 to 1 (rune)
  words    successRate                             1            2
      nothing\x1b[31m
  1 case differed between trials: words

Warnings
  with care
`
	var text strings.Builder
	if err := report.Bench(&text, r, report.Options{}); err != nil || text.String() != want {
		t.Errorf("%v\n%s", err, &text)
	}
	r.Answered, r.FailedCalls = 0, 4
	text.Reset()
	if err := report.Bench(&text, r, report.Options{}); err != nil || !strings.Contains(text.String(), "0 answered · 4 failed · there is nothing to measure") || strings.Contains(text.String(), "schemaValidRate") {
		t.Errorf("%v\n%s", err, &text)
	}
	r.FailedCalls, r.Failures = 0, nil
	for range 30 {
		cause.Trial++
		cause.CaseID += "x"
		r.Causes, r.DriftingCases = append(r.Causes, cause), append(r.DriftingCases, cause.CaseID)
	}
	text.Reset()
	if err := report.Bench(&text, r, report.Options{}); err != nil || !strings.Contains(text.String(), "0 answered · there is nothing to measure") {
		t.Errorf("%v\n%s", err, &text)
	}
	r.Answered, r.MoreCauses = 4, 7
	text.Reset()
	if err := report.Bench(&text, r, report.Options{}); err != nil || !strings.Contains(text.String(), "and 12 more causes\n  7 more than these are not kept") || !strings.Contains(text.String(), "and 11 more") {
		t.Errorf("%v\n%s", err, &text)
	}
}
