package extraction

import (
	"math"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"extraction-experiment/internal/textutil"
)

// isInvisible reports characters that change how others are shown and not what
// they say.
func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r))
}

func isDash(r rune) bool { return r == '-' || r == 0x2212 || r >= 0x80 && unicode.Is(unicode.Pd, r) }

// quotationMark returns ' or " for the kinds of quotation marks, apostrophes and
// primes, and anything else as it is.
func quotationMark(r rune) rune {
	switch r {
	case '`', '´', '‘', '’', '‚', '‛', '′', '‵', 'ʼ', 'ʹ', '‹', '›', '＇':
		return '\''
	case '“', '”', '„', '‟', '″', '‶', '«', '»', '〝', '〞', '〟', '＂':
		return '"'
	}
	return r
}

// writtenTogether reports letters of scripts that do not divide all words by
// white space, or write particles at them: a name may begin and end between two
// of their letters.
func writtenTogether(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Arabic, unicode.Hebrew)
}

// divides reports whether a word ends between two neighbours.
func divides(a, b rune) bool {
	word := func(r rune) bool {
		return r < utf8.RuneSelf && plain[r] != 0 || r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.N, unicode.M)
	}
	return !word(a) || !word(b) || writtenTogether(a) || writtenTogether(b)
}

// folded is a text in the form in which quotes are compared, with the stretch of
// the original that each byte stands for. Stretches do not overlap and are in
// the order of the text.
type folded struct {
	text []byte
	runs []run // in order; the first begins at 0
}

// run says what the bytes of a folded text stand for, from byte at on to the next run:
// all of them for the original's bytes from start to end, or, where end is 0, each for
// one byte, those from start on.
type run struct{ at, start, end int32 }

// from returns the stretch of the original that byte i stands for.
func (f folded) from(i int) stretch {
	next := sort.Search(len(f.runs), func(n int) bool { return int(f.runs[n].at) > i })
	r := f.runs[next-1]
	if r.end > 0 {
		return stretch{int(r.start), int(r.end)}
	}
	start := int(r.start) + i - int(r.at)
	return stretch{start, start + 1}
}

// find returns the first byte of the folded text that stands for the byte at of
// the original or a later one.
func (f folded) find(at int) int {
	next := sort.Search(len(f.runs), func(n int) bool { return int(f.runs[n].start) >= at })
	end := len(f.text)
	if next < len(f.runs) {
		end = int(f.runs[next].at)
	}
	if next > 0 && f.runs[next-1].end == 0 {
		before := f.runs[next-1]
		return min(end, int(before.at)+at-int(before.start))
	}
	return end
}

// folder folds one text:
//
//   - a run of white space is one space, at either end none;
//   - invisible characters (soft hyphens, joiners, marks of direction, variation
//     selectors) are dropped;
//   - quotation marks are ' or ", dashes are -;
//   - a dash between two letters is dropped, with a line break after it: whether
//     "well-known", hyphenated at a line end, is one word cannot be seen;
//   - all else is decomposed (NFKD), case folded and decomposed again, combining
//     marks in canonical order.
//
// It works code point by code point, so that every part of a text folds to a
// part of the folded text, but for white space and dashes at its ends.
type folder struct {
	folded
	fold  cases.Caser
	cache map[rune]string
	prev  rune   // the last that was kept
	marks []mark // that wait for the next letter, to be put in order
}

// mark is a combining mark with the stretch of the original it stands for.
type mark struct {
	r          rune
	class      uint8 // canonical combining class
	start, end int
}

// fold folds at most the first 2 GiB of a text.
func fold(text string) folded {
	text = text[:min(len(text), math.MaxInt32)]
	f := &folder{}
	f.text = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if c := text[i]; plain[c] != 0 {
			f.flush()
			f.put(rune(plain[c]), i, i+1)
			for i++; i < len(text) && plain[text[i]] != 0; i++ { // each stands for the next byte, too
				f.text = append(f.text, plain[text[i]])
			}
			f.prev = rune(text[i-1])
			continue
		}
		i = f.step(text, i)
	}
	f.flush()
	if n := len(f.text); n > 0 && f.text[n-1] == ' ' {
		f.text = f.text[:n-1]
	}
	return f.folded
}

// plain holds what the letters and digits of ASCII fold to: most of most texts.
var plain = func() (table [256]byte) {
	for c := range byte(utf8.RuneSelf) {
		if unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) {
			table[c] = byte(unicode.ToLower(rune(c)))
		}
	}
	return table
}()

// step folds what begins at byte i and returns where the next begins.
func (f *folder) step(text string, i int) int {
	r, size := utf8.DecodeRuneInString(text[i:])
	switch {
	case isInvisible(r):
		return i + size
	case unicode.IsSpace(r):
		end := i + size
		if end == len(text) || plain[text[end]] == 0 {
			end, _ = afterSpace(text, i)
		}
		if f.flush(); len(f.text) > 0 {
			f.put(' ', i, end)
		}
		f.prev = ' '
		return end
	case isDash(r):
		if next := f.hyphen(text, i+size); next > 0 {
			return next
		}
		f.flush()
		f.put('-', i, i+size)
	case r < utf8.RuneSelf && r != '`':
		f.flush()
		f.put(unicode.ToLower(r), i, i+size)
	default:
		f.write(f.spell(r), i, i+size)
	}
	f.prev = r
	return i + size
}

