package seed

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// mask is a text with what is taken out of it. Texts are compared folded: each
// character folded, one space for a run of white space, none at the ends.
type mask struct {
	text   string
	folded string
	// from holds for every byte of folded where its character, or its run of
	// white space, begins in text; one more entry says where the last one ends.
	from  []int32
	label []byte       // of every byte of folded; 0 stays
	cuts  map[int]bool // places where a replacement must end and another begin
}

func newMask(text string) *mask {
	m := &mask{text: text, from: make([]int32, 0, len(text)+1), cuts: map[int]bool{}}
	var b strings.Builder
	b.Grow(len(text))
	space := -1
	for at, r := range text {
		if unicode.IsSpace(r) {
			if space < 0 {
				space = at
			}
			continue
		}
		if space >= 0 && b.Len() > 0 {
			b.WriteByte(' ')
			m.from = append(m.from, int32(space))
		}
		space = -1
		before := b.Len()
		foldRune(&b, r)
		for range b.Len() - before {
			m.from = append(m.from, int32(at))
		}
	}
	m.from = append(m.from, int32(len(strings.TrimRightFunc(text, unicode.IsSpace))))
	m.folded, m.label = b.String(), make([]byte, b.Len())
	return m
}

// foldRune folds one character by itself, so that every byte of the result has
// one place. What folding would remove is kept.
func foldRune(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		b.WriteByte(byte(unicode.ToLower(r)))
		return
	}
	b.WriteString(cmp.Or(strings.TrimSpace(textutil.FoldCase(string(r))), string(r)))
}

// firstOf combines two labels: the one that stands first in the pattern file
// wins. It only ever lowers, which is why repeating it ends.
func firstOf(a, b byte) byte {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// at returns the first byte of folded whose character begins at or behind a place
// of text.
func (m *mask) at(place int) int {
	return sort.Search(len(m.folded), func(i int) bool { return int(m.from[i]) >= place })
}

// take marks text[from:to].
func (m *mask) take(from, to int, label byte) { m.mark(m.at(from), m.at(to), label) }

// mark marks folded[from:to], whole characters, and reports whether that was new.
func (m *mask) mark(from, to int, label byte) bool {
	for from > 0 && from < len(m.folded) && m.from[from] == m.from[from-1] {
		from--
	}
	for to > 0 && to < len(m.folded) && m.from[to] == m.from[to-1] {
		to++
	}
	changed := false
	for i := from; i < to; i++ {
		if first := firstOf(m.label[i], label); first != m.label[i] {
			m.label[i], changed = first, true
		}
	}
	return changed
}

// masked reports whether anything is taken out.
func (m *mask) masked() bool {
	return slices.ContainsFunc(m.label, func(l byte) bool { return l != 0 })
}

// isWord reports whether folded[from:to] is no part of a longer word.
func (m *mask) isWord(from, to int) bool {
	first, _ := utf8.DecodeRuneInString(m.folded[from:])
	last, _ := utf8.DecodeLastRuneInString(m.folded[:to])
	before, _ := utf8.DecodeLastRuneInString(m.folded[:from])
	after, _ := utf8.DecodeRuneInString(m.folded[to:])
	return !(from > 0 && inWord(first) && inWord(before)) && !(to < len(m.folded) && inWord(last) && inWord(after))
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// continues reports whether one replacement stands for the bytes before and at a
// place of folded.
func (m *mask) continues(at int) bool {
	return at > 0 && at < len(m.label) && m.label[at] != 0 && m.label[at] == m.label[at-1] && !m.cuts[at]
}

// render writes folded[from:to] as it is after redaction.
func (m *mask) render(p *placeholders, from, to int) string {
	var b strings.Builder
	for i := from; i < to; {
		end, label := i+1, m.label[i]
		for end < to && (m.continues(end) || label == 0 && m.label[end] == 0) {
			end++
		}
		if label == 0 {
			b.WriteString(m.text[m.from[i]:m.from[end]])
		} else {
			b.WriteString(p.of(label, m.folded[i:end]))
		}
		i = end
	}
	return b.String()
}

// whole renders all of the text; white space at its ends stays.
func (m *mask) whole(p *placeholders) string {
	return m.text[:m.from[0]] + m.render(p, 0, len(m.folded)) + m.text[m.from[len(m.folded)]:]
}

// placeholders numbers what was taken out of one item.
type placeholders struct {
	labels []string
	number map[string]int // by label and folded text
	next   map[byte]int
	count  map[string]int  // replacements by name
	taken  map[string]bool // what an item has that looks like one, in capitals
	// unnumbered writes [NAME], and counts nothing.
	unnumbered bool
}

func newPlaceholders(labels []string) placeholders {
	return placeholders{labels: labels, number: map[string]int{}, next: map[byte]int{}, count: map[string]int{}, taken: map[string]bool{}}
}

func (p *placeholders) of(label byte, folded string) string {
	if p.unnumbered {
		return "[" + p.labels[label] + "]"
	}
	key := string([]byte{label}) + strings.TrimSpace(folded)
	for p.number[key] == 0 {
		p.next[label]++
		if !p.taken[p.write(label, p.next[label])] {
			p.number[key] = p.next[label]
		}
	}
	p.count[p.labels[label]]++
	return p.write(label, p.number[key])
}

func (p *placeholders) write(label byte, n int) string {
	return fmt.Sprintf("[%s-%d]", p.labels[label], n)
}

// placeholder is the form of what stands for a secret, in any case.
var placeholder = textutil.Pattern(`(?i)\[[A-Z][A-Z0-9_]*-[0-9]+\]`)

// reserve keeps the numbers free that stand in a text already: they are another's.
func (p *placeholders) reserve(text string) {
	for _, found := range placeholder().FindAllString(text, -1) {
		p.taken[strings.ToUpper(found)] = true
	}
}
