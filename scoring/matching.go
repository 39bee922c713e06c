package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/internal/textutil"
)

// node is a group of things on one side that have equal names, in pools by
// type. Relationships have one pool of type 0.
type node struct {
	first int // of its members
	pools []pool
	size  int

	closed bool // see closeNodes
	place  int  // of its first pool among the rows or columns of a transport, + 1
}

// pool is a group of equal things: only their spelling and their place in the
// list differ.
type pool struct {
	typ     int
	members []int // sorted by spelling; the first are taken first
}

// nodesOf groups members by content, in an order in which equal ones are together,
// and of those the ones of a type, the smallest type first.
func nodesOf(order []int, compare func(i, j int) int, equal func(i, j int) bool, typ func(i int) int) []node {
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(compare(i, j), cmp.Compare(i, j)) })
	nodes, pools := make([]node, 0, len(order)), make([]pool, 0, len(order))
	for at, i := range order {
		first := at == 0 || !equal(order[at-1], i)
		if first {
			nodes = append(nodes, node{first: i, pools: pools[len(pools):]})
		}
		n := &nodes[len(nodes)-1]
		if first || n.pools[len(n.pools)-1].typ != typ(i) {
			pools = append(pools, pool{typ(i), order[at:at]})
			n.pools = n.pools[:len(n.pools)+1]
		}
		last := &n.pools[len(n.pools)-1]
		last.members = last.members[:len(last.members)+1]
		n.size++
	}
	return nodes
}

