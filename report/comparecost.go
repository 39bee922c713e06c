package report

import (
	"fmt"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
)

// consumption compares cost and latency.
func (p *page) consumption(base outcome.Summary, r compare.Result) {
	cand := r.Candidate.Summary
	timed := base.LatencyMS != nil && cand.LatencyMS != nil
	if !bought(base, cand) && !timed {
		return
	}
	p.title("Cost and latency")
	if bought(base, cand) {
		p.wrapped(amountLine("cost per item", r.Cost, dollars), 2, 0, nil)
	}
	if timed {
		b, c := base.LatencyMS, cand.LatencyMS
		p.wrapped(amountLine("latency per item", r.Latency, milliseconds), 2, 0, nil)
		p.wrapped(fmt.Sprintf("p50 %s → %s, p95 %s → %s", milliseconds(b.P50), milliseconds(c.P50), milliseconds(b.P95), milliseconds(c.P95)), 4, 0, p.faint)
	}
}

// bought reports whether the cost of both runs is known, and is any.
func bought(base, cand outcome.Summary) bool {
	b, c := base.Usage.CostUSD, cand.Usage.CostUSD
	return b != nil && c != nil && *b+*c > 0
}

func amountLine(name string, a compare.Amount, show func(float64) string) string {
	if a.Difference == nil {
		return name + ": not known of any item in both runs"
	}
	text := fmt.Sprintf("%s %s → %s", name, show(*a.Base), show(*a.Candidate))
	if a.Ratio != nil {
		text += fmt.Sprintf(" (×%.2f)", *a.Ratio)
	}
	text += ", " + apart(*a.Difference, show)
	if a.CI95 != nil {
		text += fmt.Sprintf(" (95 %% %s to %s)", apart(a.CI95[0], show), apart(a.CI95[1], show))
	}
	return text + ", n=" + count(a.N)
}

// apart shows an amount with its sign.
func apart(v float64, show func(float64) string) string {
	switch {
	case v < 0:
		return "-" + show(-v)
	case v > 0:
		return "+" + show(v)
	}
	return show(v)
}
