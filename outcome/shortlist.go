package outcome

import "slices"

// shortlist keeps the first few of everything offered, sorted, in the sense of
// order; the order of offers changes nothing if order has no ties between
// different values. An offer costs O(limit).
type shortlist[T any] struct {
	limit int
	order func(a, b T) int
	list  []T
}

func (s *shortlist[T]) offer(x T) {
	at, _ := slices.BinarySearchFunc(s.list, x, s.order)
	if at >= s.limit {
		return
	}
	s.list = slices.Insert(s.list, at, x)
	if len(s.list) > s.limit {
		s.list = s.list[:s.limit]
	}
}
