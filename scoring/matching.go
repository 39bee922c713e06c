package scoring

import (
	"cmp"
	"slices"
)

// node is a group of things on one side that have equal names, in pools by
// type. Relationships have one pool of type 0.
type node struct {
	pools []pool
	size  int
	left  int // not matched yet
}

// pool is a group of equal things: only their spelling and their place in the
// list differ.
type pool struct {
	typ     int
	members []int // sorted by spelling; the first are taken first
}

// link says that a node of the expected side may be matched with a node of
// the extracted side.
type link struct {
	expected, extracted int // nodes
	exact               bool
	gain                gain // of one pair, types left aside
	detail              int  // for the owner of the link
}

// pairing is one matched pair.
type pairing struct {
	expected, extracted int // members
	link                int // index into the links
}

// matching chooses among links. Nodes and links are in an order that depends
// on content only, and so is the result.
type matching struct {
	expected, extracted []node
	links               []link // sorted by expected, extracted; one per pair of nodes
	pairs               []pairing
	degraded            int // components that were too large for the best solution
}

// withTypes returns the gain of a pair of these types; it prefers the most
// equal types, then most equal types on exact names, then fewest wrong types.
func (l link) withTypes(expected, extracted int) gain {
	g := l.gain
	switch {
	case expected == 0: // not judged
	case expected != extracted:
		g[2]--
	case l.exact:
		g[2] += field*field + field
	default:
		g[2] += field * field
	}
	return g
}

// closed tells which nodes are used up by exact pairs in every best solution,
// because the links are exact and each node has no other: the smaller of the
// two. Nothing else needs to be looked for on their behalf.
func closed(expected, extracted []node, exact []link) (closedExpected, closedExtracted []bool) {
	of, by := make([]int, len(expected)), make([]int, len(extracted))
	for _, l := range exact {
		of[l.expected]++
		by[l.extracted]++
	}
	closedExpected, closedExtracted = make([]bool, len(expected)), make([]bool, len(extracted))
	for _, l := range exact {
		if of[l.expected] != 1 || by[l.extracted] != 1 {
			continue
		}
		closedExpected[l.expected] = expected[l.expected].size <= extracted[l.extracted].size
		closedExtracted[l.extracted] = extracted[l.extracted].size <= expected[l.expected].size
	}
	return closedExpected, closedExtracted
}

// solve fills pairs with the best one-to-one assignment: the one of largest
// total gain. Components that share no node are solved apart.
func (m *matching) solve(left *budget) {
	for i := range m.expected {
		m.expected[i].left = m.expected[i].size
	}
	for i := range m.extracted {
		m.extracted[i].left = m.extracted[i].size
	}
	for _, component := range m.components() {
		if len(component) == 1 {
			m.pushAll(component[0])
			continue
		}
		if !m.solveBest(component, left) {
			m.degraded++
			m.solveGreedily(component)
		}
	}
}

// components returns the links that hang together, as indices.
func (m *matching) components() [][]int {
	set := newDisjointSet(len(m.expected) + len(m.extracted))
	for _, l := range m.links {
		set.join(l.expected, len(m.expected)+l.extracted)
	}
	at := map[int]int{}
	var components [][]int
	for i, l := range m.links {
		root := set.find(l.expected)
		c, known := at[root]
		if !known {
			c = len(components)
			at[root] = c
			components = append(components, nil)
		}
		components[c] = append(components[c], i)
	}
	return components
}

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

// disjointSet keeps things in groups that can be joined.
type disjointSet struct{ parent []int }

func newDisjointSet(n int) *disjointSet {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	return &disjointSet{parent}
}

func (d *disjointSet) find(i int) int {
	for d.parent[i] != i {
		d.parent[i] = d.parent[d.parent[i]]
		i = d.parent[i]
	}
	return i
}

// join puts both into one group; its root is the smaller of the two roots.
func (d *disjointSet) join(i, j int) {
	i, j = d.find(i), d.find(j)
	d.parent[max(i, j)] = min(i, j)
}
