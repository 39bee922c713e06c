package stats

import (
	"iter"
	"slices"
)

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

// Merge goes through several sequences at once, each in this order and without two equal
// values. It yields what stands first in any of them, at the place of each sequence that
// has it and nil at the others: a list of its own. It stops at the first error.
func Merge[T any](order func(a, b *T) int, seqs ...iter.Seq2[*T, error]) iter.Seq2[[]*T, error] {
	return func(yield func([]*T, error) bool) {
		next := make([]*T, len(seqs)) // nil after the last
		pulls := make([]func() (*T, error, bool), len(seqs))
		due := slices.Repeat([]bool{true}, len(seqs)) // those of which the next value is to be read
		for i, seq := range seqs {
			pull, stop := iter.Pull2(seq)
			defer stop()
			pulls[i] = pull
		}
		for {
			var first *T
			for i, pull := range pulls {
				if due[i] {
					v, err, _ := pull()
					if err != nil {
						yield(nil, err)
						return
					}
					next[i] = v
				}
				if next[i] != nil && (first == nil || order(next[i], first) < 0) {
					first = next[i]
				}
			}
			if first == nil {
				return
			}
			row := make([]*T, len(seqs))
			for i, v := range next {
				if due[i] = v != nil && order(v, first) == 0; due[i] {
					row[i] = v
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
