package pdf

import "slices"

// Tables are written cell by cell. If two cells of a row nearly touch, the other rows show where
// the column ends.

// border is the space between two columns.
type border struct{ from, to float64 }

// alignTables divides chunks of table rows at jumps so that all rows of a table have the same
// cells. Successive rows with several cells are a table; the rows with the most cells define the
// borders between its columns.
func alignTables(chunks []chunk) []chunk {
	lines := linesOf(chunks)
	var out []chunk
	for from := 0; from < len(lines); {
		to := from
		for to < len(lines) && lines[to].mayBeRow() {
			to++
		}
		borders := bordersOf(lines[from:to])
		for _, row := range lines[from:to] {
			out = append(out, row.divide(borders)...)
		}
		if from = to + 1; to < len(lines) {
			out = append(out, lines[to]...)
		}
	}
	return out
}

// maxJumps is the largest number of jumps of a row of one chunk. Lines of prose with wide spaces
// have more.
const maxJumps = 5

// mayBeRow reports whether a line has cells, or may have.
func (l line) mayBeRow() bool {
	return len(l) > 1 || len(l[0].parts) > 1 && len(l[0].parts) <= maxJumps+1
}

// bordersOf returns the spaces between the columns, from left to right. There are none if the
// rows with the most cells do not agree, or if there is one column.
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

// gaps returns the spaces between the chunks of a line.
func (l line) gaps() []border {
	var list []border
	for i := 1; i < len(l); i++ {
		list = append(list, border{l[i-1].x1, l[i].x0})
	}
	return list
}

// divide splits chunks that reach across a border, at their widest jump in it. It does not split
// rows that have all cells, nor a single chunk with more jumps than borders.
func (l line) divide(borders []border) line {
	if len(l) > len(borders) || len(l) == 1 && len(l[0].parts) > len(borders)+1 {
		return l
	}
	for _, b := range borders {
		for i, c := range l {
			if at := c.jumpAt(b); at > 0 {
				left, right := mergeParts(c.parts[:at], c.size, c.y), mergeParts(c.parts[at:], c.size, c.y)
				left.startsCell, right.startsCell = c.startsCell, true
				l = slices.Replace(l, i, i+1, left, right)
				break
			}
		}
	}
	return l
}

// jumpAt returns the index of the part after the widest jump in a border, or 0.
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
