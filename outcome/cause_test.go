package outcome_test

import (
	"encoding/json"
	"testing"

	"extraction-experiment/outcome"

	"github.com/google/go-cmp/cmp"
)

// TestSummary_causes checks that equally frequent causes are sorted by what and name.
func TestSummary_causes(t *testing.T) {
	causes := func(list ...outcome.Cause) outcome.Detail { return outcome.Detail{Causes: list} }
	sum := outcome.NewSummariser(outcome.Header{}, outcome.SummaryConfig{Worst: 2})
	for _, o := range []outcome.Outcome{
		{Item: "c", Detail: causes(outcome.Cause{What: "entity", Name: "missed", Count: 2})},
		{Item: "b", Detail: causes(outcome.Cause{What: "entity", Name: "missed", Count: 2}, outcome.Cause{What: "relationship", Name: "missed", Count: 5})},
		{Item: "a", Detail: causes(outcome.Cause{What: "entity", Name: "missed", Count: 1}, outcome.Cause{What: "entity", Name: "boundary", Count: -7})},
		{Item: "d", Detail: causes(outcome.Cause{What: "entity", Name: "boundary", Count: 5}, outcome.Cause{What: "entity", Name: "extra", Count: 6})},
		{Item: "failed", Class: outcome.Timeout, Detail: causes(outcome.Cause{What: "entity", Name: "missed", Count: 100})},
	} {
		sum.Add(o)
	}
	// missed: 2+2+1 of three items, two of which are kept. A failed item and a negative count do
	// not count.
	want := []outcome.CauseCount{
		{Cause: outcome.Cause{What: "entity", Name: "extra", Count: 6}, Items: 1, Worst: []outcome.CauseItem{{ID: "d", Count: 6}}},
		{Cause: outcome.Cause{What: "entity", Name: "boundary", Count: 5}, Items: 1, Worst: []outcome.CauseItem{{ID: "d", Count: 5}}},
		{Cause: outcome.Cause{What: "entity", Name: "missed", Count: 5}, Items: 3, Worst: []outcome.CauseItem{{ID: "b", Count: 2}, {ID: "c", Count: 2}}},
		{Cause: outcome.Cause{What: "relationship", Name: "missed", Count: 5}, Items: 1, Worst: []outcome.CauseItem{{ID: "b", Count: 5}}},
	}
	if diff := cmp.Diff(want, sum.Summary().Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestSummary_causesOfTrials checks that trials do not count as items. Item a misses 1 + 3 + 3
// + 3, of which trial 2 is the first with most; b misses 2 + 0.
func TestSummary_causesOfTrials(t *testing.T) {
	sum := outcome.NewSummariser(outcome.Header{Trials: 4}, outcome.SummaryConfig{Worst: 1})
	for _, o := range []struct {
		item   string
		trial  int
		missed int64
	}{{"b", 1, 2}, {"a", 3, 3}, {"a", 1, 1}, {"b", 2, 0}, {"a", 2, 3}, {"a", 4, 3}} {
		sum.Add(outcome.Outcome{Item: o.item, Trial: o.trial, Detail: outcome.Detail{Causes: []outcome.Cause{{What: "entity", Name: "missed", Count: o.missed}}}})
	}
	want := []outcome.CauseCount{{Cause: outcome.Cause{What: "entity", Name: "missed", Count: 12}, Items: 2, Worst: []outcome.CauseItem{{ID: "a", Trial: 2, Count: 10}}}}
	for range 2 { // Summary can be called again
		if diff := cmp.Diff(want, sum.Summary().Causes); diff != "" {
			t.Errorf("causes (-want +got):\n%s", diff)
		}
	}
	// In JSON, the count over all trials would look like that of one.
	if raw, err := json.Marshal(want[0].Worst); err != nil || string(raw) != `[{"id":"a","count":10}]` {
		t.Errorf("%s, %v", raw, err)
	}
}
