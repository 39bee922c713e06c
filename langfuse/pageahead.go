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
	maxBytesAhead = 8 << 20 // by the size of the pages that are there, or of what is expected
)

// listing is listPages for a list that does not change while it is read: once it is
// known how many pages there are, the next ones are fetched at once, so that a long
// list does not take as many round trips as it has pages. At most maxPagesAhead
// pages, or about maxBytesAhead, are in memory; size tells the bytes of an element.
// Where a page is too large the rest is read one page after the other. No request
// outlives a loop over it.
type listing[T any] struct {
	client *Client
	path   string
	query  url.Values
	limit  int
	size   func(T) int
	// expected is about how many elements there are, of each bytes; 0 is unknown.
	expected, each int
	// begun are the first pages, once they are there.
	begun []numberedPage[T]
}

// begin reads the first page, unless that is too large, and beside it those that are
// expected behind it. Where one of those fails it is read again by all.
func (l *listing[T]) begin(ctx context.Context) (err error) {
	if l.limit, err = pageLimit(l.limit, maxPageLimit); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make([]fetched[T], l.atOnce())
	var under sync.WaitGroup
	for i := range pages {
		under.Go(func() {
			pages[i].page, pages[i].err = getPage[T](inner, l.client, l.path, l.query, i+1, l.limit)
			if i == 0 && pages[i].err != nil {
				cancel()
			}
		})
	}
	under.Wait()
	if err := pages[0].err; err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	for _, p := range pages {
		if p.err != nil {
			break
		}
		l.begun = append(l.begun, p.page)
	}
	return nil
}

// atOnce returns how many pages are asked for before the first is there.
func (l *listing[T]) atOnce() int {
	pages := (l.expected + l.limit - 1) / l.limit
	return max(min(pages, window(l.limit*l.each)), 1)
}

// window returns how many pages of so many bytes may be in memory.
func window(bytes int) int {
	return min(max(maxBytesAhead/max(bytes, 1), 1), maxPagesAhead)
}

// all yields the elements of a list that was begun.
func (l *listing[T]) all(ctx context.Context, yield func(T, error) bool) {
	if len(l.begun) == 0 {
		listFrom(ctx, l.client, l.path, l.query, 1, l.limit, yield)
		return
	}
	bytes := 0
	for _, page := range l.begun {
		for _, element := range page.Data {
			bytes += l.size(element)
			if !yield(element, nil) {
				return
			}
		}
		if len(page.Data) == 0 {
			return
		}
	}
	next, last := len(l.begun)+1, int(l.begun[0].Meta.TotalPages)
	a := &ahead[T]{client: l.client, path: l.path, query: l.query, limit: l.limit, next: next, last: last}
	a.run(ctx, window(bytes/len(l.begun)), yield)
}

// ahead reads the pages behind the first ones.
type ahead[T any] struct {
	client *Client
	path   string
	query  url.Values
	limit  int
	next   int // page
	last   int
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
	for number := a.next; number <= a.last; number++ {
		for ; a.next <= a.last && len(queue) < window; a.next++ {
			answer, wanted := make(chan fetched[T], 1), a.next
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