// hyphen returns where the word goes on after a dash that ends at byte i, or 0
// if the dash is not inside a word.
func (f *folder) hyphen(text string, i int) int {
	if !unicode.In(f.prev, unicode.L, unicode.M) {
		return 0
	}
	next, lines := afterSpace(text, i)
	if r, _ := utf8.DecodeRuneInString(text[next:]); !unicode.IsLetter(r) || next > i && lines != 1 {
		return 0
	}
	return next
}

// afterSpace returns where the white space at byte i ends and how many line
// breaks are in it.
func afterSpace(text string, i int) (end, lines int) {
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsSpace(r) && !isInvisible(r) {
			break
		}
		if r == '\n' || r == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			lines++
		}
		i += size
	}
	return i, lines
}

// spell returns the folded form of a code point.
func (f *folder) spell(r rune) string {
	s, ok := f.cache[r]
	if !ok {
		if f.cache == nil {
			f.fold, f.cache = cases.Fold(), map[rune]string{}
		}
		s = norm.NFKD.String(f.fold.String(norm.NFKD.String(string(quotationMark(r)))))
		f.cache[r] = s
	}
	return s
}

// write appends the folded form of what is in the original at start.
func (f *folder) write(s string, start, end int) {
	for _, r := range s {
		var class uint8
		if unicode.Is(unicode.M, r) {
			class = norm.NFKD.PropertiesString(string(r)).CCC()
		}
		if class == 0 {
			f.flush()
			f.put(r, start, end)
			continue
		}
		f.marks = append(f.marks, mark{r, class, start, end})
	}
}

// flush appends the combining marks in canonical order. Marks that change places
// are together for all of their stretch.
func (f *folder) flush() {
	byClass := func(a, b mark) int { return int(a.class) - int(b.class) }
	if len(f.marks) > 1 && !slices.IsSortedFunc(f.marks, byClass) {
		start, end := f.marks[0].start, f.marks[len(f.marks)-1].end
		slices.SortStableFunc(f.marks, byClass)
		for i := range f.marks {
			f.marks[i].start, f.marks[i].end = start, end
		}
	}
	for _, m := range f.marks {
		f.put(m.r, m.start, m.end)
	}
	f.marks = f.marks[:0]
}

// put appends a code point that stands for the original's bytes from start to end.
func (f *folder) put(r rune, start, end int) {
	next := run{int32(len(f.text)), int32(start), int32(end)}
	f.text = utf8.AppendRune(f.text, r)
	if end == start+1 && len(f.text) == int(next.at)+1 {
		next.end = 0
	}
	if n := len(f.runs); n > 0 {
		last := f.runs[n-1]
		if last.end == next.end && (next.end > 0 && last.start == next.start || next.end == 0 && last.start-last.at == next.start-next.at) {
			return
		}
	}
	f.runs = append(f.runs, next)
}

// Unit is what an offset counts.
type Unit int

// The units of offsets.
const (
	CodePoints Unit = iota
	UTF16           // code units, as JavaScript and Java count
	Bytes           // of UTF-8
)

// stride is how many code points lie between two remembered places.
const stride = 64

// Offsets converts offsets of one text between units. A byte that is not UTF-8
// counts as one code point and one unit of UTF-16. Safe for concurrent use.
type Offsets struct {
	text   string
	places []place // of code points 0, stride, 2·stride …
	end    place
}

// place is one border between code points, in every unit.
type place [3]int

// NewOffsets reads the text once. Memory about two fifths of the text, none where
// all of it is ASCII.
func NewOffsets(text string) *Offsets {
	o := &Offsets{text: text}
	var at place
	if textutil.IsASCII(text) {
		o.end = place{len(text), len(text), len(text)}
		return o
	}
	for at[Bytes] < len(text) {
		if at[CodePoints]%stride == 0 {
			o.places = append(o.places, at)
		}
		at = o.after(at)
	}
	o.end = at
	return o
}

// Len returns the length of the text.
func (o *Offsets) Len(unit Unit) int { return o.end[unit] }

// Convert returns the offset n, counted in from, as counted in to. It is false
// for an offset outside of 0 … Len(from), or inside a code point: between
// surrogates, or between the bytes of one. Time O(log of the text's length).
func (o *Offsets) Convert(n int, from, to Unit) (int, bool) {
	if n < 0 || n > o.end[from] {
		return 0, false
	}
	if n == o.end[from] {
		return o.end[to], true
	}
	if o.places == nil { // ASCII
		return n, true
	}
	next := sort.Search(len(o.places), func(i int) bool { return o.places[i][from] > n })
	at := o.places[next-1]
	for at[from] < n {
		at = o.after(at)
	}
	return at[to], at[from] == n
}

// Slice returns the text between two offsets in code points; it is false where
// they do not name a stretch of the text.
func (o *Offsets) Slice(start, end int) (string, bool) {
	from, ok := o.Convert(start, CodePoints, Bytes)
	to, ok2 := o.Convert(end, CodePoints, Bytes)
	if !ok || !ok2 || from > to {
		return "", false
	}
	return o.text[from:to], true
}

// after returns the border after the next code point.
func (o *Offsets) after(at place) place {
	if o.text[at[Bytes]] < utf8.RuneSelf {
		return place{at[CodePoints] + 1, at[UTF16] + 1, at[Bytes] + 1}
	}
	r, size := utf8.DecodeRuneInString(o.text[at[Bytes]:])
	at[CodePoints]++
	at[Bytes] += size
	at[UTF16]++
	if r > 0xFFFF {
		at[UTF16]++
	}
	return at
}
