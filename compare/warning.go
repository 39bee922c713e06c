package compare

import (
	"cmp"
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// Below these a comparison is worth a warning.
const (
	fewItems    = 20
	fewClusters = 10
)

// warnings says what makes the numbers of a comparison weak.
func (r *collector) warnings(out Result, base, cand Side) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	primary := out.Primary()
	switch {
	case primary.N < LeastItems:
		warn("%s with %s: too few to claim anything", printable.Counted(primary.N, "item"), primary.Name)
	case primary.N < fewItems:
		warn("few items (%d): the interval is rough, and only large differences can be found", primary.N)
	}
	switch ties := primary.Ties; {
	case ties < primary.N && 2*ties > primary.N:
		warn("%d of %d items tie: the difference rests on the other %d", ties, primary.N, primary.N-ties)
	case primary.enough() && primary.CI95 == nil && ties < primary.N:
		warn("%s changed by the same in all of %s: nothing is known of how it varies, so that there is no interval, and nothing can be claimed", primary.Name, grouping(primary))
	}
	list = append(list, r.clusterWarnings(primary)...)
	if scores := opposed(out.Scores); len(scores) > 0 {
		warn("the mean and the pooled value changed in opposite directions, each beyond its interval: %s; items with large counts went the other way than most, so say which of the two decides", strings.Join(scores, ", "))
	}
	for _, s := range out.Scores {
		if s.Doubt != "" {
			warn("%s %s", s.Name, s.Doubt)
		}
	}
	list = append(list, evaluatorWarnings(base.Summary.Run.CustomScorers, cand.Summary.Run.CustomScorers)...)
	if b, c := base.Summary.Items.Failed, cand.Summary.Items.Failed; b > 0 || c > 0 {
		noun := "item"
		if base.Summary.Trials != nil || cand.Summary.Trials != nil {
			noun = "outcome"
		}
		warn("%s failed in the base, %d in the candidate: they count as 0 in the differences and are left out of pooled values and types", printable.Counted(b, noun), c)
	}
	for _, s := range out.Scores {
		var where []string
		if n := s.UndefinedBase; n > 0 {
			where = append(where, printable.Counted(n, "item")+" of the base only")
		}
		if n := s.UndefinedCandidate; n > 0 {
			where = append(where, printable.Counted(n, "item")+" of the candidate only")
		}
		if len(where) > 0 {
			warn("different coverage: %s is undefined in %s, left out of its comparison", s.Name, strings.Join(where, " and "))
		}
	}
	if r.trials[0] != r.trials[1] {
		warn("the base has %s, the candidate %d: averages over more trials vary less", printable.Counted(r.trials[0], "trial"), r.trials[1])
	}
	if b, c := r.cost.unknown[0], r.cost.unknown[1]; b != c && out.Cost.N > 0 {
		warn("the cost of %s of the base and %d of the candidate is unknown", printable.Counted(b, "item"), c)
	}
	return list
}

// opposed lists the scores whose mean rose while their pooled value fell, or the
// reverse, where the intervals of both leave 0 out.
func opposed(scores []Score) []string {
	var list []string
	for _, s := range scores {
		if s.CI95 == nil || s.Pooled == nil || s.Pooled.CI95 == nil {
			continue
		}
		mean, pooled := s.CI95, s.Pooled.CI95
		if mean[0] > 0 && pooled[1] < 0 || mean[1] < 0 && pooled[0] > 0 {
			list = append(list, fmt.Sprintf("%s (mean %s, pooled %s)", s.Name, signed(*s.Difference), signed(s.Pooled.Difference)))
		}
	}
	return list
}

// evaluatorWarnings names the scores of one and the same external evaluator that
// is not certified; what is worse about them is their Doubt.
func evaluatorWarnings(base, cand []outcome.CustomScorer) []string {
	var list []string
	for _, b := range base {
		for _, c := range cand {
			switch {
			case b.Name != c.Name || !b.Same(c):
			case b.Uncertified != "" || c.Uncertified != "":
				list = append(list, fmt.Sprintf("%s comes from an evaluator that is not certified: %s", b.Name, cmp.Or(b.Uncertified, c.Uncertified)))
			}
		}
	}
	return list
}

func (r *collector) clusterWarnings(primary Score) []string {
	c := r.known.clusters
	if c.key == "" {
		return nil
	}
	var list []string
	if c.without > 0 {
		list = append(list, fmt.Sprintf("%s without %s in the metadata: each is a cluster of its own", printable.Counted(c.without, "item"), c.key))
	}
	switch n := primary.Clusters; {
	case n < LeastClusters:
		list = append(list, fmt.Sprintf("%s: too few to claim anything", printable.Counted(n, "cluster")))
	case n < fewClusters:
		list = append(list, fmt.Sprintf("few clusters (%d): only large differences can be found", n))
	}
	if df := primary.DF; df != nil && *df < float64(primary.Clusters-1)/2 {
		list = append(list, fmt.Sprintf("the clusters are of very different sizes: together they tell as much as %.1f of one size", *df+1))
	}
	return list
}

// warnOfMany warns where several candidates were tried.
func (c *Comparer) warnOfMany(results []Result) {
	if len(results) < 2 {
		return
	}
	for i := range results {
		if len(results[i].Incompatible) == 0 {
			results[i].Warnings = append(results[i].Warnings, fmt.Sprintf("%d candidates were compared: p (Holm) allows for that, and so do verdicts and rules that claim a difference; intervals, and rules that allow for a margin, do not", len(results)))
		}
	}
}
