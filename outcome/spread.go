package outcome

import (
	"maps"
	"math"
	"slices"

	"extraction-experiment/internal/shortlist"
	"extraction-experiment/internal/stats"
)

// summary says what the trials come to; planned is how many there are.
func (t *trials) summary(planned int, primary string, scores Stats) *Trials {
	out := &Trials{Count: planned, Items: len(t.items), Runs: []Trial{}, Scores: []Spread{}}
	flaky := shortlist.New(mostFlaky, compareFlaky)
	for id, item := range t.items {
		if item.outcomes < planned {
			out.Uneven++
		}
		if f, ok := item.flaky(id, primary); ok {
			out.Flaky++
			flaky.Offer(f)
		}
	}
	out.FlakyItems = flaky.Values()
	for _, n := range slices.Sorted(maps.Keys(t.runs)) {
		run := t.runs[n]
		trial := Trial{Trial: n, Scored: run.scored, Failed: run.failed}
		if m := run.means[primary]; m != nil {
			trial.Mean = meanOf(*m)
		}
		out.Runs = append(out.Runs, trial)
	}
	for _, s := range scores {
		out.Scores = append(out.Scores, t.spread(s.Name))
	}
	return out
}

// flaky describes an item whose primary score varies.
func (i *trialItem) flaky(id, primary string) (FlakyItem, bool) {
	v := i.scores[primary]
	if v == nil {
		return FlakyItem{}, false
	}
	m := v.all()
	least, top, ok := m.Range()
	if !ok || top-least <= same {
		return FlakyItem{}, false
	}
	mean, _ := m.Mean()
	return FlakyItem{ID: id, Trials: i.outcomes, Failed: i.failed, Least: least, Top: top, Mean: mean}, true
}

// spread says how much a score varies between trials and within items.
func (t *trials) spread(score string) Spread {
	out := Spread{Name: score}
	var runs, within stats.Moments
	for _, run := range t.runs {
		if m := run.means[score]; m != nil && m.N() > 0 {
			mean, _ := m.Mean()
			runs.Add(mean)
		}
	}
	if sd, ok := runs.SD(); ok {
		least, top, _ := runs.Range()
		out.Least, out.Top, out.Between = &least, &top, &sd
	}
	for _, item := range t.items {
		v := item.scores[score]
		if v == nil {
			continue
		}
		m := v.all()
		variance, ok := m.Variance()
		if !ok {
			continue
		}
		within.Add(variance)
		if least, top, _ := m.Range(); top-least <= same {
			out.Consistent++
		}
	}
	out.N = within.N()
	if mean, ok := within.Mean(); ok {
		sd := math.Sqrt(mean)
		out.Within = &sd
	}
	return out
}
