package extraction

import (
	"bytes"
	"cmp"
	"index/suffixarray"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// mostMentions bounds the mentions that are found for one entity by its names.
const mostMentions = 100

// Grounding says what does not occur in the document, in the order of the extraction.
type Grounding struct {
	// Invented are the names of entities of which neither a quote, nor the name, nor an alias
	// occurs.
	Invented []string
	// Lost are the quotes that do not occur, each as often as it was given.
	Lost []string
}

// Ground returns a copy of the extraction in which every mention is a span of
// the document, and says what does not occur in it.
//
// A mention whose offsets quote the document is kept; one with good offsets and
// no quote gets the quote. Any other is looked for by Locate, close to the start
// that it claims, and removed if it does not occur. Equal mentions are one. An
// entity that has none left is given the places of its name and aliases, marked
// as looked up, compared as Locate does: whole words only (in scripts that divide words by
// white space), the longer of two that overlap, at most the first 100 of those
// that are looked at. An inflected form of a name is another word.
//
// Ends of relationships that are not entities are not looked at. Time is linear
// in document and extraction but for logarithms, and bounded for any names.
func (x *Index) Ground(e Extraction) (Extraction, Grounding) {
	var report Grounding
	e.Entities = slices.Clone(e.Entities)
	for i := range e.Entities {
		one := &e.Entities[i]
		spans, lost := x.mentions(*one)
		report.Lost = append(report.Lost, lost...)
		if len(spans) == 0 {
			spans = x.named(*one)
		}
		if len(spans) == 0 {
			report.Invented = append(report.Invented, one.Name)
		}
		one.Mentions = distinct(spans)
	}
	return e, report
}

// mentions returns where the given mentions stand, and the quotes of those that do not occur.
func (x *Index) mentions(e Entity) (spans []Span, lost []string) {
	spans = slices.Grow(spans, len(e.Mentions))
	for _, given := range e.Mentions {
		if span, ok := x.mention(given); ok {
			spans = append(spans, span)
		} else {
			lost = append(lost, given.Quote)
		}
	}
	return spans, lost
}

// mention returns where a given mention stands.
func (x *Index) mention(given Span) (Span, bool) {
	there, ok := x.Slice(given.Start, given.End)
	if ok && there != "" && (given.Quote == "" || given.Quote == there) {
		return Span{Quote: there, Start: given.Start, End: given.End, LookedUp: given.LookedUp}, true
	}
	span, found := x.Locate(given.Quote, given.Start)
	span.LookedUp = given.LookedUp
	return span, found
}

// needles gives the name and the aliases as they are looked for, each once.
func needles(e Entity) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		seen := map[string]bool{}
		for i := -1; i < len(e.Aliases); i++ {
			name := e.Name
			if i >= 0 {
				name = e.Aliases[i]
			}
			needle := fold(name).text
			if len(needle) == 0 || seen[string(needle)] {
				continue
			}
			if seen[string(needle)] = true; !yield(needle) {
				return
			}
		}
	}
}

// words gives the first stretches, at most mostMentions, that are whole words.
func (x *Index) words(stretches []stretch) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		found := 0
		for _, s := range stretches {
			if !x.wholeWords(s) {
				continue
			}
			if span, ok := x.span(s); ok {
				span.LookedUp = true
				if found++; !yield(span) || found == mostMentions {
					return
				}
			}
		}
	}
}

// Mentioned reports whether a mention of the entity occurs in the document, found as
// Ground finds them.
func (x *Index) Mentioned(e Entity) bool {
	return slices.ContainsFunc(e.Mentions, func(given Span) bool {
		_, found := x.mention(given)
		return found
	})
}

// Named reports whether the name of the entity or an alias occurs in the document, as
// Ground looks for them.
func (x *Index) Named(e Entity) bool {
	for needle := range needles(e) {
		for range x.words(x.tolerant(needle, 0)) {
			return true
		}
	}
	return false
}

