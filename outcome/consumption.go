package outcome

import (
	"slices"

	"extraction-experiment/internal/stats"
)

func (s *Summariser) usageSum() UsageSum {
	u := s.usage
	sum := UsageSum{Input: u.Input, Output: u.Output, Total: u.Total(), Cached: u.Cached, Reasoning: u.Reasoning}
	sum.CostUnknown = s.items.Scored + s.items.Failed - s.costKnown
	if s.costKnown > 0 {
		cost := s.cost.Value()
		sum.CostUSD = &cost
	}
	if s.anyReplaced {
		var all stats.Sum
		all.Merge(s.cost)
		all.Merge(s.replaced)
		sum.AllCostUSD = new(all.Value())
	}
	return sum
}

func (s *Summariser) latencySummary() *Latencies {
	if len(s.latencies) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(s.latencies))
	var m stats.Moments
	for _, ms := range sorted {
		m.Add(ms)
	}
	l := Latencies{N: len(sorted), Max: sorted[len(sorted)-1]}
	l.P50, _ = stats.Quantile(sorted, 0.5)
	l.P95, _ = stats.Quantile(sorted, 0.95)
	l.Mean, _ = m.Mean()
	return &l
}
