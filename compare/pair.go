package compare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// pairUp compares two runs, all but what depends on the other pairs, which the
// score is for.
func (c Config) pairUp(first, second *entry) (Pair, *Score) {
	p := Pair{First: first.header.Name, Second: second.header.Name, Verdict: Unclear}
	p.Incompatible = append([]Mismatch{}, compareHeaders(first.header, second.header)...)
	for _, e := range []*entry{first, second} {
		p.Incompatible = append(p.Incompatible, e.unfinished("run "+e.header.Name)...)
	}
	if len(p.Incompatible) == 0 {
		p.Incompatible = append(p.Incompatible, slices.Concat(
			affected(onlyIn(first.items, second.items), "without an outcome in "+p.Second),
			affected(onlyIn(second.items, first.items), "without an outcome in "+p.First))...)
	}
	if len(p.Incompatible) > 0 {
		return p, &Score{Verdict: Unclear}
	}
	col := &column{clustered: c.clustered()}
	for i, id := range slices.Sorted(maps.Keys(first.items)) {
		col.add(first.items[id], second.items[id], i, first.clusters.of[id], false)
	}
	s := c.score(c.Metric, col)
	s.Incomparable = incomparable(c.Metric, first.Summary, second.Summary)
	if !s.same() && !s.claims() || s.Incomparable != "" {
		s.P = nil // too few items or clusters, or evaluators, to claim anything
	}
	p.N, p.Difference, p.CI95, p.P = s.N, s.Difference, s.CI95, s.P
	p.Wins, p.Losses, p.Ties = s.Wins, s.Losses, s.Ties
	return p, &s
}

// onlyIn returns the ids that one of two runs has and the other has not.
func onlyIn[V any](one, other map[string]V) (ids []string) {
	for id := range one {
		if _, known := other[id]; !known {
			ids = append(ids, id)
		}
	}
	return ids
}

// concludePairs corrects for the number of pairs and says what holds then.
func concludePairs(pairs []Pair, scores []*Score) {
	var sets [][]*Score
	for _, s := range scores {
		if s.P != nil {
			sets = append(sets, []*Score{s})
		}
	}
	holm(sets)
	for i, s := range scores {
		pairs[i].PHolm, pairs[i].Verdict = s.PHolm, s.verdict()
	}
}

// units gathers the outcomes of a run item by item, and sums them up as well; the
// order is that of the scores in the sum. It refuses a source whose outcomes are not
// in order.
func (r *run) units(ctx context.Context, order []string) iter.Seq2[*unit, error] {
	r.sum = outcome.NewSummariser(r.header, outcome.SummaryConfig{Order: order, Worst: -1})
	return func(yield func(*unit, error) bool) {
		var u *unit
		for o, err := range r.Outcomes(ctx) {
			if err == nil && u != nil && o.Item < u.id {
				err = fmt.Errorf("reading %s: item %q comes after %q, outcomes must come in order of their ids",
					r.Where(), o.Item, u.id)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			r.sum.Add(o)
			if u != nil && o.Item == u.id {
				u.add(o)
				continue
			}
			if u != nil && !yield(u, nil) {
				return
			}
			u = newUnit(o)
		}
		if u != nil {
			yield(u, nil)
		}
	}
}

// unit is one item of one run: its trials averaged. Trials are no more items.
type unit struct {
	id      string
	failed  int
	values  []value
	groups  []outcome.Group
	cost    stats.Moments     // of the trials where it is known
	latency stats.Moments     // milliseconds
	trials  []outcome.Outcome // without their calls, groups and warnings
}

// sameResults reports whether every trial is known to have failed in the same way
// in both runs, or to have the same output.
func (u *unit) sameResults(v *unit) bool {
	return slices.EqualFunc(u.trials, v.trials, func(a, b outcome.Outcome) bool {
		return a.Class == b.Class && (a.Class != outcome.OK || isValue(a.Output)) && sameJSON(a.Output, b.Output)
	})
}

// sameJSON reports whether two values are equal, however they are written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := dataset.Canonical(a)
	y, errY := dataset.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
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
	u := &unit{id: o.Item}
	u.add(o)
	return u
}

func (u *unit) add(o outcome.Outcome) {
	if o.Failed() {
		u.failed++
	}
	for i, s := range o.Scores {
		if _, twice := outcome.Lookup(o.Scores[:i], s.Name); twice {
			continue // named twice in one outcome: the first counts
		}
		if u.find(s.Name) == nil {
			u.values = append(u.values, value{name: s.Name})
		}
		u.find(s.Name).add(s, o.Failed())
	}
	u.groups = append(u.groups, o.Groups...)
	if o.CostUSD != nil && usable(*o.CostUSD) {
		u.cost.Add(*o.CostUSD)
	}
	if o.Latency > 0 && o.FromCache == 0 { // a hit says nothing of the model
		u.latency.Add(float64(o.Latency) / float64(time.Millisecond))
	}
	o.Calls, o.Groups, o.Warnings = nil, nil, nil
	u.trials = append(u.trials, o)
}

// meanCost is what a trial cost; nil where it is not known of every one.
func (u *unit) meanCost() *float64 {
	if u.cost.N() < len(u.trials) {
		return nil
	}
	return u.cost.MeanOrNil()
}

// add takes a score into account. Without a value it counts as 0 when the item
// failed, since it is there only if the expected output defines it.
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

// defined is the item's value, the mean of its trials; false when no trial has one.
func (v *value) defined() (float64, bool) {
	if v == nil || v.n == 0 {
		return 0, false
	}
	return v.sum / float64(v.n), true
}

// usable bounds values so that differences can be added up; NaN is not usable.
func usable(v float64) bool { return math.Abs(v) <= stats.Limit/4 }

