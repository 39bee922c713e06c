package scoring

import (
	"cmp"
	"slices"
)

// solveBest solves one component as a transport between pools. It reports
// false, having changed nothing, where that would take too much.
func (m *matching) solveBest(component []int, left *budget) bool {
	t, rows, columns, ok := m.transportOf(component)
	if !ok || !t.solve(left) {
		return false
	}
	links := map[[2]int]int{}
	for _, i := range component {
		links[[2]int{m.links[i].expected, m.links[i].extracted}] = i
	}
	for r, arcs := range t.arcs {
		for _, a := range arcs {
			if a.flow == 0 || a.column == len(columns) {
				continue
			}
			row, column := rows[r], columns[a.column]
			m.take(links[[2]int{row.node, column.node}], row.pool, column.pool, a.flow)
		}
	}
	return true
}

// place is one pool of one node.
type place struct{ node, pool int }

func (m *matching) transportOf(component []int) (*transport, []place, []place, bool) {
	t := &transport{}
	var rows, columns []place
	firstRow, firstColumn := map[int]int{}, map[int]int{}
	arcs, units := 0, 0
	for _, i := range component {
		l := m.links[i]
		expected, extracted := m.expected[l.expected], m.extracted[l.extracted]
		if arcs += len(expected.pools) * len(extracted.pools); arcs > arcLimit {
			return nil, nil, nil, false
		}
		if _, known := firstRow[l.expected]; !known {
			firstRow[l.expected] = len(rows)
			for p, pool := range expected.pools {
				rows = append(rows, place{l.expected, p})
				t.supply = append(t.supply, len(pool.members))
			}
			t.arcs = append(t.arcs, make([][]arc, len(expected.pools))...)
			units += expected.size
		}
		if _, known := firstColumn[l.extracted]; !known {
			firstColumn[l.extracted] = len(columns)
			for p, pool := range extracted.pools {
				columns = append(columns, place{l.extracted, p})
				t.demand = append(t.demand, len(pool.members))
			}
			units += extracted.size
		}
		for p, from := range expected.pools {
			row := firstRow[l.expected] + p
			for q, to := range extracted.pools {
				t.arcs[row] = append(t.arcs[row], arc{column: firstColumn[l.extracted] + q, gain: l.withTypes(from.typ, to.typ)})
			}
		}
	}
	return t, rows, columns, units <= unitLimit
}

// solveGreedily takes the best link first and pairs as much along it as there
// is left. It is what remains for components that are too large.
func (m *matching) solveGreedily(component []int) {
	slices.SortStableFunc(component, func(i, j int) int {
		a, b := m.links[i].gain, m.links[j].gain
		if c := slices.Compare(b[:], a[:]); c != 0 {
			return c
		}
		return cmp.Compare(i, j)
	})
	for _, i := range component {
		m.pushAll(i)
	}
}

// pushAll pairs as many as possible along one link, so that as many types as
// possible are equal and as few as possible wrong. Where a component has no
// other link, that is the best solution.
func (m *matching) pushAll(i int) {
	l := m.links[i]
	expected, extracted := &m.expected[l.expected], &m.extracted[l.extracted]
	if expected.left == 0 || extracted.left == 0 {
		return
	}
	for p := range expected.pools {
		q, ok := slices.BinarySearchFunc(extracted.pools, expected.pools[p].typ, func(x pool, typ int) int { return cmp.Compare(x.typ, typ) })
		if ok {
			m.take(i, p, q, min(len(expected.pools[p].members), len(extracted.pools[q].members)))
		}
	}
	// Pools are sorted by type: expected things without one, which cannot be
	// wrong, come first.
	for p, q := 0, 0; p < len(expected.pools) && q < len(extracted.pools); {
		n := min(len(expected.pools[p].members), len(extracted.pools[q].members))
		m.take(i, p, q, n)
		if len(expected.pools[p].members) == 0 {
			p++
		} else {
			q++
		}
	}
}

// take pairs n members of two pools.
func (m *matching) take(i, p, q, n int) {
	l := m.links[i]
	from, to := &m.expected[l.expected].pools[p], &m.extracted[l.extracted].pools[q]
	for k := range n {
		m.pairs = append(m.pairs, pairing{from.members[k], to.members[k], i})
	}
	from.members, to.members = from.members[n:], to.members[n:]
	m.expected[l.expected].left -= n
	m.extracted[l.extracted].left -= n
}
