package compare

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// unit is one item of one run: its trials averaged. Trials are no more items.
type unit struct {
	id      string
	trials  int
	failed  int
	values  []value
	groups  []outcome.Group
	cost    amount
	latency amount
	results []result
	first   outcome.Outcome // of the first trial, without its calls and output
}

// result is what a trial came to.
type result struct {
	class  outcome.Class
	output json.RawMessage
}

// sameResults reports whether every trial is known to have failed in the same way
// in both runs, or to have the same output.
func (u *unit) sameResults(v *unit) bool {
	return slices.EqualFunc(u.results, v.results, func(a, b result) bool {
		return a.class == b.class && (a.class != outcome.OK || isValue(a.output)) && sameJSON(a.output, b.output)
	})
}

// sameJSON reports whether two values are equal, however they are written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := dataset.Canonical(a)
	if err != nil {
		return false
	}
	y, err := dataset.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// value is one score of an item over its trials.
type value struct {
	name     string
	sum      float64
	n        int // trials that count, failed ones as 0
	num, den int64
	ratios   int  // trials with a usable ratio
	boolean  bool // a value means no or yes
	weight   *float64
}

func newUnit(o outcome.Outcome) *unit {
	u := &unit{id: o.Item, first: o}
	u.first.Output, u.first.Calls, u.first.Groups, u.first.Warnings = nil, nil, nil, nil
	u.add(o)
	return u
}

func (u *unit) add(o outcome.Outcome) {
	u.trials++
	u.results = append(u.results, result{o.Class, o.Output})
	if o.Failed() {
		u.failed++
	}
	seen := len(u.values)
	for i, s := range o.Scores {
		if _, twice := outcome.Lookup(o.Scores[:i], s.Name); twice {
			continue // named twice in one outcome: the first counts
		}
		u.value(s.Name, seen).add(s, o.Failed())
	}
	u.groups = append(u.groups, o.Groups...)
	if o.CostUSD != nil && usable(*o.CostUSD) {
		u.cost.sum += *o.CostUSD
		u.cost.n++
	}
	if o.Latency > 0 && o.FromCache == 0 { // a hit says nothing of the model
		u.latency.sum += float64(o.Latency) / float64(time.Millisecond)
		u.latency.n++
	}
}

// value returns the score of that name; only the first so many can be there.
func (u *unit) value(name string, seen int) *value {
	for i := range u.values[:seen] {
		if u.values[i].name == name {
			return &u.values[i]
		}
	}
	u.values = append(u.values, value{name: name})
	return &u.values[len(u.values)-1]
}

// add takes a score into account. Without a value it counts as 0 when the item
// failed, since it stands there only if the expected output defines it.
func (v *value) add(s outcome.Score, failed bool) {
	if v.weight == nil && s.Weight != nil && *s.Weight >= 0 && usable(*s.Weight) {
		v.weight = s.Weight
	}
	switch {
	case s.Value != nil && usable(*s.Value):
		v.sum += *s.Value
		v.n++
		v.boolean = v.boolean || s.Boolean
		if r := s.Ratio; r.Usable() {
			v.num += r.Num
			v.den += r.Den
			v.ratios++
		}
	case failed:
		v.n++
	}
}

// mean is the item's value; undefined when no trial has one.
func (v value) mean() (float64, bool) {
	if v.n == 0 {
		return 0, false
	}
	return v.sum / float64(v.n), true
}

// usable bounds values so that differences can be added up; NaN is not usable.
func usable(v float64) bool { return math.Abs(v) <= stats.Limit/4 }
