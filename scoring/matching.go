package scoring

import (
	"cmp"
	"slices"

	"extraction-experiment/internal/textutil"
)

// node is a group of things on one side that have equal names, in pools by type. Relationships
// have one pool of type 0.
type node struct {
	first int // member
	pools []pool
	size  int

	settled bool // see settleNodes
	offset  int  // of its first pool among the rows or columns of a transport, + 1; 0 before addPools
}

// pool is a group of equal things, which differ only in their spelling and their place in the
// list.
type pool struct {
	typ     int
	members []int // sorted by spelling, taken from the front
}

// ordered returns those of n members that are to be kept, in the order of compare, equal ones in
// that of the list.
func ordered(n int, keep func(i int) bool, compare func(i, j int) int) (list []int) {
	for i := range n {
		if keep(i) {
			list = append(slices.Grow(list, n-i), i) // mostly there are none, or nearly all
		}
	}
	slices.SortFunc(list, func(i, j int) int { return cmp.Or(compare(i, j), cmp.Compare(i, j)) })
	return list
}

// nodesOf groups ordered members into nodes of equal members, and each node into pools by type.
// Nodes have the order of the members, pools that of their types.
func nodesOf(order []int, equal func(i, j int) bool, typ func(i int) int) []node {
	nodes, pools := make([]node, 0, len(order)), make([]pool, 0, len(order))
	sameType := func(i, j int) bool { return typ(i) == typ(j) }
	for len(order) > 0 {
		n := node{first: order[0], size: alike(order, equal)}
		begin := len(pools)
		for rest := order[:n.size]; len(rest) > 0; {
			size := alike(rest, sameType)
			pools = append(pools, pool{typ(rest[0]), rest[:size]})
			rest = rest[size:]
		}
		n.pools, order = pools[begin:], order[n.size:]
		nodes = append(nodes, n)
	}
	return nodes
}

// alike returns the number of members at the beginning of a list, which is not empty, of which each
// is the same as the one before.
func alike(list []int, same func(i, j int) bool) int {
	n := 1
	for n < len(list) && same(list[n-1], list[n]) {
		n++
	}
	return n
}

// link allows a node of the expected side to be matched with a node of the extracted side.
type link struct {
	expected, extracted int // nodes
	exact               bool
	gain                gain           // of one pair, without types
	match               statementMatch // entities use its source similarity only
}

// pairing is a matched pair.
type pairing struct {
	expected, extracted int // members
	link                int // index into matching.links
}

// matching chooses pairs among links. The order of nodes and links depends on content only, and
// so does the result.
type matching struct {
	expected, extracted []node
	links               []link // sorted by expected, then extracted; one for each pair of nodes
	pairs               []pairing
	degraded            int // number of components that were too large for the best assignment

	transport     *transport // of the current component
	rows, columns []int      // of the transport: the number of the pool within its node

	// Memory of takeUniqueBest: the best links, the extracted nodes that any link of the
	// component leads to, and those that a best link leads to.
	best        []int
	seen, taken []bool
}

// withTypes returns the gain of a pair of these types. It prefers the most equal types, then the
// most equal types on exact names, then the fewest wrong types.
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

// settleNodes marks nodes whose members are all matched in every best assignment: if an exact
// link joins two nodes that have no other, the smaller is settled, or both if they are equally
// large. Settled nodes need no further links.
func (m *matching) settleNodes() {
	expectedLinks, extractedLinks := make([]int, len(m.expected)), make([]int, len(m.extracted))
	for _, l := range m.links {
		expectedLinks[l.expected]++
		extractedLinks[l.extracted]++
	}
	for _, l := range m.links {
		if expectedLinks[l.expected] == 1 && extractedLinks[l.extracted] == 1 {
			e, x := &m.expected[l.expected], &m.extracted[l.extracted]
			e.settled, x.settled = e.size <= x.size, x.size <= e.size
		}
	}
}

// assign solves the matching of a family, and warns if a limit was reached.
func (c *call) assign(m *matching, family string, left *budget) {
	if left.exhausted() {
		c.warn("%s: too many or too long names to compare all of them; above a certain length only equal ones were matched", family)
	}
	m.transport, c.links = &c.transport, m.links
	m.solve(&budget{assignAllowance})
	if m.degraded > 0 {
		c.warn("%s: %s with too many similar names for the best assignment; the best pairs were taken first",
			family, textutil.Counted(m.degraded, "group"))
	}
}

// sortLinks sorts the links by their nodes, and links of the same nodes by source similarity, the
// highest first.
func (m *matching) sortLinks() {
	slices.SortStableFunc(m.links, func(a, b link) int {
		if d := cmp.Or(a.expected-b.expected, a.extracted-b.extracted); d != 0 {
			return d
		}
		return compareBest(a.match.source, b.match.source)
	})
}

// solve fills pairs with the one-to-one assignment of the largest total gain, in the order of the
// expected members. It solves each connected component by itself.
func (m *matching) solve(left *budget) {
	m.pairs = make([]pairing, 0, min(len(m.expected), len(m.extracted)))
	m.seen, m.taken = make([]bool, len(m.extracted)), make([]bool, len(m.extracted))
	components := m.components()
	for root := range m.expected {
		component := components.of(root)
		if len(component) == 1 {
			m.pairAlong(component[0])
		} else if !m.takeUniqueBest(component, left) && !m.solveBest(component, left) {
			m.degraded++
			m.solveGreedily(component)
		}
	}
	slices.SortFunc(m.pairs, func(a, b pairing) int { return cmp.Compare(a.expected, b.expected) })
}

// components returns the indices of the links of each connected component, by the smallest
// expected node of the component.
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

