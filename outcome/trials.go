package outcome

import (
	"cmp"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

// Trials is what the repetitions of a run come to. A trial is no more items: an
// item's value is the mean over its trials. Here, a failed trial counts as 0
// wherever the expected output defines the score, so that every trial is over
// the same items.
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

// Spread is how much one score varies where nothing was changed.
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

// trials gathers the outcomes of a run of several trials by item.
type trials struct {
	items map[string]*trialItem
	runs  map[int]*trialRun
}

type trialItem struct {
	outcomes, failed int
	scores           map[string]*trialValues
	worst            *WorstItem
}

// trialValues is one score of one item over its trials.
type trialValues struct {
	values                     []float64
	failed, undefined, vacuous int
}

type trialRun struct {
	scored, failed int
	means          map[string]*stats.Moments // failures as 0
}

// add takes an outcome into account, all but its place among the worst.
func (t *trials) add(o Outcome) {
	item, run := t.items[o.Item], t.runs[o.Trial]
	if item == nil {
		item = &trialItem{scores: map[string]*trialValues{}}
		t.items[o.Item] = item
	}
	if run == nil {
		run = &trialRun{means: map[string]*stats.Moments{}}
		t.runs[o.Trial] = run
	}
	item.outcomes++
	if o.Failed() {
		item.failed++
		run.failed++
	} else {
		run.scored++
	}
	for i, s := range o.Scores {
		if slices.ContainsFunc(o.Scores[:i], func(e Score) bool { return e.Name == s.Name }) {
			continue // named twice in one outcome: the first counts, as in Lookup
		}
		v, m := item.scores[s.Name], run.means[s.Name]
		if v == nil {
			v = &trialValues{}
			item.scores[s.Name] = v
		}
		if m == nil {
			m = &stats.Moments{}
			run.means[s.Name] = m
		}
		v.add(s, o.Failed(), m)
	}
}

func (v *trialValues) add(s Score, failed bool, run *stats.Moments) {
	switch {
	case s.Value != nil && math.Abs(*s.Value) <= stats.Limit:
		v.values = append(v.values, *s.Value)
		run.Add(*s.Value)
		if s.Vacuous {
			v.vacuous++
		}
	case failed:
		v.failed++
		run.Add(0)
	default:
		v.undefined++
	}
}

// scored are the moments of the trials that have a value, all those with the
// failed ones as 0.
func (v *trialValues) scored() (m stats.Moments) {
	for _, x := range v.values {
		m.Add(x)
	}
	return m
}

func (v *trialValues) all() stats.Moments {
	m := v.scored()
	for range v.failed {
		m.Add(0)
	}
	return m
}

// worse keeps the worst trial of each item.
func (t *trials) worse(w WorstItem) {
	item := t.items[w.ID]
	if item.worst == nil || compareWorst(w, *item.worst) < 0 {
		item.worst = &w
	}
}

// stat sums a score up over the items. Only the pooled value is that of all
// outcomes, as s has it.
func (t *trials) stat(s Stat) Stat {
	out := Stat{Name: s.Name, Pooled: s.Pooled}
	var means, zeros stats.Moments
	for _, item := range t.items {
		v := item.scores[s.Name]
		if v == nil {
			continue
		}
		if mean, ok := v.scored().Mean(); ok {
			means.Add(mean)
		}
		if mean, ok := v.all().Mean(); ok {
			zeros.Add(mean)
		}
		switch {
		case len(v.values) > 0 && v.vacuous == len(v.values):
			out.Vacuous++
		case len(v.values) > 0:
		case v.failed > 0:
			out.Failed++
		default:
			out.Undefined++
		}
	}
	out.N = means.N()
	out.Mean, out.FailuresAsZero = meanOf(means), meanOf(zeros)
	if least, top, ok := means.Range(); ok {
		out.Min, out.Max = &least, &top
	}
	if lo, hi, ok := means.Interval95(); ok {
		out.CI95 = &[2]float64{lo, hi}
	}
	return out
}

func meanOf(m stats.Moments) *float64 {
	if mean, ok := m.Mean(); ok {
		return &mean
	}
	return nil
}

func compareFlaky(a, b FlakyItem) int {
	return cmp.Or(cmp.Compare(b.Top-b.Least, a.Top-a.Least), cmp.Compare(a.ID, b.ID))
}
