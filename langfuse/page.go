package langfuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"extraction-experiment/internal/textutil"
)

// maxPageLimit is the largest page that Langfuse serves on most endpoints.
const maxPageLimit = 100

// defaultPageLimit is halved without a remainder when answers get too large.
const defaultPageLimit = 64

// page is a page of a list, which is read by the numbers of its pages or by cursor.
type page[T any] struct {
	Data []T `json:"data"`
	Meta struct {
		TotalPages Number `json:"totalPages"`
		TotalItems Number `json:"totalItems"`
		Cursor     string `json:"cursor"`
	} `json:"meta"`
}

// place is where a list goes on: after so many elements, or at a cursor.
type place struct {
	skip   int
	cursor string
}

// list is a list in pages.
type list[T any] struct {
	client   *Client
	path     string
	query    url.Values
	limit    int // of a page; 0 is defaultPageLimit
	most     int // that limit may be
	byCursor bool
}

// listPages yields the elements of a numbered list.
func listPages[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) iter.Seq2[T, error] {
	return list[T]{client: c, path: path, query: query, limit: limit, most: maxPageLimit}.all(ctx)
}

// listCursor yields the elements of a list that is read by cursor.
func listCursor[T any](
	ctx context.Context, c *Client, path string, query url.Values, limit, most int,
) iter.Seq2[T, error] {
	return list[T]{client: c, path: path, query: query, limit: limit, most: most, byCursor: true}.all(ctx)
}

// all yields the elements, page by page.
func (l list[T]) all(ctx context.Context) iter.Seq2[T, error] { return elements(l.pages(ctx, place{})) }

// elements yields what pages hold.
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

// get asks for the page at a place.
func (l list[T]) get(ctx context.Context, at place) (got page[T], err error) {
	ask := maps.Clone(l.query)
	ask.Set("limit", strconv.Itoa(l.limit))
	if l.byCursor {
		setText(ask, "cursor", at.cursor)
	} else {
		ask.Set("page", strconv.Itoa(at.skip/l.limit+1))
	}
	err = l.client.getJSON(ctx, l.path, ask, &got)
	if err == nil && l.byCursor && got.Meta.Cursor != "" && got.Meta.Cursor == at.cursor {
		err = fmt.Errorf("langfuse: GET %s%s: the server gives the same cursor twice", apiPrefix, l.path)
	}
	return got, err
}

// pages yields the pages from a place on. When a page is too large it continues with
// smaller ones, down to one element. The first error ends it, and so does a cursor
// that leads back to the page it came with.
func (l list[T]) pages(ctx context.Context, at place) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		l, at := l, at // for each loop
		if err := l.check(); err != nil {
			yield(nil, err)
			return
		}
		for more := true; more; {
			got, err := l.get(ctx, at)
			if errors.Is(err, ErrTooLarge) && l.limit > 1 {
				l.limit = smallerLimit(l.limit)
				continue
			}
			at = place{at.skip + l.limit, got.Meta.Cursor}
			more = at.cursor != ""
			if !l.byCursor {
				more = len(got.Data) > 0 && Number(at.skip/l.limit) < got.Meta.TotalPages
			}
			more = yield(got.Data, err) && more && err == nil
		}
	}
}

// convert yields what turn makes of the elements of a list, those left out that it does
// not keep. The first error ends it; what is the format of the words, and args their
// values, that say there what the list is about.
func convert[T, U any](
	elements iter.Seq2[T, error], turn func(T) (made U, kept bool), what string, args ...any,
) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for element, err := range elements {
			if err != nil {
				yield(*new(U), fmt.Errorf(what+": %w", append(args, err)...))
				return
			}
			if made, kept := turn(element); kept && !yield(made, nil) {
				return
			}
		}
	}
}

// every is a turn of convert that keeps elements as they are.
func every[T any](element T) (T, bool) { return element, true }

// check makes sure of the page size that a caller asked for.
func (l *list[T]) check() error {
	if l.limit < 0 || l.limit > l.most {
		return fmt.Errorf("langfuse: a page limit of %d: it must be 1 to %d, or 0 for %d", l.limit, l.most, defaultPageLimit)
	}
	l.limit = cmp.Or(l.limit, defaultPageLimit)
	return nil
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
	maxBytesAhead = 8 << 20 // by the size of the first page, or of the newest element
)