// named returns such places, of each name at most mostMentions, in order and without overlap.
func (x *Index) named(e Entity) []Span {
	var spans []Span
	for needle := range needles(e) {
		stretches := x.tolerant(needle, 0)
		spans = slices.AppendSeq(slices.Grow(spans, min(len(stretches), mostMentions)), x.words(stretches))
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
	return spans[:min(len(spans), mostMentions)]
}

// wholeWords reports whether no word goes on over an end of the stretch.
func (x *Index) wholeWords(s stretch) bool {
	if before, size := utf8.DecodeLastRuneInString(x.text[:s.from]); size > 0 {
		if first, _ := utf8.DecodeRuneInString(x.text[s.from:]); !divides(before, first) {
			return false
		}
	}
	after, size := utf8.DecodeRuneInString(x.text[s.to:])
	last, _ := utf8.DecodeLastRuneInString(x.text[:s.to])
	return size == 0 || divides(last, after)
}

// distinct returns spans once each, in the order of the document.
func distinct(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Quote, b.Quote))
	})
	return slices.Compact(spans)
}

const (
	// mostPlaces is how many occurrences of one string are looked at.
	mostPlaces = 1024
	// readsBeforeIndex is how many times its length a haystack is read from end to
	// end before it is indexed, and mostReads how many times in all.
	readsBeforeIndex, mostReads = 16, 256
	// manyPlaces is after how many occurrences of all strings together only
	// fewPlaces of each further string are looked at.
	manyPlaces, fewPlaces = 1 << 22, 64
)

// haystack is a text in which many strings are looked for. The first searches
// read it; when that has become expensive it builds a suffix array, after which a
// search costs O(len(needle)·log n + places). So the work for a hostile set of
// needles is bounded, and a single search costs no index. Safe for concurrent
// use.
type haystack struct {
	data  []byte
	mu    sync.Mutex
	read  int // bytes
	seen  int // places
	index *suffixarray.Index
}

// places returns where the needle occurs, in order, overlapping ones too: all
// places if there are at most mostPlaces, and some of them otherwise: those
// around near, as long as finding them is not too expensive.
func (h *haystack) places(needle []byte, near int) []int {
	if len(needle) == 0 || len(needle) > len(h.data) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	near = min(max(near, 0), len(h.data))
	if h.index == nil && h.read <= readsBeforeIndex*len(h.data) {
		found := h.scan(needle, 0, len(h.data), mostPlaces+1)
		if len(found) > mostPlaces {
			return h.around(needle, near)
		}
		return found
	}
	if h.index == nil {
		h.index = suffixarray.New(h.data)
	}
	most := mostPlaces
	if h.seen > manyPlaces {
		most = fewPlaces
	}
	found := h.index.Lookup(needle, most+1)
	h.seen += len(found)
	if len(found) > mostPlaces && h.read <= mostReads*len(h.data) {
		return h.around(needle, near)
	}
	slices.Sort(found)
	return found
}

// around returns places before and after near, for needles that are frequent.
func (h *haystack) around(needle []byte, near int) []int {
	var found []int
	for end := min(near+len(needle)-1, len(h.data)); len(found) < mostPlaces/2; {
		i := bytes.LastIndex(h.data[:end], needle)
		if i < 0 {
			h.read += end
			break
		}
		found = append(found, i)
		h.read += end - i
		end = i + len(needle) - 1
	}
	slices.Reverse(found)
	return append(found, h.scan(needle, near, len(h.data), mostPlaces-len(found))...)
}

// scan returns the first places within data[from:to].
func (h *haystack) scan(needle []byte, from, to, most int) []int {
	var found []int
	for len(found) < most {
		i := bytes.Index(h.data[from:to], needle)
		if i < 0 {
			h.read += to - from
			break
		}
		found = append(found, from+i)
		h.read += i + 1
		from += i + 1
	}
	return found
}

// Index finds quotes in one document. It is safe for concurrent use. It does not decide
// whether the document supports a statement, only whether words occur in it, and where.
type Index struct {
	*Offsets
	exact haystack
	once  sync.Once // folds on the first tolerant search
	fold  folded
	loose haystack
}

