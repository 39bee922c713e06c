package outcome

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestJudgingOf checks that cached calls do not count, and that 0.1 + 0.2 is a lower bound if
// the cost of another call is unknown.
func TestJudgingOf(t *testing.T) {
	calls := []Call{
		{Usage: Usage{Input: 10, Output: 1}, CostUSD: new(0.1)},
		{Usage: Usage{Input: 20, Output: 2}, CostUSD: new(0.2), Assumed: Usage{Input: 7}},
		{Usage: Usage{Input: 400}, CostUSD: new(4.0), Cached: true},
		{Usage: Usage{Input: 30, Output: 3}},
	}
	want := &Judging{Calls: 3, Usage: Usage{Input: 60, Output: 6}, Assumed: Usage{Input: 7}, CostUSD: new(0.3), CostUnknown: 1}
	if diff := cmp.Diff(want, JudgingOf(calls), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
	if got := JudgingOf(calls[2:3]); got != nil {
		t.Errorf("all from the cache: %+v", got)
	}
	if got := JudgingOf(calls[3:]); got == nil || got.CostUSD != nil || got.CostUnknown != 1 {
		t.Errorf("of unknown cost: %+v", got)
	}
	absurd := Call{Usage: Usage{Input: math.MaxInt64}, Assumed: Usage{Output: math.MaxInt64}}
	if got := JudgingOf([]Call{absurd, absurd}); got.Usage.Input <= 0 || got.Assumed.Output <= 0 {
		t.Errorf("absurd numbers of tokens: %+v", got)
	}
}

// TestSummary_replaced checks that an attempt that a newer one replaced counts in the cost, but
// in no score.
func TestSummary_replaced(t *testing.T) {
	s := NewSummariser(header(), SummaryConfig{})
	newer := Outcome{Item: "a", Scores: []Score{ratio("f1", 1, 2)}, CostUSD: new(0.25), Detail: Detail{Judging: JudgingOf([]Call{{CostUSD: new(1.0)}})}}
	older := Outcome{Item: "a", Class: Timeout, CostUSD: new(0.5), Detail: Detail{Judging: JudgingOf([]Call{{CostUSD: new(2.0)}})}}
	s.Add(newer)
	older.CostUSD, older.Judging = nil, nil
	s.AddReplaced(older)
	if u := s.Summary().Usage; u.AllCostUSD != nil {
		t.Errorf("nothing is known of what was replaced: %v", *u.AllCostUSD)
	}
	older.CostUSD, older.Judging = new(0.5), JudgingOf([]Call{{CostUSD: new(2.0)}})
	s.AddReplaced(older)
	got := s.Summary()
	if u := got.Usage; *u.CostUSD != 0.25 || u.AllCostUSD == nil || *u.AllCostUSD != 0.75 {
		t.Errorf("usage %+v", u)
	}
	if j := got.Judging; j == nil || j.Calls != 2 || *j.CostUSD != 3 {
		t.Errorf("judging %+v", j)
	}
	if got.Items != (Items{Planned: 1, Scored: 1}) || got.Scores[0].N != 1 {
		t.Errorf("items %+v, scores %+v", got.Items, got.Scores)
	}
}

// TestSummary_fromCache checks that cached answers do not count in the latencies.
func TestSummary_fromCache(t *testing.T) {
	s := NewSummariser(header(), SummaryConfig{})
	s.Add(Outcome{Item: "a", Latency: time.Second, Detail: Detail{FromCache: 1}})
	s.Add(Outcome{Item: "b", Latency: 2 * time.Second})
	s.Add(Outcome{Item: "c"})
	got := s.Summary()
	if got.Items.FromCache != 1 || got.LatencyMS == nil || got.LatencyMS.N != 1 || got.LatencyMS.Mean != 2000 {
		t.Errorf("%+v, %+v", got.Items, got.LatencyMS)
	}
}
