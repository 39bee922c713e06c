package html

import (
	"cmp"
	"maps"
	"slices"
)

// Columns and rows of a confusion that are no types.
const (
	nowhere = "\x00nowhere" // missed, or spurious
	others  = "\x00others"  // types beyond the bound
)

const (
	// mostTypes bounds the types that are told apart while counting.
	mostTypes = 2000
	// shownTypes bounds the types of the table; the rest is one row and column.
	shownTypes = 12
)

// confusion counts pairs of expected and extracted types.
type confusion struct {
	pairs map[[2]string]int
	types map[string]int // how often each is on either side
}

func newConfusion() *confusion {
	return &confusion{map[[2]string]int{}, map[string]int{}}
}

func (c *confusion) add(expected, extracted string) {
	pair := [2]string{expected, extracted}
	for i, typ := range pair {
		if typ == nowhere {
			continue
		}
		if _, known := c.types[typ]; !known && len(c.types) >= mostTypes {
			typ, pair[i] = others, others
		}
		c.types[typ]++
	}
	c.pairs[pair]++
}

// matrix is a confusion as a table: types by frequency, what is rare as one
// row and column, then what was missed and what is spurious.
type matrix struct {
	Titles []string
	Rows   []matrixRow
}

type matrixRow struct {
	Title string
	Cells []matrixCell
}

type matrixCell struct {
	N     int
	Heat  int // 0 to 5
	Right bool
	Empty bool // no such pair can be
	Hint  string
}

func (c *confusion) matrix() *matrix {
	if len(c.pairs) == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(c.types), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.types[b], c.types[a]), cmp.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(s string) bool { return s == others })
	shown := map[string]bool{nowhere: true}
	kept := names[:min(len(names), shownTypes)]
	for _, name := range kept {
		shown[name] = true
	}
	sums := map[[2]string]int{}
	for pair, n := range c.pairs {
		for i := range pair {
			if !shown[pair[i]] {
				pair[i] = others
			}
		}
		sums[pair] += n
	}
	axis := slices.Clone(kept)
	if len(names) > len(kept) || c.types[others] > 0 {
		axis = append(axis, others)
	}
	return newMatrix(append(axis, nowhere), sums)
}

func newMatrix(axis []string, sums map[[2]string]int) *matrix {
	m := &matrix{}
	for _, name := range axis {
		m.Titles = append(m.Titles, typeTitle(name, "missed"))
	}
	for _, expected := range axis {
		row := matrixRow{Title: typeTitle(expected, "spurious")}
		total := 0
		for _, extracted := range axis {
			total += sums[[2]string{expected, extracted}]
		}
		for _, extracted := range axis {
			n := sums[[2]string{expected, extracted}]
			cell := matrixCell{N: n, Right: expected == extracted && expected != nowhere && expected != others, Empty: expected == nowhere && extracted == nowhere}
			if n > 0 {
				cell.Heat = 1 + 4*n/max(1, total)
			}
			cell.Hint = row.Title + " expected, " + typeTitle(extracted, "nothing") + " extracted"
			if expected == nowhere {
				cell.Hint = typeTitle(extracted, "") + " extracted, not expected"
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func typeTitle(name, none string) string {
	switch name {
	case nowhere:
		return none
	case others:
		return "other types"
	}
	return typeName(name)
}
