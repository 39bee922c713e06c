package compare

import (
	"fmt"

	"extraction-experiment/internal/printable"
)

// place numbers the runs, marks the Pareto front and those that are not shown
// to differ from the best.
func place(entries []*entry, pairs []Pair, lower bool) []Ranked {
	runs := make([]Ranked, len(entries))
	for i, e := range entries {
		runs[i] = e.Ranked
		r := &runs[i]
		switch {
		case r.Mean == nil:
		case i > 0 && runs[i-1].Mean != nil && *runs[i-1].Mean == *r.Mean:
			r.Rank = runs[i-1].Rank
		default:
			r.Rank = i + 1
		}
		// The pairs of the best run are the first ones.
		r.Tied = i == 0 || r.Mean != nil && len(pairs[i-1].Incompatible) == 0 && pairs[i-1].Verdict != Worse
	}
	for i := range runs {
		if !runs[i].placeable() {
			continue
		}
		front := true
		for j := range runs {
			front = front && !runs[j].dominates(runs[i], lower)
		}
		runs[i].Front = &front
	}
	return runs
}

// placeable reports whether quality and cost are both known.
func (r Ranked) placeable() bool { return r.Mean != nil && r.CostPerItem != nil && !r.CostPartly }

// dominates reports whether r is at least as good as the other and at most as
// dear, and better in one of the two.
func (r Ranked) dominates(other Ranked, lower bool) bool {
	if !r.placeable() {
		return false
	}
	quality := *r.Mean - *other.Mean
	if lower {
		quality = -quality
	}
	saved := *other.CostPerItem - *r.CostPerItem
	return quality >= 0 && saved >= 0 && (quality > 0 || saved > 0)
}

// rankWarnings says what makes a leaderboard weak.
func rankWarnings(l Leaderboard) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if len(l.Runs) > 2 {
		warn("%d runs, %d pairs: p (Holm) and verdicts allow for that, intervals do not; the best of several looks better than it is: confirm it on other items", len(l.Runs), len(l.Pairs))
	}
	unknown, few := 0, 0
	for _, r := range l.Runs {
		if !r.placeable() {
			unknown++
		}
		if r.N < fewItems {
			few++
		}
		if f := r.Summary.Items.Failed; f > 0 {
			warn("%s: %d of %d outcomes failed and count as 0", r.Summary.Run.Name, f, r.Summary.Items.Planned)
		}
	}
	if few > 0 {
		warn("few items: intervals are rough, and only large differences can be found")
	}
	if unknown > 0 {
		warn("the cost of %s is not known, or not of every item: not part of the Pareto front", printable.Counted(unknown, "run"))
	}
	return list
}
