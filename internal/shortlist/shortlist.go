// Package shortlist keeps the first few of many values, in constant memory. It
// is no priority queue: nothing is ever taken out but what better values push
// out.
//
//	worst := shortlist.New(5, compareScores)
//	for _, item := range items {
//		worst.Offer(item)
//	}
//	use(worst.Values())
package shortlist

import "slices"

// List keeps the first few of everything offered, in the sense of an order. The
// order of offers changes nothing if no two different values are equal in it.
// Not safe for concurrent use.
type List[T any] struct {
	limit int
	order func(a, b T) int
	kept  []T
}

// New returns a List of at most so many values; none for a limit of 0 or less.
func New[T any](limit int, order func(a, b T) int) *List[T] {
	return &List[T]{limit: max(0, limit), order: order}
}

// Offer keeps x if it is among the first. It costs O(limit).
func (l *List[T]) Offer(x T) {
	at, _ := slices.BinarySearchFunc(l.kept, x, l.order)
	if at >= l.limit {
		return
	}
	l.kept = slices.Insert(l.kept, at, x)
	l.kept = l.kept[:min(len(l.kept), l.limit)]
}

// Values returns what is kept, sorted: a list of its own, never nil.
func (l *List[T]) Values() []T { return append([]T{}, l.kept...) }
