package outcome

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

// Trials sums up the repetitions of a run. Trials do not count as more items: an item's
// value is the mean over its trials. Here, a failed trial counts as 0 wherever the expected
// output defines the score, so that every trial is over the same items.
type Trials struct {
	Count  int     `json:"count"`
	Items  int     `json:"items"`  // with an outcome in any trial
	Uneven int     `json:"uneven"` // of them, those without one in some trial
	Runs   []Trial `json:"runs"`
	// Scores says how much each score varies, in the order of Summary.Scores.
	Scores []Spread `json:"scores"`
	// Flaky counts the items whose primary score is not the same in all their
	// trials; FlakyItems are those that vary most, at most 10.
	Flaky      int         `json:"flaky"`
	FlakyItems []FlakyItem `json:"flaky_items"`
}

// Trial is one repetition, a run of its own in Langfuse.
type Trial struct {
	Trial  int      `json:"trial"`
	Name   string   `json:"name"` // in Langfuse; it, ID and URL are filled in by the caller
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Scored int      `json:"scored"`
	Failed int      `json:"failed"`
	Mean   *float64 `json:"mean"` // of the primary score
}

// Spread is how much a score varies between repetitions.
type Spread struct {
	Name string `json:"name"`
	// Least and Top are the lowest and the highest mean of a trial, Between the
	// standard deviation of these means (K−1): what the mean of one trial is
	// worth. Nil for fewer than 2 trials with the score.
	Least   *float64 `json:"lowest_trial"`
	Top     *float64 `json:"highest_trial"`
	Between *float64 `json:"sd_between_trials"`
	// Within is √(mean over the N items of the sample variance over an item's
	// trials): how much one item varies. Nil for N = 0.
	Within *float64 `json:"sd_within_items"`
	// Consistent counts those of the N items that have the same value, up to
	// 1e-9, in all their trials. N counts items with the score in 2 or more.
	Consistent int `json:"consistent"`
	N          int `json:"n"`
}

// FlakyItem is an item whose primary score varies.
type FlakyItem struct {
	ID     string  `json:"id"`
	Trials int     `json:"trials"`
	Failed int     `json:"failed"` // trials that failed
	Least  float64 `json:"least"`
	Top    float64 `json:"top"`
	Mean   float64 `json:"mean"`
}

// mostFlaky bounds Trials.FlakyItems.
const mostFlaky = 10

// same is up to what difference two values of a score are one.
const same = 1e-9

func compareFlaky(a, b FlakyItem) int {
	return cmp.Or(cmp.Compare(b.Top-b.Least, a.Top-a.Least), cmp.Compare(a.ID, b.ID))
}

// trials gathers the outcomes of a run of several trials by item.
type trials struct {
	items  map[string]*trialItem
	runs   map[int]*trialRun
	scorer Scorer
}

type trialItem struct {
	outcomes, failed int
	scores           map[string]*trialValues
}

// trialValues is one score of one item over its trials.
type trialValues struct {
	presence
	values []float64
	weight *float64 // nil is none; all trials have the same
}

type trialRun struct {
	scored, failed int
	means          map[string]*stats.Moments // failures as 0
}

// add takes an outcome into account.
func (t *trials) add(o Outcome) {
	item := entry(t.items, o.Item, func() *trialItem { return &trialItem{scores: map[string]*trialValues{}} })
	run := entry(t.runs, o.Trial, func() *trialRun { return &trialRun{means: map[string]*stats.Moments{}} })
	item.outcomes++
	if o.Failed() {
		item.failed++
		run.failed++
	} else {
		run.scored++
	}
	for i, s := range o.Scores {
		if _, twice := Lookup(o.Scores[:i], s.Name); twice {
			continue // named twice in one outcome: the first counts, as in Lookup
		}
		v := entry(item.scores, s.Name, func() *trialValues { return &trialValues{} })
		m := entry(run.means, s.Name, func() *stats.Moments { return &stats.Moments{} })
		v.add(s, o.Failed(), t.scorer.External(s.Name), m)
	}
}

func (v *trialValues) add(s Score, failed, external bool, run *stats.Moments) {
	if w := usable(s.Weight); w != nil && (v.weight == nil || *w < *v.weight) {
		v.weight = w // of different ones, which a stranger wrote, the least in any order
	}
	taken := s.Value != nil && math.Abs(*s.Value) <= stats.Limit
	v.presence.add(taken, s.Vacuous, failed, external)
	if taken {
		v.values = append(v.values, *s.Value)
		run.Add(*s.Value)
	} else if failed {
		run.Add(0)
	}
}

// with are the moments of the trials that have a value, and of so many zeros.
func (v *trialValues) with(zeros int) (m stats.Moments) {
	for _, x := range v.values {
		m.Add(x)
	}
	for range zeros {
		m.Add(0)
	}
	return m
}

// of gives a score of each item that has it.
func (t *trials) of(score string) iter.Seq[*trialValues] {
	return func(yield func(*trialValues) bool) {
		for _, item := range t.items {
			if v := item.scores[score]; v != nil && !yield(v) {
				return
			}
		}
	}
}

// stat sums a score up over the items. Only the pooled value is that of all
// outcomes, as s has it.
func (t *trials) stat(s Stat, outputOnly bool) Stat {
	out := Stat{Name: s.Name, Pooled: s.Pooled}
	var means, zeros stats.Moments
	var weighted weightedSum
	var all presence // of items; unanswered are also those of which another trial has a value
	for v := range t.of(s.Name) {
		if mean, ok := v.with(0).Mean(); ok {
			means.Add(mean)
		}
		if mean, ok := v.with(v.failed + v.unanswered).Mean(); ok {
			zeros.Add(mean)
			weighted.add(mean, v.weight)
		}
		if v.unanswered > 0 {
			out.Unanswered++
		}
		all.add(len(v.values) > 0, v.vacuous == len(v.values), v.failed > 0, v.unanswered > 0)
	}
	out.Failed, out.Undefined, out.Vacuous = all.failed, all.undefined, all.vacuous
	out.describe(means, zeros, outputOnly)
	out.WeightedMean = weighted.mean()
	return out
}

// summary says what the trials come to; planned is how many there are.
func (t *trials) summary(planned int, primary string, scores Stats) *Trials {
	out := &Trials{Count: planned, Items: len(t.items), Runs: []Trial{}, Scores: []Spread{}}
	flaky := stats.NewShortlist(mostFlaky, compareFlaky)
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
			trial.Mean = m.MeanOrNil()
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
	m := v.with(v.failed)
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
	for v := range t.of(score) {
		m := v.with(v.failed)
		if variance, ok := m.Variance(); ok {
			within.Add(variance)
			if least, top, _ := m.Range(); top-least <= same {
				out.Consistent++
			}
		}
	}
	out.N = within.N()
	mean, ok := within.Mean()
	out.Within = defined(math.Sqrt(mean), ok)
	return out
}
