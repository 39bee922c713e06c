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

// Shortlist keeps the first few of all values offered, in a given order and in constant memory.
// The order of offers does not matter if no two different values are equal in the given order.
// It is not safe for concurrent use.
type Shortlist[T any] struct {
	limit  int
	order  func(a, b T) int
	values []T
}

// NewShortlist returns a Shortlist of at most limit values; none for a limit of 0 or less.
func NewShortlist[T any](limit int, order func(a, b T) int) *Shortlist[T] {
	return &Shortlist[T]{limit: max(0, limit), order: order}
}

// Offer keeps x if it is among the first. Time: O(limit).
func (l *Shortlist[T]) Offer(x T) {
	i, _ := slices.BinarySearchFunc(l.values, x, l.order)
	l.values = slices.Insert(l.values, i, x)
	l.values = l.values[:min(len(l.values), l.limit)]
}

// Replace is Offer of a new value of something that may have been offered before; same reports
// whether a value is of the same thing. The value that comes first in the order is kept, so
// that each thing is kept once.
func (l *Shortlist[T]) Replace(x T, same func(T) bool) {
	if i := slices.IndexFunc(l.values, same); i >= 0 {
		if l.order(l.values[i], x) <= 0 {
			return
		}
		l.values = slices.Delete(l.values, i, i+1)
	}
	l.Offer(x)
}

// Values returns a copy of the kept values, sorted and never nil.
func (l *Shortlist[T]) Values() []T { return append([]T{}, l.values...) }

// Values yields the values of a slice without errors.
func Values[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Merge merges several sequences, each of which is in this order and has no equal values. For
// each distinct value it yields a new slice that has, for each sequence, its value or nil. It
// stops at the first error.
func Merge[T any](order func(a, b *T) int, seqs ...iter.Seq2[*T, error]) iter.Seq2[[]*T, error] {
	return func(yield func([]*T, error) bool) {
		next := make([]*T, len(seqs)) // nil if it is to be read, and at the end of a sequence
		pulls := make([]func() (*T, error, bool), len(seqs))
		for i, seq := range seqs {
			pull, stop := iter.Pull2(seq)
			defer stop()
			pulls[i] = pull
		}
		for {
			var first *T
			for i, pull := range pulls {
				if next[i] == nil {
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
				if v != nil && order(v, first) == 0 {
					row[i], next[i] = v, nil
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Map yields what convert makes of the values. An error comes with what convert makes of its value.
func Map[In, Out any](values iter.Seq2[In, error], convert func(In) Out) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		for value, err := range values {
			if !yield(convert(value), err) {
				return
			}
		}
	}
}

// Filter yields the values that keep accepts, and the errors.
func Filter[T any](values iter.Seq2[T, error], keep func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for value, err := range values {
			if (err != nil || keep(value)) && !yield(value, err) {
				return
			}
		}
	}
}

// Parallel calls do with the values, at most limit at once (0 means the number of processors),
// and yields the results in the order of the values, up to the first error of values or do.
// About three values for each call at once are in memory. No goroutine remains after the loop,
// and panics of do are raised in the loop.
func Parallel[In, Out any](limit int, values iter.Seq2[In, error], do func(In) (Out, error)) iter.Seq2[Out, error] {
	type result struct {
		value    Out
		err      error
		panicked any
	}
	return func(yield func(Out, error) bool) {
		workers := cmp.Or(limit, runtime.GOMAXPROCS(0))
		results, done := make(chan chan result, workers), make(chan struct{})
		var reader sync.WaitGroup
		defer reader.Wait()
		defer close(done)
		reader.Go(func() {
			defer close(results)
			var group errgroup.Group
			defer group.Wait()
			group.SetLimit(workers)
			for value, err := range values {
				out := make(chan result, 1)
				select {
				case results <- out:
				case <-done:
					return
				}
				if err != nil {
					out <- result{err: err}
					return
				}
				group.Go(func() error {
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
		for out := range results {
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
