package langfuse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"strconv"
	"sync"
)

// maxPageLimit is the largest page that Langfuse serves on most endpoints.
const maxPageLimit = 100

// defaultPageLimit is halved without a remainder when answers get too large.
const defaultPageLimit = 64

// numberedPage is a page of a numbered list.
type numberedPage[T any] struct {
	Data []T `json:"data"`
	Meta struct {
		TotalPages Number `json:"totalPages"`
	} `json:"meta"`
}

// getPage asks for one page of a numbered list.
func getPage[T any](ctx context.Context, c *Client, path string, query url.Values, number, limit int) (page numberedPage[T], err error) {
	ask := maps.Clone(query)
	ask.Set("page", strconv.Itoa(number))
	ask.Set("limit", strconv.Itoa(limit))
	err = c.getJSON(ctx, path, ask, &page)
	return page, err
}

// listPages yields the elements of a numbered list, page by page. When a page
// is too large it goes on with smaller ones from the same place, down to one
// element. The first error ends it.
func listPages[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		limit, err := pageLimit(limit, maxPageLimit)
		if err != nil {
			yield(*new(T), err)
			return
		}
		listFrom(ctx, c, path, query, 1, limit, yield)
	}
}

// listFrom is listPages from a page on; it reports false when yield did.
func listFrom[T any](ctx context.Context, c *Client, path string, query url.Values, number, limit int, yield func(T, error) bool) bool {
	for ; ; number++ {
		page, err := getPage[T](ctx, c, path, query, number, limit)
		if errors.Is(err, ErrTooLarge) && limit > 1 {
			smaller := smallerLimit(limit)
			// The next turn of the loop adds the 1 that is missing here.
			number = (number - 1) * (limit / smaller)
			limit = smaller
			continue
		}
		if err != nil {
			return yield(*new(T), err)
		}
		for _, element := range page.Data {
			if !yield(element, nil) {
				return false
			}
		}
		if len(page.Data) == 0 || Number(number) >= page.Meta.TotalPages {
			return true
		}
	}
}

// listCursor yields the elements of a list that is read by cursor. When a page
// is too large it goes on with smaller ones. The first error ends it, and so
// does a cursor that leads back to the page it came with.
func listCursor[T any](ctx context.Context, c *Client, path string, query url.Values, limit, most int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		limit, err := pageLimit(limit, most)
		if err != nil {
			yield(*new(T), err)
			return
		}
		cursor := ""
		for {
			var page struct {
				Data []T `json:"data"`
				Meta struct {
					Cursor string `json:"cursor"`
				} `json:"meta"`
			}
			ask := maps.Clone(query)
			ask.Set("limit", strconv.Itoa(limit))
			setText(ask, "cursor", cursor)
			err := c.getJSON(ctx, path, ask, &page)
			if errors.Is(err, ErrTooLarge) && limit > 1 {
				limit = smallerLimit(limit)
				continue
			}
			if err == nil && page.Meta.Cursor != "" && page.Meta.Cursor == cursor {
				err = fmt.Errorf("langfuse: GET %s%s: the server gives the same cursor twice", apiPrefix, path)
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, element := range page.Data {
				if !yield(element, nil) {
					return
				}
			}
			if cursor = page.Meta.Cursor; cursor == "" {
				return
			}
		}
	}
}

// pageLimit checks the page size a caller asked for; 0 is the default.
func pageLimit(limit, most int) (int, error) {
	if limit < 0 || limit > most {
		return 0, fmt.Errorf("langfuse: a page limit of %d: it must be 1 to %d, or 0 for %d", limit, most, defaultPageLimit)
	}
	return orDefault(limit, defaultPageLimit), nil
}

// smallerLimit returns a smaller page size that divides the given one, so that
// a page boundary of the old size is one of the new size.
func smallerLimit(limit int) int {
	if limit%2 == 0 {
		return limit / 2
	}
	return 1
}

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