// Mismatch is one reason why two runs cannot be compared.
type Mismatch struct {
	What      string `json:"what"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
	Advice    string `json:"advice,omitempty"` // what makes them comparable
}

// String says it in one line.
func (m Mismatch) String() string { return m.between("the base", "the candidate") }

func (m Mismatch) between(base, candidate string) string {
	text := m.What
	if m.Base != "" || m.Candidate != "" {
		text += fmt.Sprintf(": %s in %s, %s in %s", m.Base, base, m.Candidate, candidate)
	}
	if m.Advice != "" {
		text += "; " + m.Advice
	}
	return text
}

// differing is a Mismatch of what two runs say; what one does not say is unknown.
func differing(what, base, cand string) Mismatch {
	return Mismatch{What: what, Base: cmp.Or(base, "unknown"), Candidate: cmp.Or(cand, "unknown")}
}

// compareHeaders lists what differs between the descriptions of two runs. A
// hash that is missing is not a hash that is equal.
func compareHeaders(base, cand outcome.Header) []Mismatch {
	var list []Mismatch
	check := func(equal bool, what, b, c string) {
		if !equal {
			list = append(list, differing(what, b, c))
		}
	}
	b, c := base.Dataset, cand.Dataset
	sameData := b.Fingerprint == c.Fingerprint && b.Fingerprint != ""
	check(base.Harness == cand.Harness, "harness", base.Harness, cand.Harness)
	check(sameData, "fingerprint of the dataset", b.Fingerprint, c.Fingerprint)
	check(b.Fingerprint == c.Fingerprint || b.Selection == c.Selection, "selection of items",
		cmp.Or(b.Selection, "all"), cmp.Or(c.Selection, "all"))
	scorers := CompareScorers(base.Scorer, cand.Scorer)
	if b, c := base.Scorer.Version, cand.Scorer.Version; b != c && b != "" && c != "" && base.Harness == "extraction" {
		scorers[0].Advice = "experiment rescore scores the results of the older run again, without the model"
	}
	list = append(list, scorers...)
	for _, key := range []string{outcome.PDFSHA256, outcome.QuestionsSHA256} {
		b, inBase := base.Metadata[key]
		c, inCand := cand.Metadata[key]
		both := inBase && inCand
		// The same questions may have been hashed in another form by an earlier version.
		check(b == c && (both || base.Harness != "answers") || both && sameData && key == outcome.QuestionsSHA256, key, b, c)
	}
	return list
}

// CompareScorers lists what differs between two ways to score: the version, first, and
// each option. A version that is missing is not a version that is equal.
func CompareScorers(base, cand outcome.Scorer) (list []Mismatch) {
	if b, c := base.Version, cand.Version; b != c || b == "" {
		list = append(list, differing("scorer version", b, c))
	}
	return append(list, compareOptions(base.Options, cand.Options)...)
}

// compareOptions names the scoring options that differ.
func compareOptions(base, cand json.RawMessage) (list []Mismatch) {
	if bytes.Equal(base, cand) {
		return nil
	}
	var b, c map[string]json.RawMessage
	if len(base) > 0 && json.Unmarshal(base, &b) != nil || len(cand) > 0 && json.Unmarshal(cand, &c) != nil {
		return []Mismatch{differing("scoring options", string(base), string(cand))}
	}
	both := map[string]json.RawMessage{}
	maps.Copy(both, b)
	maps.Copy(both, c)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if !sameJSON(b[key], c[key]) {
			list = append(list, differing("scoring option "+key, string(b[key]), string(c[key])))
		}
	}
	return list
}

// compareItems lists which items are in one run only, and which differ, by their
// hashes.
func compareItems(base, cand map[string]string) []Mismatch {
	var changed []string
	for id, hash := range cand {
		if was := base[id]; was != "" && hash != "" && was != hash {
			changed = append(changed, id)
		}
	}
	return slices.Concat(affected(onlyIn(base, cand), "only in the base"),
		affected(onlyIn(cand, base), "only in the candidate"), affected(changed, "with other content"))
}

// affected is a Mismatch about some items, of which it names the first; none without any.
func affected(ids []string, what string) []Mismatch {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	shown := list(ids[:min(5, len(ids))], len(ids))
	return []Mismatch{{What: fmt.Sprintf("%s %s: %s", textutil.Counted(len(ids), "item"), what, shown)}}
}

// incomparable says why the difference of a score says nothing of the runs, to be read
// after its name; "" for one that does. It is about scores of external evaluators: the two runs must have
// asked the same one, and it must have answered for every output.
func incomparable(name string, base, cand outcome.Summary) string {
	b, inBase := custom(name, base)
	c, inCand := custom(name, cand)
	switch {
	case !inBase && !inCand:
		return ""
	case inBase && inCand && !b.Same(c):
		return "comes from another evaluator, or one that has changed: its difference says nothing of the runs"
	}
	for i, side := range []outcome.Summary{base, cand} {
		if stat, ok := side.Scores.Lookup(name); ok && stat.Unanswered > 0 {
			return fmt.Sprintf("has no value for %s of the %s: the evaluator gave none", unanswered(stat), []string{"base", "candidate"}[i])
		}
	}
	return ""
}

func custom(name string, s outcome.Summary) (outcome.CustomScorer, bool) {
	for _, c := range s.Run.CustomScorers {
		if c.Name == name {
			return c, true
		}
	}
	return outcome.CustomScorer{}, false
}

// unanswered says for how many items an evaluator gave no score.
func unanswered(s outcome.Stat) string {
	return fmt.Sprintf("%d of %s", s.Unanswered, textutil.Counted(s.N+s.Failed+s.Unanswered, "item"))
}
