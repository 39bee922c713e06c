package seed

import (
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
