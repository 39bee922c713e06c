package scoring

import "slices"

// arc allows units of a row to go to a column.
type arc struct {
	column int
	gain   gain
	flow   int
	link   int // index into matching.links
}

// transport distributes the supply of rows over the demand of columns, along arcs, so that the
// total gain is as large as possible. Rows and columns are groups of equal things. If all
// supplies and demands are 1, it is the assignment problem. A transport can be reused; it keeps
// its memory.
type transport struct {
	supply []int
	demand []int
	arcs   [][]arc // by row

	// Memory of solve.
	incoming [][][2]int // by column: the (row, arc) that lead to it
	rowPrice []gain
	colPrice []gain
	rows     []pathStep
	columns  []pathStep
	forward  []*arc // arcs of the path that get units
	backward []*arc
}

// pathStep is how the search for the cheapest path reached a row or a column.
type pathStep struct {
	cost    gain
	row     int // of a column: the row before it
	arc     int // of a column: the arc of that row; of a row: its arc to the column before it
	reached bool
	done    bool
}

// solve computes the flows and reports whether the budget sufficed. If not, the flows are
// unusable.
//
// It uses successive shortest augmenting paths with prices (the Hungarian method): rows enter one
// after the other, and their units follow the path that adds the most gain, which may move units
// of earlier rows to other columns. An extra last column of gain 0 and unlimited demand takes
// units that are better left unmatched. The choice among optimal solutions depends only on the
// order of rows and arcs. Time O(rows · (arcs + columns²)) in the worst case.
func (t *transport) solve(left *budget) bool {
	t.prepare()
	for row := range t.supply {
		for t.supply[row] > 0 {
			end, ok := t.search(row, left)
			if !ok {
				return false
			}
			t.updatePrices(end)
			t.augment(row, end)
		}
	}
	return true
}

// prepare adds the last column and provides the memory.
func (t *transport) prepare() {
	units := 0
	for row := range t.arcs {
		units += t.supply[row]
		t.arcs[row] = append(t.arcs[row], arc{column: len(t.demand)})
	}
	t.demand = append(t.demand, units)
	t.incoming = growLists(t.incoming[:0], len(t.demand))
	t.rowPrice, t.colPrice = zeroed(t.rowPrice, len(t.supply)), zeroed(t.colPrice, len(t.demand))
	t.rows, t.columns = zeroed(t.rows, len(t.supply)), zeroed(t.columns, len(t.demand))
	for row, arcs := range t.arcs {
		for k, a := range arcs {
			t.incoming[a.column] = append(t.incoming[a.column], [2]int{row, k})
		}
	}
}

// reduced returns the cost of an arc (its negated gain) minus the prices of its ends. It is 0 where
// units flow, and never negative, except for a new row: as all paths of its search begin there, that
// leaves their order.
func (t *transport) reduced(row int, a arc) gain {
	return gain{}.minus(a.gain).minus(t.rowPrice[row]).minus(t.colPrice[a.column])
}

// search finds the cheapest path from a row to a column with demand left. It returns false if the
// budget is used up.
func (t *transport) search(from int, left *budget) (int, bool) {
	clear(t.rows)
	clear(t.columns)
	t.rows[from] = pathStep{reached: true}
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
		for _, in := range t.incoming[next] {
			row, k := in[0], in[1]
			if t.arcs[row][k].flow == 0 || t.rows[row].reached {
				continue
			}
			t.rows[row] = pathStep{cost: column.cost, arc: k, reached: true}
			t.relax(row)
			work += len(t.arcs[row])
		}
		work += len(t.incoming[next])
		if !left.spend(work) {
			return 0, false
		}
		work = 0
	}
}

func (t *transport) relax(row int) {
	for k, a := range t.arcs[row] {
		column := &t.columns[a.column] // if it is done, no other path to it is cheaper
		cost := t.rows[row].cost.plus(t.reduced(row, a))
		if !column.reached || cost.less(column.cost) {
			*column = pathStep{cost: cost, row: row, arc: k, reached: true}
		}
	}
}

// cheapest returns the reached column of the least cost that is not done. There always is one:
// the last column is reached from every row, and the search ends there.
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

// updatePrices changes the prices after a search that ended at a column, so that no reduced cost
// is negative and those along the path are 0.
func (t *transport) updatePrices(end int) {
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

// augment sends as many units as possible along the path from a row to the column end.
func (t *transport) augment(from, end int) {
	units := min(t.supply[from], t.demand[end])
	t.forward, t.backward = t.forward[:0], t.backward[:0]
	for column := end; ; {
		row := t.columns[column].row
		t.forward = append(t.forward, &t.arcs[row][t.columns[column].arc])
		if row == from {
			break
		}
		back := &t.arcs[row][t.rows[row].arc]
		t.backward = append(t.backward, back)
		units, column = min(units, back.flow), back.column
	}
	for _, a := range t.forward {
		a.flow += units
	}
	for _, a := range t.backward {
		a.flow -= units
	}
	t.supply[from] -= units
	t.demand[end] -= units
}

// growLists extends lists to length n by empty lists, which keep the memory of earlier ones.
func growLists[T any](lists [][]T, n int) [][]T {
	lists = slices.Grow(lists, n-len(lists))
	for k := len(lists); k < n; k++ {
		lists = append(lists, lists[:k+1][k][:0])
	}
	return lists
}

// zeroed returns a list of n zeros in the memory of list, if that is large enough.
func zeroed[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}
