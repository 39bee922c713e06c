package extraction

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// inOrder passes values through do on all processors and gives the results to
// emit in the order in which next returned the values. next says with ok false
// that there are no more. The first error of emit, or the end of ctx, stops it. A
// few values per processor are in memory at a time.
func inOrder[In, Out any](ctx context.Context, next func() (value In, ok bool), do func(In) Out, emit func(Out) error) error {
	type job struct {
		in  In
		out chan Out
	}
	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	todo, order := make(chan job), make(chan job, 2*workers)
	group.Go(func() error {
		defer close(todo)
		defer close(order)
		for {
			value, ok := next()
			if !ok {
				return nil
			}
			j := job{value, make(chan Out, 1)}
			for _, to := range []chan<- job{order, todo} {
				select {
				case to <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	})
	for range workers {
		group.Go(func() error {
			for j := range todo {
				j.out <- do(j.in)
			}
			return nil
		})
	}
	group.Go(func() error {
		for j := range order {
			select {
			case out := <-j.out:
				if err := emit(out); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}
