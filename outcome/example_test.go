package outcome_test

import (
	"fmt"

	"extraction-experiment/outcome"
)

// The summary of a run is computed from its outcomes. A failed item has the score without a value.
func Example() {
	summariser := outcome.NewSummariser(outcome.Header{Name: "r"}, outcome.SummaryConfig{})
	value := 0.8
	summariser.Add(outcome.Outcome{Item: "a", Trial: 1, Attempt: 1, Scores: []outcome.Score{{Name: "correct", Value: &value}}})
	failed := outcome.Outcome{Item: "b", Trial: 1, Attempt: 1, Class: outcome.Timeout, Scores: []outcome.Score{{Name: "correct"}}}
	failed.Failure = &outcome.Failure{Class: outcome.Timeout, Message: "no answer"}
	summariser.Add(failed)
	summary := summariser.Summary()
	correct, _ := summary.Scores.Lookup("correct")
	fmt.Println(summary.Items.Scored, "scored,", summary.Items.Failed, "failed")
	fmt.Println("mean", *correct.Mean, "and with failures as 0", *correct.FailuresAsZero)
	// Output:
	// 1 scored, 1 failed
	// mean 0.8 and with failures as 0 0.4
}