// Index is the index of the document's text, the same one for all copies of a document
// of a Decoder. Safe for concurrent use.
func (d Document) Index() *Index {
	if d.indexed == nil || d.indexed.text != d.Text {
		return NewIndex(d.Text)
	}
	d.indexed.once.Do(func() { d.indexed.index = NewIndex(d.indexed.text) })
	return d.indexed.index
}

// indexed is the index of a text, once somebody has asked for it.
type indexed struct {
	text  string
	once  sync.Once
	index *Index
}

// NewIndex reads a document. Time and memory are linear in the text; tolerant
// search needs one to six bytes per byte of text from its first use, few for ASCII, and
// each of the two ways of search four more after many searches.
func NewIndex(text string) *Index {
	return &Index{Offsets: NewOffsets(text), exact: haystack{data: []byte(text)}}
}

// Locate returns where the quote occurs closest to near (a code point of the
// document; the earlier of two as close). It looks for the quote code point by
// code point first. Only where that occurs nowhere, white space (also at the
// ends), case, compatibility forms (NFKD), kinds of quotation marks and dashes,
// invisible characters, and hyphens within words or at line ends are
// overlooked. A place found so begins and ends between characters as a reader
// sees them.
//
// The span quotes the document, not what was looked for: the two differ where it was
// found tolerantly. An empty quote, or one that does not occur, gives the zero Span.
//
// Of a string that occurs more than 1024 times, only places near are looked at;
// of any after some 4 million places in all, 64. So the work stays bounded
// however many quotes are made up to cost time.
func (x *Index) Locate(quote string, near int) (span Span, found bool) {
	if quote == "" {
		return Span{}, false
	}
	near = min(max(near, 0), x.Len(CodePoints))
	at, _ := x.Convert(near, CodePoints, Bytes)
	places := x.exact.places([]byte(quote), at)
	exact := make([]stretch, len(places))
	for i, from := range places {
		exact[i] = stretch{from, from + len(quote)}
	}
	if span, found = x.closest(exact, at, near); found {
		return span, true
	}
	return x.closest(x.tolerant(fold(quote).text, at), at, near)
}

// stretch is a part of the document, in bytes.
type stretch struct{ from, to int }

// closest returns the stretch that begins closest to near, which is the byte at;
// stretches that do not end between code points do not count.
func (x *Index) closest(stretches []stretch, at, near int) (Span, bool) {
	after, _ := slices.BinarySearchFunc(stretches, at, func(s stretch, at int) int { return s.from - at })
	var best Span
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
	places := x.loose.places(needle, x.fold.find(near))
	found := make([]stretch, 0, len(places))
	for _, i := range places {
		if s, ok := x.fold.stretch(i, i+len(needle)); ok {
			found = append(found, s)
		}
	}
	return found
}

// span returns the span of a stretch, if it ends between code points.
func (x *Index) span(s stretch) (Span, bool) {
	start, ok := x.Convert(s.from, Bytes, CodePoints)
	end, ok2 := x.Convert(s.to, Bytes, CodePoints)
	if !ok || !ok2 {
		return Span{}, false
	}
	return Span{Quote: x.text[s.from:s.to], Start: start, End: end}, true
}

// stretch returns what of the original folded to text[a:b]; it is false if that
// begins or ends inside a character.
func (f folded) stretch(a, b int) (stretch, bool) {
	first, last := f.from(a), f.from(b-1)
	inside := a > 0 && f.from(a-1).from == first.from || b < len(f.text) && f.from(b).from == last.from
	if inside || f.combines(a) || f.combines(b) {
		return stretch{}, false
	}
	return stretch{first.from, last.to}, true
}

// combines reports whether a combining mark begins at byte i.
func (f folded) combines(i int) bool {
	return i < len(f.text) && f.text[i] >= utf8.RuneSelf && norm.NFKD.Properties(f.text[i:]).CCC() != 0
}
