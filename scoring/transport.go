package scoring

import "slices"

// arc lets units of a row go to a column.
type arc struct {
	column int
	gain   gain
	flow   int
	link   int // that it stands for
}

// transport distributes the supply of rows over the demand of columns, along
// arcs, so that the total gain is as large as possible. Rows and columns stand
// for groups of equal things; with all supplies and demands 1 it is the
// assignment problem. One takes the room of the one before.
type transport struct {
	supply []int
	demand []int
	arcs   [][]arc // by row

	// The working memory of solve.
	into     [][][2]int // by column: the (row, arc) that lead to it
	rowPrice []gain
	colPrice []gain
	rows     []reach
	columns  []reach
	gaining  []*arc // of the way found, those that get units
	losing   []*arc
}

// reach is how a row or a column was reached while looking for a way.
type reach struct {
	cost    gain
	row     int // before the column
	arc     int // of that row; of a row, that by which it was reached
	reached bool
	done    bool
}

// solve computes the flows and reports whether the budget sufficed; if it did
// not, the flows are of no use.
//
// It is the method of shortest augmenting paths with prices (Hungarian
// method): rows come in one after the other, each along the way that adds the
// most, which may move units of earlier rows to other columns. A last column
// of gain 0 and endless demand takes what is better left unmatched. Of several
// optimal solutions the choice depends on the order of rows and arcs only.
// Time O(rows · (arcs + columns²)) in the worst case.
func (t *transport) solve(left *budget) bool {
	t.start()
	for row := range t.supply {
		t.enter(row)
		for t.supply[row] > 0 {
			end, ok := t.search(row, left)
			if !ok {
				return false
			}
			t.reprice(end)
			t.push(row, end)
		}
	}
	return true
}

// start adds the last column, and makes room.
func (t *transport) start() {
	units := 0
	for row := range t.arcs {
		units += t.supply[row]
		t.arcs[row] = append(t.arcs[row], arc{column: len(t.demand)})
	}
	t.demand = append(t.demand, units)
	t.into = grown(t.into[:0], len(t.demand))
	t.rowPrice, t.colPrice = zeros(t.rowPrice, len(t.supply)), zeros(t.colPrice, len(t.demand))
	t.rows, t.columns = zeros(t.rows, len(t.supply)), zeros(t.columns, len(t.demand))
	for row, arcs := range t.arcs {
		for k, a := range arcs {
			t.into[a.column] = append(t.into[a.column], [2]int{row, k})
		}
	}
}

// reduced is the cost of an arc (its gain, negated) less the prices of its
// ends; never negative for a row that has entered, 0 where units flow.
func (t *transport) reduced(row int, a arc) gain {
	return gain{}.minus(a.gain).minus(t.rowPrice[row]).minus(t.colPrice[a.column])
}

// enter gives a new row the price at which its best arc costs nothing.
func (t *transport) enter(row int) {
	best := t.reduced(row, t.arcs[row][0])
	for _, a := range t.arcs[row][1:] {
		if cost := t.reduced(row, a); cost.less(best) {
			best = cost
		}
	}
	t.rowPrice[row] = best
}

// search finds the cheapest way from a row to a column with demand left.
func (t *transport) search(from int, left *budget) (int, bool) {
	clear(t.rows)
	clear(t.columns)
	t.rows[from] = reach{reached: true}
	t.relax(from)
	work := len(t.rows) + len(t.columns) + len(t.arcs[from])
	for {
		next := t.cheapest()
		work += len(t.columns)
		column := &t.columns[next]
		column.done = true
		if t.demand[next] > 0 {
			return next, left.spend(work)
		}
		for _, in := range t.into[next] {
			row, k := in[0], in[1]
			if t.arcs[row][k].flow == 0 || t.rows[row].reached {
				continue
			}
			t.rows[row] = reach{cost: column.cost, arc: k, reached: true}
			t.relax(row)
			work += len(t.arcs[row])
		}
		work += len(t.into[next])
		if !left.spend(work) {
			return 0, false
		}
		work = 0
	}
}

func (t *transport) relax(row int) {
	for k, a := range t.arcs[row] {
		column := &t.columns[a.column]
		if column.done {
			continue
		}
		cost := t.rows[row].cost.plus(t.reduced(row, a))
		if !column.reached || cost.less(column.cost) {
			*column = reach{cost: cost, row: row, arc: k, reached: true}
		}
	}
}

// cheapest returns the reached column of least cost that is not done. There
// is one: the last column is always reached, and taken when it is done.
func (t *transport) cheapest() int {
	best := -1
	for c := range t.columns {
		if t.columns[c].done || !t.columns[c].reached {
			continue
		}
		if best < 0 || t.columns[c].cost.less(t.columns[best].cost) {
			best = c
		}
	}
	return best
}

// reprice keeps every reduced cost non-negative after a search that ended at
// a column, and those along the way found 0.
func (t *transport) reprice(end int) {
	total := t.columns[end].cost
	for row := range t.rows {
		if r := t.rows[row]; r.reached {
			t.rowPrice[row] = t.rowPrice[row].plus(total.minus(r.cost))
		}
	}
	for c := range t.columns {
		if column := t.columns[c]; column.done {
			t.colPrice[c] = t.colPrice[c].minus(total.minus(column.cost))
		}
	}
}

// push sends as many units as fit along the way found.
func (t *transport) push(from, end int) {
	units := min(t.supply[from], t.demand[end])
	t.gaining, t.losing = t.gaining[:0], t.losing[:0]
	for column := end; ; {
		row := t.columns[column].row
		t.gaining = append(t.gaining, &t.arcs[row][t.columns[column].arc])
		if row == from {
			break
		}
		back := &t.arcs[row][t.rows[row].arc]
		t.losing = append(t.losing, back)
		units, column = min(units, back.flow), back.column
	}
	for _, a := range t.gaining {
		a.flow += units
	}
	for _, a := range t.losing {
		a.flow -= units
	}
	t.supply[from] -= units
	t.demand[end] -= units
}

// grown makes a list of lists longer, by empty ones that have the room that was there.
func grown[T any](lists [][]T, n int) [][]T {
	lists = slices.Grow(lists, n-len(lists))
	for k := len(lists); k < n; k++ {
		lists = append(lists, lists[:k+1][k][:0])
	}
	return lists
}

// zeros returns a list of so many zeros, in the room of another.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}
