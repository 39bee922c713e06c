package langfuse

import (
	"context"
	"errors"
	"net/url"
	"sync"
)

// How far pages are fetched ahead of the one that is yielded.
const (
	maxPagesAhead = 32
	maxBytesAhead = 8 << 20 // by the size of the first page
)

// listing is listPages for a list that does not change while it is read: after
// the first page, which tells how many there are, the next ones are fetched at
// once, so that a long list does not take as many round trips as it has pages. At
// most maxPagesAhead pages, or about maxBytesAhead, are in memory; size tells the
// bytes of an element. Where a page is too large the rest is read one page after
// the other. No request outlives a loop over it.
type listing[T any] struct {
	client *Client
	path   string
	query  url.Values
	limit  int
	size   func(T) int
	// first is the first page, once it is there.
	first *numberedPage[T]
}

// begin reads the first page, unless that is too large.
func (l *listing[T]) begin(ctx context.Context) (err error) {
	if l.limit, err = pageLimit(l.limit, maxPageLimit); err != nil {
		return err
	}
	first, err := getPage[T](ctx, l.client, l.path, l.query, 1, l.limit)
	if errors.Is(err, ErrTooLarge) {
		return nil
	}
	l.first = &first
	return err
}

// all yields the elements of a list that was begun.
func (l *listing[T]) all(ctx context.Context, yield func(T, error) bool) {
	if l.first == nil {
		listFrom(ctx, l.client, l.path, l.query, 1, l.limit, yield)
		return
	}
	bytes := 1
	for _, element := range l.first.Data {
		bytes += l.size(element)
		if !yield(element, nil) {
			return
		}
	}
	if len(l.first.Data) == 0 {
		return
	}
	a := &ahead[T]{client: l.client, path: l.path, query: l.query, limit: l.limit, last: int(l.first.Meta.TotalPages)}
	a.run(ctx, min(max(maxBytesAhead/bytes, 1), maxPagesAhead), yield)
}

// ahead reads the pages behind the first.
type ahead[T any] struct {
	client *Client
	path   string
	query  url.Values
	limit  int
	last   int // page
}

// fetched is a page, or why there is none.
type fetched[T any] struct {
	page numberedPage[T]
	err  error
}

// run keeps so many pages under way and yields them in their order.
func (a *ahead[T]) run(ctx context.Context, window int, yield func(T, error) bool) {
	inner, cancel := context.WithCancel(ctx)
	var under sync.WaitGroup
	defer under.Wait()
	defer cancel()
	var queue []chan fetched[T]
	next := 2
	for number := 2; number <= a.last; number++ {
		for ; next <= a.last && len(queue) < window; next++ {
			answer, wanted := make(chan fetched[T], 1), next
			queue = append(queue, answer)
			under.Go(func() {
				page, err := getPage[T](inner, a.client, a.path, a.query, wanted, a.limit)
				answer <- fetched[T]{page, err}
			})
		}
		got := <-queue[0]
		queue = queue[1:]
		if errors.Is(got.err, ErrTooLarge) {
			cancel()
			listFrom(ctx, a.client, a.path, a.query, number, a.limit, yield)
			return
		}
		if got.err != nil {
			yield(*new(T), got.err)
			return
		}
		if len(got.page.Data) == 0 {
			return
		}
		for _, element := range got.page.Data {
			if !yield(element, nil) {
				return
			}
		}
	}
}
