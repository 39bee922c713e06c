package langfuse

import (
	"cmp"
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
	return cmp.Or(limit, defaultPageLimit), nil
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
	maxBytesAhead = 8 << 20 // by the size of the first page
)

// listing is listPages for a list that does not change while it is read: once the first
// page tells how many there are, the next ones are fetched at once, so that a long
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
	first  *numberedPage[T] // nil where it is too large
}

// begin reads the first page.
func (l *listing[T]) begin(ctx context.Context) (err error) {
	if l.limit, err = pageLimit(l.limit, maxPageLimit); err != nil {
		return err
	}
	page, err := getPage[T](ctx, l.client, l.path, l.query, 1, l.limit)
	switch {
	case err == nil:
		l.first = &page
	case !errors.Is(err, ErrTooLarge):
		return err
	}
	return nil
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
	if len(l.first.Data) > 0 {
		l.readAhead(ctx, min(max(maxBytesAhead/bytes, 1), maxPagesAhead), yield)
	}
}

// readAhead yields the pages behind the first in their order, with so many of them
// under way.
func (l *listing[T]) readAhead(ctx context.Context, pages int, yield func(T, error) bool) {
	type answer struct {
		page numberedPage[T]
		err  error
	}
	inner, cancel := context.WithCancel(ctx)
	var underWay sync.WaitGroup
	defer underWay.Wait()
	defer cancel()
	var queue []chan answer
	next, last := 2, int(l.first.Meta.TotalPages)
	for number := next; number <= last; number++ {
		for ; next <= last && len(queue) < pages; next++ {
			to, wanted := make(chan answer, 1), next
			queue = append(queue, to)
			underWay.Go(func() {
				page, err := getPage[T](inner, l.client, l.path, l.query, wanted, l.limit)
				to <- answer{page, err}
			})
		}
		got := <-queue[0]
		queue = queue[1:]
		if errors.Is(got.err, ErrTooLarge) {
			cancel()
			listFrom(ctx, l.client, l.path, l.query, number, l.limit, yield)
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