// link says that a node of the expected side may be matched with a node of
// the extracted side.
type link struct {
	expected, extracted int // nodes
	exact               bool
	gain                gain           // of one pair, types left aside
	match               statementMatch // how; of entities, by source alone
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

	transport     *transport // of the component that is solved
	rows, columns []int      // its pools, by their numbers within their nodes

	// Of takeBest: the best links, and the extracted nodes that were seen there, or
	// that one of them leads to.
	best        []int
	seen, taken []bool
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

// closeNodes marks the nodes that the exact links use up in every best solution,
// because each of the two has no other: the smaller one. Nothing else needs to be
// looked for on their behalf.
func (m *matching) closeNodes() {
	of, by := make([]int, len(m.expected)), make([]int, len(m.extracted))
	for _, l := range m.links {
		of[l.expected]++
		by[l.extracted]++
	}
	for _, l := range m.links {
		if of[l.expected] == 1 && by[l.extracted] == 1 {
			e, x := &m.expected[l.expected], &m.extracted[l.extracted]
			e.closed, x.closed = e.size <= x.size, x.size <= e.size
		}
	}
}

// assign chooses among the links of a family, and warns of what was not looked at.
func (c *call) assign(m *matching, family string, search *budget) {
	if search.exhausted() {
		c.warn("%s: too many or too long names to compare all of them; above a certain length only equal ones were matched", family)
	}
	m.transport, c.links = &c.transport, m.links
	m.solve(&budget{assignAllowance})
	if m.degraded > 0 {
		c.warn("%s: %s with too many similar names for the best assignment; the best pairs were taken first",
			family, textutil.Counted(m.degraded, "group"))
	}
}

// sortLinks sorts the links by their nodes, and those of the same ones by the
// similarity of entities.
func (m *matching) sortLinks() {
	slices.SortStableFunc(m.links, func(a, b link) int {
		if d := cmp.Or(a.expected-b.expected, a.extracted-b.extracted); d != 0 {
			return d
		}
		return compareBest(a.match.source, b.match.source)
	})
}

// solve fills pairs, in the order of the expected members, with the best one-to-one
// assignment: the one of largest total gain. Components that share no node are solved apart.
func (m *matching) solve(left *budget) {
	m.pairs = make([]pairing, 0, min(len(m.expected), len(m.extracted)))
	m.seen, m.taken = make([]bool, len(m.extracted)), make([]bool, len(m.extracted))
	components := m.components()
	for root := range m.expected {
		component := components.of(root)
		if len(component) == 1 {
			m.pushAll(component[0])
		} else if !m.takeBest(component, left) && !m.solveBest(component, left) {
			m.degraded++
			m.solveGreedily(component)
		}
	}
	slices.SortFunc(m.pairs, func(a, b pairing) int { return cmp.Compare(a.expected, b.expected) })
}

// components returns the links that hang together, as indices, by their first
// expected node.
func (m *matching) components() index {
	set := newDisjointSet(len(m.expected) + len(m.extracted))
	for _, l := range m.links {
		set.join(l.expected, len(m.expected)+l.extracted)
	}
	roots := make([][2]int, len(m.links))
	for i, l := range m.links {
		roots[i] = [2]int{set.find(l.expected), i}
	}
	return newIndex(len(m.expected), roots)
}

// takeBest solves a component of single things in which each expected one has one
// best link, and no two of these lead to the same extracted one: no assignment is
// better. It spends what transport.solve would, which finds the same with one step a
// row. It reports false, having changed nothing, where it does not apply.
func (m *matching) takeBest(component []int, left *budget) bool {
	m.best = m.best[:0]
	columns := 0
	for rest := component; len(rest) > 0; {
		var most gain
		best, tied, row := 0, false, m.links[rest[0]].expected
		for ; len(rest) > 0 && m.links[rest[0]].expected == row; rest = rest[1:] {
			l := &m.links[rest[0]]
			e, x := &m.expected[row], &m.extracted[l.extracted]
			if e.size > 1 || x.size > 1 {
				return false
			}
			if !m.seen[l.extracted] {
				m.seen[l.extracted] = true
				columns++
			}
			if g := l.withTypes(e.pools[0].typ, x.pools[0].typ); most.less(g) {
				best, most, tied = rest[0], g, false
			} else {
				tied = tied || g == most
			}
		}
		if tied || m.taken[m.links[best].extracted] {
			return false
		}
		m.taken[m.links[best].extracted] = true
		m.best = append(m.best, best)
	}
	rows := len(m.best)
	work := rows*(rows+2*(columns+1)) + len(component) + rows
	if len(component) > arcLimit || rows+columns > unitLimit || int64(work) > left.left {
		return false
	}
	left.spend(work)
	for _, i := range m.best {
		m.take(i, 0, 0, 1)
	}
	return true
}

// solveBest solves one component as a transport between pools. It reports
// false, having changed nothing, where that would take too much.
func (m *matching) solveBest(component []int, left *budget) bool {
	if !m.load(component) || !m.transport.solve(left) {
		return false
	}
	for r, arcs := range m.transport.arcs {
		for _, a := range arcs {
			if a.flow == 0 || a.column == len(m.columns) {
				continue
			}
			m.take(a.link, m.rows[r], m.columns[a.column], a.flow)
		}
	}
	return true
}

// load makes the transport that of a component; false where it is too large.
func (m *matching) load(component []int) bool {
	t := m.transport
	t.supply, t.demand, t.arcs = t.supply[:0], t.demand[:0], t.arcs[:0]
	m.rows, m.columns = m.rows[:0], m.columns[:0]
	arcs, units := 0, 0
	for _, i := range component {
		l := m.links[i]
		from, to := &m.expected[l.expected], &m.extracted[l.extracted]
		if arcs += len(from.pools) * len(to.pools); arcs > arcLimit {
			return false
		}
		row, column := from.placeIn(&m.rows, &t.supply), to.placeIn(&m.columns, &t.demand)
		t.arcs = grown(t.arcs, len(m.rows))
		for p, expected := range from.pools {
			for q, extracted := range to.pools {
				gain := l.withTypes(expected.typ, extracted.typ)
				t.arcs[row+p] = append(t.arcs[row+p], arc{column: column + q, gain: gain, link: i})
			}
		}
	}
	for _, sizes := range [2][]int{t.supply, t.demand} {
		for _, n := range sizes {
			units += n
		}
	}
	return units <= unitLimit
}

// placeIn returns the first of the rows or columns that are the pools of a node,
// and adds them, with their sizes, where the node is new. A node is in one component only.
func (n *node) placeIn(places, sizes *[]int) int {
	if n.place == 0 {
		n.place = len(*places) + 1
		for p, pool := range n.pools {
			*places, *sizes = append(*places, p), append(*sizes, len(pool.members))
		}
	}
	return n.place - 1
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
}

// gain is what one matched pair is worth, or a sum or difference of such:
// three words, each compared only where the ones before are equal. A word may
// hold several counts, each in a field of its own of 21 bits; no count gets
// near the width of its field (see unitLimit), so that comparing words
// compares the counts in order, also where differences make some negative.
type gain [3]int64

// field is the weight of the next field of a word.
const field = 1 << 21

func (g gain) plus(h gain) gain  { return gain{g[0] + h[0], g[1] + h[1], g[2] + h[2]} }
func (g gain) minus(h gain) gain { return gain{g[0] - h[0], g[1] - h[1], g[2] - h[2]} }

func (g gain) less(h gain) bool {
	if g[0] != h[0] {
		return g[0] < h[0]
	}
	if g[1] != h[1] {
		return g[1] < h[1]
	}
	return g[2] < h[2]
}
