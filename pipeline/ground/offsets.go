package ground

import (
	"sort"
	"unicode/utf8"
)

// Unit is what an offset counts.
type Unit int

// The units of offsets.
const (
	CodePoints Unit = iota
	UTF16           // code units, as JavaScript and Java count
	Bytes           // of UTF-8
)

// stride is how many code points lie between two remembered places.
const stride = 128

// Offsets converts offsets of one text between units. A byte that is not UTF-8
// counts as one code point and one unit of UTF-16. Safe for concurrent use.
type Offsets struct {
	text   string
	places []place // of code points 0, stride, 2·stride …
	end    place
}

// place is one border between code points, in every unit.
type place [3]int

// NewOffsets reads the text once. Memory about a fifth of the text.
func NewOffsets(text string) *Offsets {
	o := &Offsets{text: text}
	var at place
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
	r, size := utf8.DecodeRuneInString(o.text[at[Bytes]:])
	at[CodePoints]++
	at[Bytes] += size
	at[UTF16]++
	if r > 0xFFFF {
		at[UTF16]++
	}
	return at
}
