package compare

import "extraction-experiment/internal/stats"

// amounts accumulates something consumed per item.
type amounts struct {
	differences []float64
	base, cand  stats.Moments
	unknown     [2]int
}

func (a *amounts) add(base, cand amount, baseTrials, candTrials int) {
	b, inBase := base.mean(baseTrials)
	c, inCand := cand.mean(candTrials)
	if !inBase {
		a.unknown[0]++
	}
	if !inCand {
		a.unknown[1]++
	}
	if inBase && inCand {
		a.base.Add(b)
		a.cand.Add(c)
		a.differences = append(a.differences, c-b)
	}
}

func (a *amounts) amount() Amount {
	out := Amount{N: len(a.differences), Base: mean(a.base), Candidate: mean(a.cand)}
	var m stats.Moments
	for _, d := range a.differences {
		m.Add(d)
	}
	out.Difference = mean(m)
	if e, ok := stats.PairedMean(a.differences); ok {
		out.CI95 = &[2]float64{e.Lo, e.Hi}
	}
	if out.Base != nil && *out.Base > 0 {
		if ratio := *out.Candidate / *out.Base; finite(ratio) {
			out.Ratio = &ratio
		}
	}
	return out
}

// amount is something consumed by an item, over its trials.
type amount struct {
	sum float64
	n   int
}

func (a amount) mean(trials int) (float64, bool) {
	if a.n == 0 || a.n < trials {
		return 0, false
	}
	return a.sum / float64(a.n), true
}
