package stats

import "slices"

// Shortlist keeps the first few of everything offered, in the sense of an order, in
// constant memory. The order of offers changes nothing if no two different values are
// equal in it. Not safe for concurrent use.
type Shortlist[T any] struct {
	limit int
	order func(a, b T) int
	kept  []T
}

// NewShortlist returns a Shortlist of at most so many values; none for a limit of 0 or less.
func NewShortlist[T any](limit int, order func(a, b T) int) *Shortlist[T] {
	return &Shortlist[T]{limit: max(0, limit), order: order}
}

// Offer keeps x if it is among the first. It costs O(limit).
func (l *Shortlist[T]) Offer(x T) {
	at, _ := slices.BinarySearchFunc(l.kept, x, l.order)
	if at >= l.limit {
		return
	}
	l.kept = slices.Insert(l.kept, at, x)
	l.kept = l.kept[:min(len(l.kept), l.limit)]
}

// Values returns what is kept, sorted: a list of its own, never nil.
func (l *Shortlist[T]) Values() []T { return append([]T{}, l.kept...) }
