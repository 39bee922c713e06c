package langfuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"extraction-experiment/internal/textutil"
)

// maxPageLimit is the largest page that Langfuse serves on most endpoints.
const maxPageLimit = 100

// defaultPageLimit is a power of two so that it can be halved if responses are too large.
const defaultPageLimit = 64

// page is one page of a numbered list or of a list with cursors.
type page[T any] struct {
	Data []T `json:"data"`
	Meta struct {
		TotalPages Number `json:"totalPages"`
		TotalItems Number `json:"totalItems"`
		Cursor     string `json:"cursor"`
	} `json:"meta"`
}

// position is where reading continues: at an offset in a numbered list, or at a cursor.
type position struct {
	offset int
	cursor string
}

// list is an endpoint that returns a list in pages.
type list[T any] struct {
	client   *Client
	path     string
	query    url.Values
	limit    int // elements per page; 0 is defaultPageLimit
	maxLimit int
	byCursor bool
}

// listPages yields the elements of a numbered list.
func listPages[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) iter.Seq2[T, error] {
	return elements(list[T]{client: c, path: path, query: query, limit: limit, maxLimit: maxPageLimit}.pages(ctx, position{}))
}

// listCursor yields the elements of a list with cursors.
func listCursor[T any](
	ctx context.Context, c *Client, path string, query url.Values, limit, maxLimit int,
) iter.Seq2[T, error] {
	l := list[T]{client: c, path: path, query: query, limit: limit, maxLimit: maxLimit, byCursor: true}
	return elements(l.pages(ctx, position{}))
}

// elements yields the elements of the pages, up to the first error.
func elements[T any](pages iter.Seq2[[]T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range pages {
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, element := range page {
				if !yield(element, nil) {
					return
				}
			}
		}
	}
}

// get requests the page at a position.
func (l list[T]) get(ctx context.Context, at position) (got page[T], err error) {
	query := maps.Clone(l.query)
	query.Set("limit", strconv.Itoa(l.limit))
	if l.byCursor {
		setText(query, "cursor", at.cursor)
	} else {
		query.Set("page", strconv.Itoa(at.offset/l.limit+1))
	}
	r := get(l.path, query)
	_, err = l.client.do(ctx, r, &got)
	if err == nil && l.byCursor && got.Meta.Cursor != "" && got.Meta.Cursor == at.cursor {
		err = l.client.newAPIError(r, http.StatusOK, nil, "the server gives the same cursor twice")
	}
	return got, err
}

// pages yields the pages from a position on. If a page is too large, it continues with smaller
// pages, down to one element. The first error ends the iteration, and so does a cursor that
// points to its own page.
func (l list[T]) pages(ctx context.Context, at position) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		l, at := l, at // every iteration starts with the original values
		if err := l.checkLimit(); err != nil {
			yield(nil, err)
			return
		}
		for more := true; more; {
			got, err := l.get(ctx, at)
			if errors.Is(err, ErrTooLarge) && l.limit > 1 {
				l.limit = smallerLimit(l.limit)
				continue
			}
			at = position{at.offset + l.limit, got.Meta.Cursor}
			more = at.cursor != ""
			if !l.byCursor {
				more = len(got.Data) > 0 && Number(at.offset/l.limit) < got.Meta.TotalPages
			}
			more = yield(got.Data, err) && more && err == nil
		}
	}
}

// convert yields the results of transform that it keeps. The first error ends the iteration;
// its prefix is formatted from what and args.
func convert[T, U any](
	elements iter.Seq2[T, error], transform func(T) (result U, keep bool), what string, args ...any,
) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for element, err := range elements {
			if err != nil {
				yield(*new(U), fmt.Errorf(what+": %w", append(args, err)...))
				return
			}
			if result, keep := transform(element); keep && !yield(result, nil) {
				return
			}
		}
	}
}

// keepAll is a transform of convert that keeps all elements unchanged.
func keepAll[T any](element T) (T, bool) { return element, true }

// checkLimit validates the page size and replaces 0 by the default.
func (l *list[T]) checkLimit() error {
	if l.limit < 0 || l.limit > l.maxLimit {
		return usageError("a page limit of %d: it must be 1 to %d, or 0 for %d", l.limit, l.maxLimit, defaultPageLimit)
	}
	l.limit = cmp.Or(l.limit, defaultPageLimit)
	return nil
}

// smallerLimit returns a smaller page size that divides limit, so that every page boundary of
// the old size is also one of the new size.
func smallerLimit(limit int) int {
	if limit%2 == 0 {
		return limit / 2
	}
	return 1
}

// inOrder calls get for 0 to n-1 and yields the results in order, up to the first error. At
// most concurrency calls run at the same time, and at most ahead calls have been started whose
// results are not yielded. If ahead is larger than concurrency, a slow or retried call does not
// block the others. All calls have returned when the iteration ends.
func inOrder[T any](
	ctx context.Context, n, concurrency, ahead int, get func(ctx context.Context, i int) (T, error),
) iter.Seq2[T, error] {
	type result struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		var calls sync.WaitGroup
		defer calls.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var pending []chan result
		slots := make(chan struct{}, concurrency)
		for i, next := 0, 0; i < n; i++ {
			for ; next < min(n, i+ahead); next++ {
				done, index := make(chan result, 1), next
				pending = append(pending, done)
				calls.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					value, err := get(ctx, index)
					done <- result{value, err}
				})
			}
			got := <-pending[0]
			pending = pending[1:]
			if !yield(got.value, got.err) || got.err != nil {
				return
			}
		}
	}
}

// Number is a finite number that servers write as a JSON number or, if the database column is
// wider than a double, as a string. Null is 0.
type Number float64

// UnmarshalJSON reads a number, a string that contains a number, or null.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = 0
		return nil
	}
	text := strings.Trim(string(raw), `"`)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%q is not a finite number", textutil.Cut(text, 40))
	}
	*n = Number(value)
	return nil
}
