package seed

import (
	"fmt"
	"slices"
	"strings"
)

// cover says of every byte of a folded text under which label it is taken out;
// 0 stays.
type cover struct {
	foldedText
	label []byte
	cuts  []int // places where a replacement must end and another begin
}

func newCover(text string) *cover {
	t := newFoldedText(text)
	return &cover{foldedText: t, label: make([]byte, len(t.folded))}
}

// meet combines two labels: the one that stands first in the pattern file wins.
// It only ever lowers, which is why repeating it ends.
func meet(a, b byte) byte {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// mark covers folded[from:to], whole characters, and reports whether that was new.
func (c *cover) mark(from, to int, label byte) bool {
	from, to = c.widened(from, to)
	changed := false
	for i := from; i < to; i++ {
		if met := meet(c.label[i], label); met != c.label[i] {
			c.label[i], changed = met, true
		}
	}
	return changed
}

func (c *cover) covered() bool {
	return slices.ContainsFunc(c.label, func(l byte) bool { return l != 0 })
}

// agreement is a gold text that stands in the document: what is covered in the
// one is covered in the other.
type agreement struct {
	gold *cover
	at   []int // where it stands in the folded document
}

// agree covers the same in the gold texts and in all their places in the
// document, until nothing changes: a name that is covered in one place for what
// stands beside it is then covered in every place. The error says that it would
// take too long.
func agree(document *cover, agreements []agreement) error {
	steps := 0
	for changed := true; changed; {
		changed = false
		for _, a := range agreements {
			if steps += len(a.at) * len(a.gold.label); steps > maxSteps {
				return errTooMuch
			}
			for _, at := range a.at {
				for i := range a.gold.label {
					met := meet(a.gold.label[i], document.label[at+i])
					if met == 0 {
						continue
					}
					inGold, inDocument := a.gold.mark(i, i+1, met), document.mark(at+i, at+i+1, met)
					changed = changed || inGold || inDocument
				}
			}
		}
	}
	for _, a := range agreements {
		if !a.gold.covered() {
			continue
		}
		for _, at := range a.at {
			document.cuts = append(document.cuts, at, at+len(a.gold.label))
		}
	}
	slices.Sort(document.cuts)
	document.cuts = slices.Compact(document.cuts)
	return nil
}

// piece is a stretch of a text and what it became; bytes.
type piece struct {
	from, to       int // in the old text
	newFrom, newTo int // in the new one
	replaced       bool
}

// tokens numbers what was taken out of one item.
type tokens struct {
	labels []string
	number map[string]int // by label and folded text
	next   map[byte]int
	count  map[string]int // replacements by name
}

func (t *tokens) of(label byte, folded string) string {
	folded = strings.TrimSpace(folded)
	key := string([]byte{label}) + folded
	if t.number[key] == 0 {
		t.next[label]++
		t.number[key] = t.next[label]
	}
	t.count[t.labels[label]]++
	return fmt.Sprintf("[%s-%d]", t.labels[label], t.number[key])
}

// render writes folded[from:to] as it is after redaction, and how the pieces of
// the old text lie in the new one.
func (c *cover) render(t *tokens, from, to int) (string, []piece) {
	var b strings.Builder
	var pieces []piece
	cut, _ := slices.BinarySearch(c.cuts, from+1)
	for i := from; i < to; {
		end := i + 1
		for cut < len(c.cuts) && c.cuts[cut] <= i {
			cut++
		}
		for end < to && c.label[end] == c.label[i] && !(c.label[i] != 0 && cut < len(c.cuts) && c.cuts[cut] == end) {
			end++
		}
		p := piece{from: int(c.from[i]), to: int(c.from[end]), newFrom: b.Len(), replaced: c.label[i] != 0}
		if p.replaced {
			b.WriteString(t.of(c.label[i], c.folded[i:end]))
		} else {
			b.WriteString(c.text[p.from:p.to])
		}
		p.newTo = b.Len()
		pieces = append(pieces, p)
		i = end
	}
	return b.String(), pieces
}

// whole renders all of the text; white space at its ends stays.
func (c *cover) whole(t *tokens) (string, []piece) {
	start, end := int(c.from[0]), int(c.from[len(c.folded)])
	if len(c.folded) == 0 {
		return c.text, nil
	}
	inside, pieces := c.render(t, 0, len(c.folded))
	for i := range pieces {
		pieces[i].newFrom += start
		pieces[i].newTo += start
	}
	return c.text[:start] + inside + c.text[end:], pieces
}

// moved returns where a place of the old text is in the new one. A place inside
// a replacement moves to its beginning, or with atEnd to its end.
func moved(pieces []piece, place int, atEnd bool) int {
	i, _ := slices.BinarySearchFunc(pieces, place, func(p piece, place int) int {
		if p.to < place || p.to == place && !atEnd {
			return -1
		}
		return 1
	})
	switch {
	case i == len(pieces):
		if i == 0 {
			return place
		}
		last := pieces[i-1]
		return place - last.to + last.newTo
	case place <= pieces[i].from && i == 0:
		return place
	case !pieces[i].replaced:
		return place - pieces[i].from + pieces[i].newFrom
	case atEnd:
		return pieces[i].newTo
	}
	return pieces[i].newFrom
}
