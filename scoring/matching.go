package scoring

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
