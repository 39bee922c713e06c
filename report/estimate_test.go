package report

import "testing"

// TestEstimateSum: 10 + 20 requests, $0.5 + $0.25; what asks no model adds nothing.
func TestEstimateSum(t *testing.T) {
	half, quarter := 0.5, 0.25
	list := []Estimate{
		{Asks: true, Requests: 10, InputTokens: 1000, OutputTokens: 100, CostUSD: &half},
		{OutputTokens: 7},
		{Asks: true, Requests: 20, InputTokens: 2000, OutputTokens: 200, CostUSD: &quarter},
	}
	if got, want := EstimateSum(list), "3 runs together: 30 requests, about 3,000 tokens in and 300 out, about $0.75\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	list[0].CostUSD = nil
	if got, want := EstimateSum(list), "3 runs together: 30 requests, about 3,000 tokens in and 300 out, about $0.25, and 1 run without a known price\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
