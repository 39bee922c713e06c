package outcome

import (
	"slices"
	"time"
)

// Waits are the times at which nothing was done about an item but to wait, for
// limits and before a request was sent again; in their order.
type Waits []wait

type wait struct{ from, to time.Time }

// WaitsOf returns those of the calls of a task. While one of them waits, a model
// call that is under way at the same time is no waiting. Time O(n log n) for n
// calls.
func WaitsOf(calls []Call) Waits {
	type edge struct {
		at            time.Time
		waiting, busy int
	}
	var edges []edge
	for _, c := range calls {
		if c.Kind == JudgingKind {
			continue
		}
		if c.Waited > 0 {
			edges = append(edges, edge{c.Started.Add(-c.Waited), 1, 0}, edge{c.Started, -1, 0})
		}
		if c.Kind == "generation" && c.Ended.After(c.Started) {
			edges = append(edges, edge{c.Started, 0, 1}, edge{c.Ended, 0, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	var waits Waits
	waiting, busy := 0, 0
	for i, e := range edges {
		if waiting > 0 && busy == 0 && e.at.After(edges[i-1].at) {
			waits = append(waits, wait{edges[i-1].at, e.at})
		}
		waiting, busy = waiting+e.waiting, busy+e.busy
	}
	return waits
}

// Sum returns how long was waited in all.
func (w Waits) Sum() time.Duration {
	var sum time.Duration
	for _, one := range w {
		sum += one.to.Sub(one.from)
	}
	return sum
}

// Before returns how much of it was before an instant.
func (w Waits) Before(t time.Time) time.Duration {
	var sum time.Duration
	for _, one := range w {
		if !one.from.Before(t) {
			break
		}
		if one.to.After(t) {
			return sum + t.Sub(one.from)
		}
		sum += one.to.Sub(one.from)
	}
	return sum
}
