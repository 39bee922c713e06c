package outcome

import (
	"math"

	"extraction-experiment/internal/stats"
)

// trials gathers the outcomes of a run of several trials by item.
type trials struct {
	items  map[string]*trialItem
	runs   map[int]*trialRun
	scorer Scorer
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
	unanswered                 int
	weight                     *float64 // nil is none; all trials have the same
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
		if _, twice := Lookup(o.Scores[:i], s.Name); twice {
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
		v.add(s, o.Failed(), t.scorer.External(s.Name), m)
	}
}

func (v *trialValues) add(s Score, failed, external bool, run *stats.Moments) {
	if s.weighty() && (v.weight == nil || *s.Weight < *v.weight) {
		v.weight = s.Weight // of different ones, which a stranger wrote, the least in any order
	}
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
	case external:
		v.unanswered++
	default:
		v.undefined++
	}
}

// scored are the moments of the trials that have a value, all those with the
// failed ones as 0, owed those with the ones as 0 too that an evaluator did not
// answer for.
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

func (v *trialValues) owed() stats.Moments {
	m := v.all()
	for range v.unanswered {
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
func (t *trials) stat(s Stat, outputOnly bool) Stat {
	out := Stat{Name: s.Name, Pooled: s.Pooled}
	var means, zeros stats.Moments
	var weighted weightedSum
	for _, item := range t.items {
		v := item.scores[s.Name]
		if v == nil {
			continue
		}
		if mean, ok := v.scored().Mean(); ok {
			means.Add(mean)
		}
		if mean, ok := v.owed().Mean(); ok {
			zeros.Add(mean)
			weighted.add(mean, v.weight)
		}
		if v.unanswered > 0 {
			out.Unanswered++
		}
		switch {
		case len(v.values) > 0 && v.vacuous == len(v.values):
			out.Vacuous++
		case len(v.values) > 0:
		case v.failed > 0:
			out.Failed++
		case v.unanswered > 0:
		default:
			out.Undefined++
		}
	}
	out.describe(means, zeros, outputOnly)
	out.WeightedMean = weighted.mean()
	return out
}
