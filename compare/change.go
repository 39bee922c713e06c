package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"extraction-experiment/outcome"
)

// changed is an item on the shortlist, with the outcomes that explain it.
type changed struct {
	ItemChange
	base, cand outcome.Outcome
}

// change offers an item to the lists of those that changed most. Delta is
// turned round where less is better, so that below 0 is always worse.
func (r *collector) change(base, cand *unit) {
	b, inBase := base.find(r.known.metric).defined()
	c, inCand := cand.find(r.known.metric).defined()
	if !inBase || !inCand || math.Abs(c-b) <= Epsilon {
		return
	}
	item := ItemChange{Item: base.id, Base: b, Candidate: c, Delta: c - b}
	r.changed.Offer(changed{item, base.first, cand.first})
	worse := item
	if r.config.config.lower(r.known.metric) {
		worse.Delta = -worse.Delta
	}
	if worse.Delta < -Epsilon {
		r.regressed.Offer(worse)
	}
}

// compareChanged puts the largest changes first, of equal ones the losses.
func compareChanged(a, b changed) int {
	return cmp.Or(cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)), cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Item, b.Item))
}

// changes explains the items of the shortlist.
func (r *collector) changes() ([]Change, error) {
	list := []Change{}
	for _, item := range r.changed.Values() {
		c := Change{
			ItemChange:       item.ItemChange,
			BaseComment:      comment(item.base, r.known.metric),
			CandidateComment: comment(item.cand, r.known.metric),
			BaseFailure:      failure(item.base),
			CandidateFailure: failure(item.cand),
		}
		before, err := r.matches(item.base)
		if err != nil {
			return nil, fmt.Errorf("reading what the base matched in item %q: %w", item.Item, err)
		}
		after, err := r.matches(item.cand)
		if err != nil {
			return nil, fmt.Errorf("reading what the candidate matched in item %q: %w", item.Item, err)
		}
		c.Lost, c.Gained, c.Kept = without(before, after), without(after, before), len(before)
		c.Kept -= len(c.Lost)
		list = append(list, c)
	}
	return list, nil
}

func (r *collector) matches(o outcome.Outcome) ([]string, error) {
	if r.config.config.Matches == nil || !isValue(o.Explanation) {
		return nil, nil
	}
	return r.config.config.Matches(o.Explanation)
}

// without returns the lines of a that b does not have, each as often as a has
// it more.
func without(a, b []string) []string {
	left := slices.Clone(b)
	rest := []string{}
	for _, line := range a {
		if i := slices.Index(left, line); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		rest = append(rest, line)
	}
	return rest
}

func comment(o outcome.Outcome, metric string) string {
	s, _ := outcome.Lookup(o.Scores, metric)
	return s.Comment
}

func failure(o outcome.Outcome) string {
	switch {
	case !o.Failed():
		return ""
	case o.Failure != nil:
		return o.Failure.Error()
	}
	return string(o.Class)
}

func isValue(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
