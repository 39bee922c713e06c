package extraction

import (
	"bytes"
	"cmp"
	"index/suffixarray"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMentions is the maximum number of mentions that are found for one entity by its names.
const maxMentions = 100

// Ground returns a copy of the extraction in which every mention is a span of the document. It
// also returns, in the order of the extraction, the names of entities without a quote, name or
// alias that occurs, and the quotes that do not occur, each as often as it was given.
//
// A mention whose offsets match its quote is kept; one with valid offsets and no quote gets the
// quote. For any other, Ground uses Locate, close to the start that it has, and removes it if
// it does not occur. Equal mentions are merged. An entity without any mention left gets the
// places of its name and aliases, marked as looked up. They are compared as in Locate, but as
// whole words only (except in scripts that do not separate all words); of two that overlap, the
// one that begins first counts, and of equal beginnings the longer; at most the first 100 are kept.
// An inflected form of a name is another word.
//
// Ground does not look at ends of relationships that are not entities. Time is linear in
// document and extraction, except for logarithms, and bounded for any names.
func (x *Index) Ground(e Extraction) (grounded Extraction, unfoundNames, unfoundQuotes []string) {
	e.Entities = slices.Clone(e.Entities)
	for i := range e.Entities {
		entity := &e.Entities[i]
		spans := make([]Span, 0, len(entity.Mentions))
		for _, given := range entity.Mentions {
			if span, ok := x.mention(given); ok {
				spans = append(spans, span)
			} else {
				unfoundQuotes = append(unfoundQuotes, given.Quote)
			}
		}
		if len(spans) == 0 {
			spans = x.nameSpans(*entity, maxMentions)
		}
		if len(spans) == 0 {
			unfoundNames = append(unfoundNames, entity.Name)
		}
		slices.SortFunc(spans, func(a, b Span) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Quote, b.Quote))
		})
		entity.Mentions = slices.Compact(spans)
	}
	return e, unfoundNames, unfoundQuotes
}

// mention returns the span of a given mention.
func (x *Index) mention(given Span) (Span, bool) {
	quoted, ok := x.Slice(given.Start, given.End)
	if ok && quoted != "" && (given.Quote == "" || given.Quote == quoted) {
		return Span{Quote: quoted, Start: given.Start, End: given.End, LookedUp: given.LookedUp}, true
	}
	span, found := x.Locate(given.Quote, given.Start)
	span.LookedUp = given.LookedUp
	return span, found
}

// Mentioned reports whether a mention of the entity occurs in the document, as Ground finds
// them.
func (x *Index) Mentioned(e Entity) bool {
	return slices.ContainsFunc(e.Mentions, func(given Span) bool {
		_, found := x.mention(given)
		return found
	})
}

// Named reports whether the name of the entity or an alias occurs in the document, as Ground
// finds them.
func (x *Index) Named(e Entity) bool {
	return len(x.nameSpans(e, 1)) > 0
}

