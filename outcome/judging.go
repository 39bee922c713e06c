package outcome

import "extraction-experiment/internal/stats"

// JudgingKind is the kind of the calls of judging models, and the type of
// observation that Langfuse has for them. They have the name of their score. A
// "generation" would count as a call of what is judged.
const JudgingKind = "evaluator"

// Judging is what language models took that judged an outcome, or all those of a
// run. It is no part of Usage and CostUSD, which are those of what was judged.
type Judging struct {
	Calls int   `json:"calls"`
	Usage Usage `json:"usage,omitzero"`
	// Assumed is the estimate for what was not reported, as in Call.
	Assumed Usage `json:"assumed_usage,omitzero"`
	// CostUSD sums the costs that are known; nil where none is. With CostUnknown,
	// the number of calls without one, it is a lower bound.
	CostUSD     *float64 `json:"cost_usd"`
	CostUnknown int      `json:"cost_unknown,omitempty"`
}

// JudgingOf sums the calls of judging models up; nil without any. Those that are
// marked as cached were paid for by another run.
func JudgingOf(calls []Call) *Judging {
	var sum judgingSum
	for _, c := range calls {
		if c.Cached {
			continue
		}
		one := Judging{Calls: 1, Usage: c.Usage, Assumed: c.Assumed, CostUSD: c.CostUSD}
		if c.CostUSD == nil {
			one.CostUnknown = 1
		}
		sum.add(&one)
	}
	return sum.sum()
}

// judgingSum adds up exactly, so that the order does not matter.
type judgingSum struct {
	total Judging
	cost  stats.Sum
	known bool
}

func (s *judgingSum) add(j *Judging) {
	if j == nil {
		return
	}
	s.total.Calls += j.Calls
	s.total.CostUnknown += j.CostUnknown
	s.total.Usage, s.total.Assumed = s.total.Usage.Add(j.Usage), s.total.Assumed.Add(j.Assumed)
	if j.CostUSD != nil && s.cost.Add(*j.CostUSD) {
		s.known = true
	}
}

func (s *judgingSum) sum() *Judging {
	if s.total.Calls == 0 {
		return nil
	}
	total := s.total
	if s.known {
		total.CostUSD = new(s.cost.Value())
	}
	return &total
}
