package outcome

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

// Trials sums up the trials of a run. Trials do not count as more items: the value of an item
// is the mean over its trials. Here, a failed trial counts as 0 wherever the expected output
// defines the score, and so does one without an answer of the evaluator, so that every trial has
// the same items.
type Trials struct {
	Count  int     `json:"count"`
	Items  int     `json:"items"`  // items with an outcome in any trial
	Uneven int     `json:"uneven"` // items without an outcome in some trial
	Runs   []Trial `json:"runs"`
	// Scores is the variation of each score, in the order of Summary.Scores.
	Scores []Spread `json:"scores"`
	// Flaky counts the items whose primary score differs between trials. FlakyItems are those
	// that vary most, at most 10.
	Flaky      int         `json:"flaky"`
	FlakyItems []FlakyItem `json:"flaky_items"`
}

// Trial is one pass of a run over its items. It is a separate run in Langfuse.
type Trial struct {
	Trial  int      `json:"trial"`
	Name   string   `json:"name"` // in Langfuse; the caller sets Name, ID and URL
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Scored int      `json:"scored"`
	Failed int      `json:"failed"`
	Mean   *float64 `json:"mean"` // mean of the primary score
}

// Spread is the variation of a score between trials.
type Spread struct {
	Name string `json:"name"`
	// Least and Top are the lowest and highest mean of a trial. Between is the standard
	// deviation of these means (K−1), the uncertainty of the mean of one trial. They are nil
	// for fewer than 2 trials with the score.
	Least   *float64 `json:"lowest_trial"`
	Top     *float64 `json:"highest_trial"`
	Between *float64 `json:"sd_between_trials"`
	// Within is √(mean over the N items of the sample variance over an item's trials): the
	// variation of one item. It is nil if N is 0.
	Within *float64 `json:"sd_within_items"`
	// Consistent counts those of the N items that have the same value, up to 1e-9, in all their
	// trials. N counts the items with the score in 2 or more trials.
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

// maxFlakyItems limits Trials.FlakyItems.
const maxFlakyItems = 10

// sameTolerance is the largest difference of values that count as the same.
const sameTolerance = 1e-9

func compareFlaky(a, b FlakyItem) int {
	return cmp.Or(cmp.Compare(b.Top-b.Least, a.Top-a.Least), cmp.Compare(a.ID, b.ID))
}

// trials collects the outcomes of a run of several trials by item.
type trials struct {
	items  map[string]*trialItem
	scores map[string]map[string]*trialValues // by score and item
	runs   map[int]*trialRun
}

type trialItem struct {
	outcomes, failed int
	causes           map[groupKey]*causeTrials
}

// trialValues are the values of one score of one item over its trials.
type trialValues struct {
	absences
	values []float64
	weight *float64 // nil if there is none; all trials have the same
}

type trialRun struct {
	scored, failed int
	means          map[string]stats.Moments // as trialValues.owed
}

// add adds an outcome, but not its scores and causes.
func (t *trials) add(o Outcome) {
	item := getOrCreate(t.items, o.Item, func() *trialItem { return &trialItem{causes: map[groupKey]*causeTrials{}} })
	run := getOrCreate(t.runs, o.Trial, func() *trialRun { return &trialRun{means: map[string]stats.Moments{}} })
	item.outcomes++
	if o.Failed() {
		item.failed++
		run.failed++
	} else {
		run.scored++
	}
}

// addScore adds a score of an outcome that was added. external means that an evaluator owes a
// value for every output.
func (t *trials) addScore(o Outcome, s Score, external bool) {
	if t.scores[s.Name] == nil {
		t.scores[s.Name] = map[string]*trialValues{}
	}
	v := getOrCreate(t.scores[s.Name], o.Item, func() *trialValues { return &trialValues{} })
	if w := usableWeight(s.Weight); w != nil && (v.weight == nil || *w < *v.weight) {
		v.weight = w // the lowest of different weights, whatever the order
	}
	hasValue := s.Value != nil && math.Abs(*s.Value) <= stats.Limit
	v.absences.add(hasValue, s.Vacuous, o.Failed(), external)
	run := t.runs[o.Trial]
	values := run.means[s.Name]
	if hasValue {
		v.values = append(v.values, *s.Value)
		values.Add(*s.Value)
	} else if o.Failed() || external {
		values.Add(0)
	}
	run.means[s.Name] = values
}

// owed returns the moments of the values, with a 0 for each trial that failed or has no answer of the evaluator.
func (v *trialValues) owed() stats.Moments {
	m, _ := stats.MomentsOf(v.values)
	for range v.failed + v.unanswered {
		m.Add(0)
	}
	return m
}

// stat computes the statistics of a score over the items. The pooled value is that of s, which
// is over all outcomes.
func (t *trials) stat(s Stat, outputOnly bool) Stat {
	out := Stat{Name: s.Name, Pooled: s.Pooled}
	var means, zeros stats.Moments
	var weighted WeightedSum
	var counts absences // by what all trials of an item have; Unanswered is counted above
	for _, v := range t.scores[s.Name] {
		values, _ := stats.MomentsOf(v.values)
		if mean, ok := values.Mean(); ok {
			means.Add(mean)
		}
		if mean, ok := v.owed().Mean(); ok {
			zeros.Add(mean)
			weighted.Add(mean, v.weight)
		}
		if v.unanswered > 0 {
			out.Unanswered++
		}
		counts.add(len(v.values) > 0, v.vacuous == len(v.values), v.failed > 0, v.unanswered > 0)
	}
	out.Failed, out.Undefined, out.Vacuous = counts.failed, counts.undefined, counts.vacuous
	out.setMeans(means, zeros, outputOnly)
	out.WeightedMean = weighted.Mean()
	return out
}

// summary returns the Trials; planned is the number of trials.
func (t *trials) summary(planned int, primary string, scores Stats) *Trials {
	out := &Trials{Count: planned, Items: len(t.items), Runs: []Trial{}, Scores: []Spread{}}
	flaky := stats.NewShortlist(maxFlakyItems, compareFlaky)
	for id, item := range t.items {
		if item.outcomes < planned {
			out.Uneven++
		}
		if f, ok := item.flaky(id, t.scores[primary][id]); ok {
			out.Flaky++
			flaky.Offer(f)
		}
	}
	out.FlakyItems = flaky.Values()
	for _, n := range slices.Sorted(maps.Keys(t.runs)) {
		run := t.runs[n]
		mean := run.means[primary].MeanOrNil()
		out.Runs = append(out.Runs, Trial{Trial: n, Scored: run.scored, Failed: run.failed, Mean: mean})
	}
	for _, s := range scores {
		out.Scores = append(out.Scores, t.spread(s.Name))
	}
	return out
}

// flaky returns an item whose primary score varies; v has its values, or is nil.
func (i *trialItem) flaky(id string, v *trialValues) (FlakyItem, bool) {
	if v == nil {
		return FlakyItem{}, false
	}
	m := v.owed()
	least, top, ok := m.Range()
	if !ok || top-least <= sameTolerance {
		return FlakyItem{}, false
	}
	mean, _ := m.Mean()
	return FlakyItem{ID: id, Trials: i.outcomes, Failed: i.failed, Least: least, Top: top, Mean: mean}, true
}

// spread computes the variation of a score between trials and within items.
func (t *trials) spread(score string) Spread {
	out := Spread{Name: score}
	var runs, within stats.Moments
	for _, run := range t.runs {
		if mean, ok := run.means[score].Mean(); ok {
			runs.Add(mean)
		}
	}
	if sd, ok := runs.SD(); ok {
		least, top, _ := runs.Range()
		out.Least, out.Top, out.Between = &least, &top, &sd
	}
	for _, v := range t.scores[score] {
		m := v.owed()
		if variance, ok := m.Variance(); ok {
			within.Add(variance)
			if least, top, _ := m.Range(); top-least <= sameTolerance {
				out.Consistent++
			}
		}
	}
	out.N = within.N()
	mean, ok := within.Mean()
	out.Within = ptrIf(math.Sqrt(mean), ok)
	return out
}
