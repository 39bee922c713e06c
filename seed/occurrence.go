package seed

import (
	"errors"
	"index/suffixarray"
	"slices"
	"strings"
)

// The bounds of the work on one item: beyond them a document and patterns are
// such that everything is found everywhere.
const (
	maxPlaces = 5_000_000   // where something stands that is taken out
	maxSteps  = 200_000_000 // bytes compared between gold and document
)

var errTooMuch = errors.New("the patterns take out so much of it that it cannot be done in reasonable time: narrow them, or leave the trace out")

// concordance finds every place of many texts in many covers: one suffix array
// over all of them, so that a search does not read them all. Building it takes
// time linear in the texts and 4 bytes of memory for each of theirs.
type concordance struct {
	covers []*cover
	starts []int // of each cover in the joined text
	index  *suffixarray.Index
	places int // found so far
}

func newConcordance(covers []*cover) *concordance {
	c := &concordance{covers: covers}
	var joined strings.Builder
	for _, one := range covers {
		c.starts = append(c.starts, joined.Len())
		joined.WriteString(one.folded)
		joined.WriteByte(0)
	}
	c.index = suffixarray.New([]byte(joined.String()))
	return c
}

// find gives every place where a folded text stands, in order; a short one must
// be a word of its own. The error says that there are too many.
func (c *concordance) find(text string, give func(in *cover, at int)) error {
	if text == "" {
		return nil
	}
	found := c.index.Lookup([]byte(text), maxPlaces-c.places+1)
	if c.places += len(found); c.places > maxPlaces {
		return errTooMuch
	}
	slices.Sort(found)
	short := isShort(text)
	for _, place := range found {
		i, exactly := slices.BinarySearch(c.starts, place)
		if !exactly {
			i--
		}
		in, at := c.covers[i], place-c.starts[i]
		if at+len(text) <= len(in.folded) && (!short || in.isWord(at, at+len(text))) {
			give(in, at)
		}
	}
	return nil
}
