package ground

import (
	"slices"
	"sync"
	"unicode/utf8"

	"extraction-experiment/extraction"

	"golang.org/x/text/unicode/norm"
)

// Match says how well a quote was found.
type Match int

// The ways to be found, worst first.
const (
	None     Match = iota // not at all
	Tolerant              // but for spelling that a reader would not see as different
	Exact                 // code point by code point
)

// String returns the name of the match in lower case.
func (m Match) String() string {
	switch m {
	case Exact:
		return "exact"
	case Tolerant:
		return "tolerant"
	}
	return "none"
}

// Index finds quotes in one document. It is safe for concurrent use.
type Index struct {
	*Offsets
	exact haystack
	once  sync.Once // folds on the first tolerant search
	fold  folded
	loose haystack
}

// NewIndex reads a document. Time and memory are linear in the text; tolerant
// search needs about ten bytes per byte of text from its first use, and each of
// the two ways of search four more after many searches.
func NewIndex(text string) *Index {
	return &Index{Offsets: NewOffsets(text), exact: haystack{data: []byte(text)}}
}

// Locate finds a quote in a text; see Index.Locate. Whoever looks for several
// quotes in one text makes an Index.
func Locate(text, quote string, near int) (extraction.Span, Match) {
	return NewIndex(text).Locate(quote, near)
}

// Locate returns where the quote occurs closest to near (a code point of the
// document; the earlier of two as close). It looks for the quote code point by
// code point first. Only where that occurs nowhere, white space (also at the
// ends), case, compatibility forms (NFKD), kinds of quotation marks and dashes,
// invisible characters, and hyphens within words or at line ends are
// overlooked. A place found so begins and ends between characters as a reader
// sees them.
//
// The span quotes the document, not what was looked for. An empty quote, or one
// that does not occur, gives the zero Span and None.
//
// Of a string that occurs more than 1024 times, only places near are looked at;
// of any after some 4 million places in all, 64. So the work stays bounded
// however many quotes are made up to cost time.
func (x *Index) Locate(quote string, near int) (extraction.Span, Match) {
	if quote == "" {
		return extraction.Span{}, None
	}
	near = min(max(near, 0), x.Len(CodePoints))
	at, _ := x.Convert(near, CodePoints, Bytes)
	places := x.exact.places([]byte(quote), at)
	exact := make([]stretch, len(places))
	for i, from := range places {
		exact[i] = stretch{from, from + len(quote)}
	}
	if span, ok := x.closest(exact, at, near); ok {
		return span, Exact
	}
	if span, ok := x.closest(x.tolerant(fold(quote).text, at), at, near); ok {
		return span, Tolerant
	}
	return extraction.Span{}, None
}

// stretch is a part of the document, in bytes.
type stretch struct{ from, to int }

// closest returns the stretch that begins closest to near, which is the byte at;
// stretches that do not end between code points do not count.
func (x *Index) closest(stretches []stretch, at, near int) (extraction.Span, bool) {
	after, _ := slices.BinarySearchFunc(stretches, at, func(s stretch, at int) int { return s.from - at })
	var best extraction.Span
	found := false
	for _, s := range slices.Backward(stretches[:after]) {
		if best, found = x.span(s); found {
			break
		}
	}
	for _, s := range stretches[after:] {
		if span, ok := x.span(s); ok {
			if !found || span.Start-near < near-best.Start {
				return span, true
			}
			break
		}
	}
	return best, found
}

// tolerant returns where the folded needle occurs, in order; near is a byte of
// the document.
func (x *Index) tolerant(needle []byte, near int) []stretch {
	x.once.Do(func() {
		x.fold = fold(x.text)
		x.loose.data = x.fold.text
	})
	var found []stretch
	for _, i := range x.loose.places(needle, x.fold.find(near)) {
		if s, ok := x.fold.stretch(i, i+len(needle)); ok {
			found = append(found, s)
		}
	}
	return found
}

// span returns the span of a stretch, if it ends between code points.
func (x *Index) span(s stretch) (extraction.Span, bool) {
	start, ok := x.Convert(s.from, Bytes, CodePoints)
	end, ok2 := x.Convert(s.to, Bytes, CodePoints)
	if !ok || !ok2 {
		return extraction.Span{}, false
	}
	return extraction.Span{Quote: x.text[s.from:s.to], Start: start, End: end}, true
}

// stretch returns what of the original folded to text[a:b]; it is false if that
// begins or ends inside a character.
func (f folded) stretch(a, b int) (stretch, bool) {
	inside := a > 0 && f.start[a-1] == f.start[a] || b < len(f.text) && f.start[b-1] == f.start[b]
	if inside || f.combines(a) || f.combines(b) {
		return stretch{}, false
	}
	return stretch{int(f.start[a]), int(f.end[b-1])}, true
}

// combines reports whether a combining mark begins at byte i.
func (f folded) combines(i int) bool {
	return i < len(f.text) && f.text[i] >= utf8.RuneSelf && norm.NFKD.Properties(f.text[i:]).CCC() != 0
}

// find returns the first byte of the folded text that stands for the byte at of
// the original or a later one.
func (f folded) find(at int) int {
	low, high := 0, len(f.start)
	for low < high {
		if middle := (low + high) / 2; int(f.start[middle]) < at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
