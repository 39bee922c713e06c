package scoring

// arc lets units of a row go to a column.
type arc struct {
	column int
	gain   gain
	flow   int
}

// transport distributes the supply of rows over the demand of columns, along
// arcs, so that the total gain is as large as possible. Rows and columns stand
// for groups of equal things; with all supplies and demands 1 it is the
// assignment problem.
type transport struct {
	supply []int
	demand []int
	arcs   [][]arc // by row
}

// reach is how a row or a column was reached while looking for a way.
type reach struct {
	cost    gain
	row     int // the row before (of a column)
	arc     int // and its arc
	reached bool
	done    bool
}

// solver is the working memory of transport.solve.
type solver struct {
	*transport
	into     [][][2]int // by column: the (row, arc) that lead to it
	rowPrice []gain
	colPrice []gain
	rows     []reach
	columns  []reach
	back     []int // by row: the column through which it was reached, or -1
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
	s := t.start()
	for row := range t.supply {
		s.enter(row)
		for t.supply[row] > 0 {
			end, ok := s.search(row, left)
			if !ok {
				return false
			}
			s.reprice(end)
			s.push(row, end)
		}
	}
	return true
}

func (t *transport) start() *solver {
	units := 0
	for row := range t.arcs {
		units += t.supply[row]
		t.arcs[row] = append(t.arcs[row], arc{column: len(t.demand)})
	}
	t.demand = append(t.demand, units)
	s := &solver{
		transport: t,
		into:      make([][][2]int, len(t.demand)),
		rowPrice:  make([]gain, len(t.supply)),
		colPrice:  make([]gain, len(t.demand)),
		rows:      make([]reach, len(t.supply)),
		columns:   make([]reach, len(t.demand)),
		back:      make([]int, len(t.supply)),
	}
	for row, arcs := range t.arcs {
		for k, a := range arcs {
			s.into[a.column] = append(s.into[a.column], [2]int{row, k})
		}
	}
	return s
}

// reduced is the cost of an arc (its gain, negated) less the prices of its
// ends; never negative for a row that has entered, 0 where units flow.
func (s *solver) reduced(row int, a arc) gain {
	return gain{}.minus(a.gain).minus(s.rowPrice[row]).minus(s.colPrice[a.column])
}

// enter gives a new row the price at which its best arc costs nothing.
func (s *solver) enter(row int) {
	best := s.reduced(row, s.arcs[row][0])
	for _, a := range s.arcs[row][1:] {
		if cost := s.reduced(row, a); cost.less(best) {
			best = cost
		}
	}
	s.rowPrice[row] = best
}

// search finds the cheapest way from a row to a column with demand left.
func (s *solver) search(from int, left *budget) (int, bool) {
	clear(s.rows)
	clear(s.columns)
	s.rows[from] = reach{reached: true}
	s.back[from] = -1
	s.relax(from)
	work := len(s.rows) + len(s.columns) + len(s.arcs[from])
	for {
		next := s.cheapest()
		work += len(s.columns)
		column := &s.columns[next]
		column.done = true
		if s.demand[next] > 0 {
			return next, left.spend(work)
		}
		for _, in := range s.into[next] {
			row, k := in[0], in[1]
			if s.arcs[row][k].flow == 0 || s.rows[row].reached {
				continue
			}
			s.rows[row] = reach{cost: column.cost, reached: true}
			s.back[row] = next
			s.relax(row)
			work += len(s.arcs[row])
		}
		work += len(s.into[next])
		if !left.spend(work) {
			return 0, false
		}
		work = 0
	}
}

func (s *solver) relax(row int) {
	for k, a := range s.arcs[row] {
		column := &s.columns[a.column]
		if column.done {
			continue
		}
		cost := s.rows[row].cost.plus(s.reduced(row, a))
		if !column.reached || cost.less(column.cost) {
			*column = reach{cost: cost, row: row, arc: k, reached: true}
		}
	}
}

// cheapest returns the reached column of least cost that is not done. There
// is one: the last column is always reached, and taken when it is done.
func (s *solver) cheapest() int {
	best := -1
	for c := range s.columns {
		if s.columns[c].done || !s.columns[c].reached {
			continue
		}
		if best < 0 || s.columns[c].cost.less(s.columns[best].cost) {
			best = c
		}
	}
	return best
}

// reprice keeps every reduced cost non-negative after a search that ended at
// a column, and those along the way found 0.
func (s *solver) reprice(end int) {
	total := s.columns[end].cost
	for row := range s.rows {
		if r := s.rows[row]; r.reached {
			s.rowPrice[row] = s.rowPrice[row].plus(total.minus(r.cost))
		}
	}
	for c := range s.columns {
		if column := s.columns[c]; column.done {
			s.colPrice[c] = s.colPrice[c].minus(total.minus(column.cost))
		}
	}
}

// push sends as many units as fit along the way found.
func (s *solver) push(from, end int) {
	units := min(s.supply[from], s.demand[end])
	for c := end; ; {
		row := s.columns[c].row
		if row == from {
			break
		}
		c = s.back[row]
		units = min(units, s.flowBetween(row, c))
	}
	for c := end; ; {
		row := s.columns[c].row
		s.arcs[row][s.columns[c].arc].flow += units
		if row == from {
			break
		}
		c = s.back[row]
		s.addFlow(row, c, -units)
	}
	s.supply[from] -= units
	s.demand[end] -= units
}

func (s *solver) flowBetween(row, column int) int {
	for _, a := range s.arcs[row] {
		if a.column == column {
			return a.flow
		}
	}
	return 0
}

func (s *solver) addFlow(row, column, units int) {
	for k := range s.arcs[row] {
		if s.arcs[row][k].column == column {
			s.arcs[row][k].flow += units
			return
		}
	}
}