// nameSpans returns the spans of name and aliases where they are whole words, at most limit of each and in
// total, in order and without overlap.
func (x *Index) nameSpans(e Entity, limit int) []Span {
	var spans []Span
	seen := map[string]bool{"": true}
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		needle := fold(name).text
		if seen[string(needle)] {
			continue
		}
		seen[string(needle)] = true
		ranges := x.tolerant(needle, 0, true)
		end := len(spans) + limit
		spans = slices.Grow(spans, min(len(ranges), limit))
		for _, s := range ranges {
			if len(spans) == end {
				break
			}
			if span, ok := x.span(s); ok {
				span.LookedUp = true
				spans = append(spans, span)
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	end := 0
	spans = slices.DeleteFunc(spans, func(s Span) bool {
		if s.Start < end {
			return true
		}
		end = s.End
		return false
	})
	return spans[:min(len(spans), limit)]
}

// wordEnds reports whether a word ends or begins at byte i of the document, or no word is there.
func (x *Index) wordEnds(i int) bool {
	before, size := utf8.DecodeLastRuneInString(x.text[:i])
	after, size2 := utf8.DecodeRuneInString(x.text[i:])
	return size == 0 || size2 == 0 || isWordBoundary(before, after)
}

const (
	// maxPlaces is the number of occurrences of one string that are kept.
	maxPlaces = 1024
	// rejectCost is how many bytes are scanned in the time that it takes to reject an occurrence.
	rejectCost = 16
	// readsBeforeIndex is how many times its length a haystack is scanned before it is indexed;
	// maxReads is the limit of all scans, also in units of its length.
	readsBeforeIndex, maxReads = 16, 256
	// After manyPlaces occurrences of all strings together, only fewPlaces of each further
	// string are considered.
	manyPlaces, fewPlaces = 1 << 22, 64
)

// haystack is a text in which many strings are searched. The first searches scan it. When that
// has become expensive, it builds a suffix array, after which a search costs O(len(needle)·log
// n + places). So the work for a hostile set of needles is bounded, and a single search needs
// no index. It is safe for concurrent use.
type haystack struct {
	data        []byte
	mu          sync.Mutex
	scanned     int // bytes scanned
	placesFound int // places found
	index       *suffixarray.Index
}

// places returns the indexes at which the needle occurs and keep holds, in order, including overlapping
// ones: all if there are at most maxPlaces, and otherwise some, which are those around near. When finding
// them has become too expensive, frequent needles have some or none.
func (h *haystack) places(needle []byte, near int, keep func(int) bool) []int {
	if len(needle) == 0 || len(needle) > len(h.data) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	near = min(max(near, 0), len(h.data))
	if h.index == nil && h.scanned <= readsBeforeIndex*len(h.data) {
		found := h.scan(needle, 0, maxPlaces+1, keep)
		if len(found) > maxPlaces {
			return h.around(needle, near, keep)
		}
		return found
	}
	if h.index == nil {
		h.index = suffixarray.New(h.data)
	}
	limit := maxPlaces
	if h.placesFound > manyPlaces {
		limit = fewPlaces
	}
	found := h.index.Lookup(needle, limit+1)
	h.placesFound += len(found)
	if len(found) > maxPlaces && h.scanned <= maxReads*len(h.data) {
		return h.around(needle, near, keep)
	}
	slices.Sort(found)
	return slices.DeleteFunc(found, func(i int) bool { return !keep(i) })
}

// around returns places before and after near, for frequent needles.
func (h *haystack) around(needle []byte, near int, keep func(int) bool) []int {
	var found []int
	for end := min(near+len(needle)-1, len(h.data)); len(found) < maxPlaces/2; {
		i := bytes.LastIndex(h.data[:end], needle)
		if i < 0 {
			h.scanned += end
			break
		}
		if h.scanned += end - i; keep(i) {
			found = append(found, i)
		} else {
			h.scanned += rejectCost
		}
		end = i + len(needle) - 1
	}
	slices.Reverse(found)
	return append(found, h.scan(needle, near, maxPlaces-len(found), keep)...)
}

// scan returns the first places from an index on where keep holds, at most the given number.
func (h *haystack) scan(needle []byte, from, limit int, keep func(int) bool) []int {
	var found []int
	for len(found) < limit {
		i := bytes.Index(h.data[from:], needle)
		if i < 0 {
			h.scanned += len(h.data) - from
			break
		}
		if h.scanned += i + 1; keep(from + i) {
			found = append(found, from+i)
		} else {
			h.scanned += rejectCost
		}
		from += i + 1
	}
	return found
}

// Index finds quotes in one document. It only reports whether and where words occur, not
// whether the document supports a statement. It is safe for concurrent use.
type Index struct {
	*Offsets
	exact      haystack
	once       sync.Once // folds the text at the first tolerant search
	folded     folded
	foldedText haystack
}

// Index returns the Index of the document's text. It is the same one for all copies of a
// document of a Decoder. It is safe for concurrent use.
func (d Document) Index() *Index {
	if d.index != nil {
		if x := d.index(); x.text == d.Text {
			return x
		}
	}
	return NewIndex(d.Text)
}

// NewIndex returns the Index of a text. Time and memory are linear in the text. From its first
// use, tolerant search needs one to six more bytes per byte of text, few for ASCII. After many
// searches, exact and tolerant search need four more each.
func NewIndex(text string) *Index {
	return &Index{Offsets: NewOffsets(text), exact: haystack{data: []byte(text)}}
}

// Locate returns the span of the quote that is closest to near, a code point of the document;
// of two equally close ones, the earlier. It looks for exactly this quote first. If that does
// not occur, it ignores differences of white space (also at the ends), case, compatibility
// forms (NFKD), kinds of quotation marks and dashes, invisible characters, and hyphens within
// words or at line ends. A span that is found so begins and ends between characters as a reader
// sees them.
//
// The span has the text of the document, which differs from quote if it was found tolerantly.
// For an empty quote, or one that does not occur, the result is the zero Span and false.
//
// If a string occurs more than 1024 times, only places close to near are considered; after some
// 4 million places in all searches, only 64 of any string. So the work stays bounded for any
// quotes.
func (x *Index) Locate(quote string, near int) (span Span, found bool) {
	near = min(max(near, 0), x.Len(CodePoints))
	nearByte, _ := x.Convert(near, CodePoints, Bytes)
	places := x.exact.places([]byte(quote), nearByte, func(int) bool { return true })
	exact := make([]byteRange, len(places))
	for i, from := range places {
		exact[i] = byteRange{from, from + len(quote)}
	}
	if span, found = x.closest(exact, nearByte, near); found {
		return span, true
	}
	return x.closest(x.tolerant(fold(quote).text, nearByte, false), nearByte, near)
}

// byteRange is a part of the document, in bytes.
type byteRange struct{ from, to int }

// closest returns the span of the range whose start is closest to near, which is the byte at.
// Ranges that do not begin and end between code points are ignored.
func (x *Index) closest(ranges []byteRange, nearByte, near int) (Span, bool) {
	after, _ := slices.BinarySearchFunc(ranges, nearByte, func(s byteRange, nearByte int) int { return s.from - nearByte })
	var best Span
	found := false
	for _, s := range slices.Backward(ranges[:after]) {
		if best, found = x.span(s); found {
			break
		}
	}
	for _, s := range ranges[after:] {
		if span, ok := x.span(s); ok {
			if !found || span.Start-near < near-best.Start {
				return span, true
			}
			break
		}
	}
	return best, found
}

// tolerant returns the ranges in which the folded needle occurs, in order, if asked only whole words;
// near is a byte of the document.
func (x *Index) tolerant(needle []byte, near int, wholeWords bool) []byteRange {
	x.once.Do(func() {
		x.folded = fold(x.text)
		x.foldedText.data = x.folded.text
	})
	places := x.foldedText.places(needle, x.folded.find(near), func(i int) bool {
		if wholeWords && !x.wordEnds(x.folded.source(i).from) {
			return false // the most frequent reason, which is cheap to find
		}
		s, ok := x.folded.original(i, i+len(needle))
		return ok && (!wholeWords || x.wordEnds(s.to))
	})
	found := make([]byteRange, len(places))
	for k, i := range places {
		found[k], _ = x.folded.original(i, i+len(needle))
	}
	return found
}

// span returns the span of a range, or false if it does not begin and end between code points.
func (x *Index) span(s byteRange) (Span, bool) {
	start, ok := x.Convert(s.from, Bytes, CodePoints)
	end, ok2 := x.Convert(s.to, Bytes, CodePoints)
	if !ok || !ok2 {
		return Span{}, false
	}
	return Span{Quote: x.text[s.from:s.to], Start: start, End: end}, true
}

// original returns the part of the original that folded to text[a:b], or false if it begins or
// ends inside a character.
func (f folded) original(a, b int) (byteRange, bool) {
	first, last := f.source(a), f.source(b-1)
	inside := a > 0 && f.source(a-1).from == first.from || b < len(f.text) && f.source(b).from == last.from
	if inside || f.combines(a) || f.combines(b) {
		return byteRange{}, false
	}
	return byteRange{first.from, last.to}, true
}

// combines reports whether a combining mark begins at byte i.
func (f folded) combines(i int) bool {
	return i < len(f.text) && f.text[i] >= utf8.RuneSelf && norm.NFKD.Properties(f.text[i:]).CCC() != 0
}
