package pdf

import "slices"

// A table is set with columns, and its text is written cell by cell: where two
// cells of a row nearly touch, the other rows show where the column ends.

// border is the room between two columns.
type border struct{ from, to float64 }

// aligned divides chunks of table rows at their jumps so that the cells of a
// table are the same in all of its rows. Rows that follow one another and have
// several cells are a table; the borders between its columns are those of the
// rows with the most cells.
func aligned(chunks []chunk) []chunk {
	lines := linesOf(chunks)
	var out []chunk
	for from := 0; from < len(lines); {
		to := from
		for to < len(lines) && lines[to].mayBeRow() {
			to++
		}
		borders := bordersOf(lines[from:to])
		for _, row := range lines[from:to] {
			out = append(out, row.divided(borders)...)
		}
		if from = to + 1; to < len(lines) {
			out = append(out, lines[to]...)
		}
	}
	return out
}

// mostJumps is how many a row of one chunk has; lines of prose whose words are
// far apart have more.
const mostJumps = 5

// mayBeRow reports whether a line has cells, or may have.
func (l line) mayBeRow() bool {
	return len(l) > 1 || len(l[0].parts) > 1 && len(l[0].parts) <= mostJumps+1
}

// bordersOf returns the room between the columns, from left to right; none
// where the rows with the most cells do not agree, and for one column.
func bordersOf(table []line) []border {
	var borders []border
	for _, row := range table {
		gaps := row.gaps()
		if len(gaps) > len(borders) {
			borders = gaps
		}
		if len(gaps) == len(borders) {
			for i, g := range gaps {
				borders[i] = border{max(borders[i].from, g.from), min(borders[i].to, g.to)}
			}
		}
	}
	if slices.ContainsFunc(borders, func(b border) bool { return b.from >= b.to }) {
		return nil
	}
	return borders
}

// gaps returns the room between the chunks of a line.
func (l line) gaps() []border {
	var list []border
	for i := 1; i < len(l); i++ {
		list = append(list, border{l[i-1].x1, l[i].x0})
	}
	return list
}

// divided takes chunks apart that reach across a border, at their widest jump in
// it. A row with all of its cells stays as it is, and one piece that has more
// jumps than there are borders.
func (l line) divided(borders []border) line {
	if len(l) > len(borders) || len(l) == 1 && len(l[0].parts) > len(borders)+1 {
		return l
	}
	for _, b := range borders {
		for i, c := range l {
			if at := c.jumpAt(b); at > 0 {
				left, right := merged(c.parts[:at], c.size, c.y), merged(c.parts[at:], c.size, c.y)
				left.cell, right.cell = c.cell, true
				l = slices.Replace(l, i, i+1, left, right)
				break
			}
		}
	}
	return l
}

// jumpAt is the part before which is the widest jump in a border; 0 for
// none.
func (c chunk) jumpAt(b border) int {
	best, at := 0.0, 0
	for i := 1; i < len(c.parts); i++ {
		from, to := c.parts[i-1].x1, c.parts[i].x0
		if min(b.to, to) > max(b.from, from) && to-from > best {
			best, at = to-from, i
		}
	}
	return at
}