// takeUniqueBest solves a component in which all nodes have one member, each expected node has a
// unique best link, and no two of these lead to the same extracted node: no assignment is better.
// It spends as much of the budget as transport.solve would, which finds the same pairs. If the
// component is not of this kind, it returns false and adds no pairs.
func (m *matching) takeUniqueBest(component []int, left *budget) bool {
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
	// The search of each row looks at all rows, twice at all columns, and at the arcs of the row; the
	// transport has one more column, and each row an arc to it.
	work := rows*(rows+2*(columns+1)) + len(component) + rows
	if len(component) > arcLimit || rows+columns > unitLimit || int64(work) > left.left {
		return false
	}
	left.spend(work)
	for _, i := range m.best {
		m.pairMembers(i, 0, 0, 1)
	}
	return true
}

// solveBest solves a component as a transport between pools. If the component is too large or the
// budget does not suffice, it returns false without adding pairs.
func (m *matching) solveBest(component []int, left *budget) bool {
	if !m.load(component) || !m.transport.solve(left) {
		return false
	}
	for r, arcs := range m.transport.arcs {
		for _, a := range arcs {
			if a.flow == 0 || a.column == len(m.columns) {
				continue
			}
			m.pairMembers(a.link, m.rows[r], m.columns[a.column], a.flow)
		}
	}
	return true
}

// load sets up the transport for a component, or returns false if the component is too large.
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
		row, column := from.addPools(&m.rows, &t.supply), to.addPools(&m.columns, &t.demand)
		t.arcs = growLists(t.arcs, len(m.rows))
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

// addPools returns the row or column of the node's first pool. On the first call it appends the
// pools and their sizes to places and sizes. A node belongs to one component only.
func (n *node) addPools(places, sizes *[]int) int {
	if n.offset == 0 {
		n.offset = len(*places) + 1
		for p, pool := range n.pools {
			*places, *sizes = append(*places, p), append(*sizes, len(pool.members))
		}
	}
	return n.offset - 1
}

// solveGreedily takes the links by their gain, the best first, and pairs all members that are
// left along each. It is used for components that are too large for solveBest.
func (m *matching) solveGreedily(component []int) {
	slices.SortFunc(component, func(i, j int) int {
		return cmp.Or(slices.Compare(m.links[j].gain[:], m.links[i].gain[:]), cmp.Compare(i, j))
	})
	for _, i := range component {
		m.pairAlong(i)
	}
}

// pairAlong pairs as many members as possible along one link, first those of equal types, then
// with as few wrong types as possible. For a component of one link, that is the best assignment.
func (m *matching) pairAlong(i int) {
	l := m.links[i]
	expected, extracted := &m.expected[l.expected], &m.extracted[l.extracted]
	for p := range expected.pools {
		q, ok := slices.BinarySearchFunc(extracted.pools, expected.pools[p].typ, func(x pool, typ int) int { return cmp.Compare(x.typ, typ) })
		if ok {
			m.pairMembers(i, p, q, min(len(expected.pools[p].members), len(extracted.pools[q].members)))
		}
	}
	// Pools are sorted by type. Expected things without a type, which is never wrong, come first.
	for p, q := 0, 0; p < len(expected.pools) && q < len(extracted.pools); {
		n := min(len(expected.pools[p].members), len(extracted.pools[q].members))
		m.pairMembers(i, p, q, n)
		if len(expected.pools[p].members) == 0 {
			p++
		} else {
			q++
		}
	}
}

// pairMembers pairs the first n members of pool p of the expected node and pool q of the
// extracted node of link i, and removes them from the pools.
func (m *matching) pairMembers(i, p, q, n int) {
	l := m.links[i]
	from, to := &m.expected[l.expected].pools[p], &m.extracted[l.extracted].pools[q]
	for k := range n {
		m.pairs = append(m.pairs, pairing{from.members[k], to.members[k], i})
	}
	from.members, to.members = from.members[n:], to.members[n:]
}

// gain is the value of one matched pair, or a sum or difference of such values: three words,
// compared one after the other. A word may hold several counts, each in a field of 21 bits.
// unitLimit keeps the counts smaller than their fields, so comparing words compares the counts in
// order, even if some are negative.
type gain [3]int64

// field is the weight of the next higher field of a word.
const field = 1 << 21

func (g gain) plus(h gain) gain  { return gain{g[0] + h[0], g[1] + h[1], g[2] + h[2]} }
func (g gain) minus(h gain) gain { return gain{g[0] - h[0], g[1] - h[1], g[2] - h[2]} }

func (g gain) less(h gain) bool {
	return g[0] < h[0] || g[0] == h[0] && (g[1] < h[1] || g[1] == h[1] && g[2] < h[2])
}

// statementMatch is a way to match an expected statement with an extracted one.
type statementMatch struct {
	rank int32 // index into matchTypes
	ends
}

// ends are the similarities of the ends of two statements.
type ends struct{ source, target similarity }

// ppm returns the sum of both similarities in millionths.
func (e ends) ppm() int64 { return e.source.ppm() + e.target.ppm() }

// equal reports whether both ends are equal.
func (e ends) equal() bool { return e.source == equalNames && e.target == equalNames }

func (w statementMatch) isExact() bool { return w.rank == 0 }

func (w statementMatch) betterThan(v statementMatch) bool {
	return w.rank < v.rank || w.rank == v.rank && w.ppm() > v.ppm()
}

// gain orders assignments by the most exact matches, then exact or inverse matches, pairs,
// similarity of the ends, and pairs of the same type.
func (w statementMatch) gain() gain {
	g := gain{1, w.ppm(), 0}
	if w.equal() {
		g[0] += field
	}
	if w.isExact() {
		g[0] += field * field
	}
	if matchTypes[w.rank] == ExactMatch || matchTypes[w.rank] == FuzzyMatch {
		g[2] = 1
	}
	return g
}