// listing is a numbered list that does not change while it is read: once it is known how
// many pages there are, they are fetched together, so that a long list does not take as
// many round trips as it has pages. At most maxPagesAhead pages, or about maxBytesAhead,
// are in memory; size tells the bytes of an element. Where a page is too large the rest
// is read one page after the other. No request outlives begin, or a loop over the pages.
type listing[T any] struct {
	list[T]
	size  func(T) int
	begun []page[T] // the first pages; none where the first is too large
}

// begin reads the first page and, of a list that probably has so many elements of that size,
// the others that may be in memory with it.
func (l *listing[T]) begin(ctx context.Context, elements, size int) error {
	if err := l.check(); err != nil {
		return err
	}
	n := max(1, min((elements+l.limit-1)/l.limit, pagesAhead(size*l.limit)))
	get := func(ctx context.Context, i int) (page[T], error) { return l.get(ctx, place{skip: i * l.limit}) }
	for page, err := range inTurn(ctx, n, n, n, get) {
		if errors.Is(err, ErrTooLarge) {
			return nil
		}
		if err != nil {
			return err
		}
		if l.begun = append(l.begun, page); len(page.Data) == 0 {
			break // there are fewer
		}
	}
	return nil
}

// pagesAhead is how many pages of so many bytes may be in memory.
func pagesAhead(bytes int) int { return min(max(maxBytesAhead/max(bytes, 1), 1), maxPagesAhead) }

// pages yields the pages of a list that was begun, the first of them as one.
func (l *listing[T]) pages(ctx context.Context) iter.Seq2[[]T, error] {
	if len(l.begun) == 0 {
		return l.list.pages(ctx, place{})
	}
	bytes := 0
	for _, element := range l.begun[0].Data {
		bytes += l.size(element)
	}
	return func(yield func([]T, error) bool) {
		var first []T
		for _, page := range l.begun {
			first = append(first, page.Data...)
		}
		if yield(first, nil) && len(l.begun[len(l.begun)-1].Data) > 0 {
			l.readAhead(ctx, pagesAhead(bytes), yield)
		}
	}
}

// readAhead yields the pages after those of begin in their order; so many are fetched at once.
func (l *listing[T]) readAhead(ctx context.Context, pages int, yield func([]T, error) bool) {
	begun, total := len(l.begun), int(l.begun[0].Meta.TotalPages)
	get := func(ctx context.Context, i int) (page[T], error) {
		return l.get(ctx, place{skip: (begun + i) * l.limit})
	}
	read := begun
	for page, err := range inTurn(ctx, total-begun, pages, pages, get) {
		if errors.Is(err, ErrTooLarge) {
			break
		}
		if !yield(page.Data, err) || err != nil || len(page.Data) == 0 {
			return
		}
		read++
	}
	if read < total { // by smaller pages, one after the other
		l.list.pages(ctx, place{skip: read * l.limit})(yield)
	}
}

// inTurn sends n requests and yields their answers in order, up to the first error: atOnce
// are under way at most, and ahead of them not yielded. Where that is more, one that is slow,
// or sent again, does not hold up the others.
func inTurn[T any](ctx context.Context, n, atOnce, ahead int, get func(ctx context.Context, i int) (T, error)) iter.Seq2[T, error] {
	type answer struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		var underWay sync.WaitGroup
		defer underWay.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var waiting []chan answer
		places := make(chan struct{}, atOnce)
		for i, sent := 0, 0; i < n; i++ {
			for ; sent < min(n, i+ahead); sent++ {
				one, number := make(chan answer, 1), sent
				waiting = append(waiting, one)
				underWay.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					value, err := get(ctx, number)
					one <- answer{value, err}
				})
			}
			got := <-waiting[0]
			waiting = waiting[1:]
			if !yield(got.value, got.err) || got.err != nil {
				return
			}
		}
	}
}

// Number is a finite number of an answer that servers write as a JSON number
// or, where a database column is wider than a double, as a string. Null is 0.
type Number float64

// UnmarshalJSON reads a number, a string that holds one, or null.
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
