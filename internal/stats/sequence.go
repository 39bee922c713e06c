package stats

import (
	"cmp"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
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
	l.kept = slices.Insert(l.kept, at, x)
	l.kept = l.kept[:min(len(l.kept), l.limit)]
}

// Replace is Offer of a thing that may have come before: where it was further in front it stays,
// and else it takes its new place. The first ones are kept, once each.
func (l *Shortlist[T]) Replace(x T, same func(T) bool) {
	if at := slices.IndexFunc(l.kept, same); at >= 0 {
		if l.order(l.kept[at], x) <= 0 {
			return
		}
		l.kept = slices.Delete(l.kept, at, at+1)
	}
	l.Offer(x)
}

// Values returns what is kept, sorted: a list of its own, never nil.
func (l *Shortlist[T]) Values() []T { return append([]T{}, l.kept...) }

// Merge goes through several sequences at once, each in this order and without two equal
// values. It yields what is first in any of them, at the place of each sequence that
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

// Parallel passes values through do, so many at once, on all processors where that is 0, and
// yields the results in the order of the values, up to the first error of either. Some three
// values for each of those are in memory at a time. Nothing runs on when the loop over it has
// ended, and who has the loop gets the panics of do.
func Parallel[In, Out any](atOnce int, values iter.Seq2[In, error], do func(In) (Out, error)) iter.Seq2[Out, error] {
	type result struct {
		value    Out
		err      error
		panicked any
	}
	return func(yield func(Out, error) bool) {
		workers := cmp.Or(atOnce, runtime.GOMAXPROCS(0))
		order, ended := make(chan chan result, workers), make(chan struct{})
		var reading sync.WaitGroup
		defer reading.Wait()
		defer close(ended)
		reading.Go(func() {
			defer close(order)
			var working errgroup.Group
			defer working.Wait()
			working.SetLimit(workers)
			for value, err := range values {
				out := make(chan result, 1)
				select {
				case order <- out:
				case <-ended:
					return
				}
				if err != nil {
					out <- result{err: err}
					return
				}
				working.Go(func() error {
					var r result
					defer func() {
						if p := recover(); p != nil {
							r.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
						}
						out <- r
					}()
					r.value, r.err = do(value)
					return nil
				})
			}
		})
		for out := range order {
			r := <-out
			if r.panicked != nil {
				panic(r.panicked)
			}
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
	}
}
