package extraction

import (
	"math"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// isInvisible reports whether a character only changes how others are shown.
func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r))
}

func isDash(r rune) bool { return r == '-' || r == 0x2212 || r >= 0x80 && unicode.Is(unicode.Pd, r) }

// normalizeQuote returns ' or " for the kinds of quotation marks, apostrophes and primes, and
// any other character unchanged.
func normalizeQuote(r rune) rune {
	switch r {
	case '`', '´', '‘', '’', '‚', '‛', '′', '‵', 'ʼ', 'ʹ', '‹', '›', '＇':
		return '\''
	case '“', '”', '„', '‟', '″', '‶', '«', '»', '〝', '〞', '〟', '＂':
		return '"'
	}
	return r
}

// hasNoWordBreaks reports whether a letter is of a script that does not separate all words by
// white space, or attaches particles to them: a name may begin and end between two of its
// letters.
func hasNoWordBreaks(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Arabic, unicode.Hebrew)
}

// isWordBoundary reports whether a word ends between two adjacent characters.
func isWordBoundary(a, b rune) bool {
	inWord := func(r rune) bool {
		return r < utf8.RuneSelf && asciiFold[r] != 0 || r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.N, unicode.M)
	}
	return !inWord(a) || !inWord(b) || hasNoWordBreaks(a) || hasNoWordBreaks(b)
}

// folded is a text in the form in which quotes are compared, with the part of the original for
// each byte. These parts do not overlap and are in the order of the text.
type folded struct {
	text []byte
	runs []run // in order; the first starts at 0
}

// run describes the bytes of a folded text from index at to the next run. If end is 0, they
// correspond one by one to the bytes of the original from start; otherwise each of them
// corresponds to all bytes from start to end.
type run struct{ at, start, end int32 }

// source returns the part of the original that byte i corresponds to.
func (f folded) source(i int) byteRange {
	next := sort.Search(len(f.runs), func(n int) bool { return int(f.runs[n].at) > i })
	r := f.runs[next-1]
	if r.end > 0 {
		return byteRange{int(r.start), int(r.end)}
	}
	start := int(r.start) + i - int(r.at)
	return byteRange{start, start + 1}
}

// find returns the index of the first folded byte that corresponds to the original byte at pos,
// or to a later one.
func (f folded) find(pos int) int {
	next := sort.Search(len(f.runs), func(n int) bool { return int(f.runs[n].start) >= pos })
	end := len(f.text)
	if next < len(f.runs) {
		end = int(f.runs[next].at)
	}
	if next > 0 && f.runs[next-1].end == 0 {
		before := f.runs[next-1]
		return min(end, int(before.at)+pos-int(before.start))
	}
	return end
}

// folder folds one text:
//
//   - white space becomes one space, and is removed at both ends;
//   - invisible characters (soft hyphens, joiners, marks of direction, variation
//     selectors) are removed;
//   - quotation marks become ' or ", dashes become -;
//   - a dash between two letters is removed, with a line break after it, since it is
//     unknown whether "well-known", hyphenated at a line end, is one word;
//   - all else is decomposed (NFKD), case folded and decomposed again, with combining
//     marks in canonical order.
//
// It works code point by code point, so that every part of a text folds to a part of the folded
// text, except for white space and dashes at its ends.
type folder struct {
	folded
	fold  cases.Caser
	cache map[rune]string
	prev  rune   // the last character that was kept
	marks []mark // wait for the next letter, to be sorted
}

// mark is a combining mark with the part of the original that it corresponds to.
type mark struct {
	r          rune
	class      uint8 // canonical combining class
	start, end int
}

// fold returns the folded form of at most the first 2 GiB of a text.
func fold(text string) folded {
	text = text[:min(len(text), math.MaxInt32)]
	f := &folder{}
	f.text = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if c := text[i]; asciiFold[c] != 0 {
			f.flush()
			f.put(rune(asciiFold[c]), i, i+1)
			for i++; i < len(text) && asciiFold[text[i]] != 0; i++ { // each corresponds to the next byte
				f.text = append(f.text, asciiFold[text[i]])
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

// asciiFold has the folded form of ASCII letters and digits, the most frequent characters; 0
// for other bytes.
var asciiFold = func() (table [256]byte) {
	for c := range byte(utf8.RuneSelf) {
		if unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) {
			table[c] = byte(unicode.ToLower(rune(c)))
		}
	}
	return table
}()

// step folds the character at byte i and returns the index of the next.
func (f *folder) step(text string, i int) int {
	r, size := utf8.DecodeRuneInString(text[i:])
	switch {
	case isInvisible(r):
		return i + size
	case unicode.IsSpace(r):
		end := i + size
		if end == len(text) || asciiFold[text[end]] == 0 {
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
		f.write(f.foldRune(r), i, i+size)
	}
	f.prev = r
	return i + size
}

// hyphen returns the index where a word continues after a dash that ends at byte i, or 0 if the
// dash is not inside a word.
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

// afterSpace returns the end of the white space at byte i, and its number of line breaks.
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

// foldRune returns the folded form of a code point.
func (f *folder) foldRune(r rune) string {
	s, ok := f.cache[r]
	if !ok {
		if f.cache == nil {
			f.fold, f.cache = cases.Fold(), map[rune]string{}
		}
		s = norm.NFKD.String(f.fold.String(norm.NFKD.String(string(normalizeQuote(r)))))
		f.cache[r] = s
	}
	return s
}

// write appends the folded form of the original from start to end.
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

// flush appends the waiting combining marks in canonical order. Marks that change places all
// correspond to their common part of the original.
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

// put appends a code point that corresponds to the original from start to end.
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
