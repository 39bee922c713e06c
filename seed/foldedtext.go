package seed

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/fold"
)

// foldedText is a text as comparisons see it (each character folded, one space
// for a run of white space, none at the ends), with the way back.
type foldedText struct {
	text   string
	folded string
	// from holds for every byte of folded where its character, or its run of
	// white space, begins in text; one more entry says where the last one ends.
	from []int32
}

func newFoldedText(text string) foldedText {
	t := foldedText{text: text, from: make([]int32, 0, len(text)+1)}
	var b strings.Builder
	b.Grow(len(text))
	end, space := 0, -1
	for at, r := range text {
		if unicode.IsSpace(r) {
			if space < 0 {
				space = at
			}
			continue
		}
		if space >= 0 && b.Len() > 0 {
			b.WriteByte(' ')
			t.from = append(t.from, int32(space))
		}
		space = -1
		width := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, width = utf8.DecodeRuneInString(text[at:])
		}
		written := b.Len()
		foldRune(&b, r)
		for range b.Len() - written {
			t.from = append(t.from, int32(at))
		}
		end = at + width
	}
	t.folded = b.String()
	t.from = append(t.from, int32(end))
	return t
}

// foldRune folds one character by itself, so that every byte of the result has
// one place. What folding would remove is kept.
func foldRune(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		b.WriteByte(byte(r))
		return
	}
	folded := strings.TrimSpace(fold.Case(string(r)))
	if folded == "" {
		folded = string(r)
	}
	b.WriteString(folded)
}

// within returns the bytes of folded that stand for text[from:to].
func (t foldedText) within(from, to int) (int, int) {
	first := t.search(from)
	return first, max(first, t.search(to))
}

// search returns the first byte of folded whose character begins at or behind
// a place in text.
func (t foldedText) search(place int) int {
	low, high := 0, len(t.folded)
	for low < high {
		if middle := int(uint(low+high) >> 1); int(t.from[middle]) < place {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// widened moves two places of folded outwards to where characters begin and end.
func (t foldedText) widened(i, k int) (int, int) {
	for i > 0 && i < len(t.folded) && t.from[i] == t.from[i-1] {
		i--
	}
	for k > 0 && k < len(t.folded) && t.from[k] == t.from[k-1] {
		k++
	}
	return i, k
}

// isWord reports whether folded[from:to] is no part of a longer word.
func (t foldedText) isWord(from, to int) bool {
	first, _ := utf8.DecodeRuneInString(t.folded[from:])
	last, _ := utf8.DecodeLastRuneInString(t.folded[:to])
	before, _ := utf8.DecodeLastRuneInString(t.folded[:from])
	after, _ := utf8.DecodeRuneInString(t.folded[to:])
	return !(from > 0 && inWord(first) && inWord(before)) && !(to < len(t.folded) && inWord(last) && inWord(after))
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// isShort says which texts must be words of their own.
func isShort(text string) bool { return utf8.RuneCountInString(text) < 3 }
