package scoring

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// entityNodes groups the entities of a side that have a name by their names,
// and within by type. It returns the groups, and the names of each, in the
// order of the names.
func (c *call) entityNodes(s *side) ([]node, [][]int) {
	groups := map[string][]int{}
	for i, e := range s.entities {
		if e.name == 0 {
			continue
		}
		var key []byte
		for _, name := range e.names {
			key = binary.BigEndian.AppendUint32(key, uint32(name))
		}
		groups[string(key)] = append(groups[string(key)], i)
	}
	// Numbers of equal width, big end first: the order of the keys is the
	// order of the names.
	var nodes []node
	var namesOf [][]int
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		members := groups[key]
		nodes = append(nodes, node{pools: c.pools(s, members), size: len(members)})
		namesOf = append(namesOf, s.entities[members[0]].names)
	}
	return nodes, namesOf
}

// pools splits entities of equal names by type, and sorts equal ones by how
// they are spelled.
func (c *call) pools(s *side, members []int) []pool {
	slices.SortFunc(members, func(i, j int) int {
		a, b := s.entities[i], s.entities[j]
		x, y := s.given.Entities[a.index], s.given.Entities[b.index]
		return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type), cmp.Compare(i, j))
	})
	var pools []pool
	for len(members) > 0 {
		typ := s.entities[members[0]].typ
		n := 1
		for n < len(members) && s.entities[members[n]].typ == typ {
			n++
		}
		pools = append(pools, pool{typ, members[:n:n]})
		members = members[n:]
	}
	return pools
}

// entityMatching links and matches the entities of both sides.
type entityMatching struct {
	matching
	expectedNames  [][]int
	extractedNames [][]int
	similarities   []similarity // by the detail of a link
}

func (c *call) matchEntities() *entityMatching {
	m := &entityMatching{}
	m.expected, m.expectedNames = c.entityNodes(&c.expected)
	m.extracted, m.extractedNames = c.entityNodes(&c.extracted)
	exact := m.exactLinks()
	m.links = exact
	if c.options.FuzzyEntities {
		m.links = append(m.links, c.similarEntities(m, exact)...)
	}
	slices.SortFunc(m.links, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.expected, b.expected), cmp.Compare(a.extracted, b.extracted))
	})
	m.solve(&budget{assignAllowance})
	if m.degraded > 0 {
		c.warn("entities: %s too many similar names for the best assignment; its best pairs were taken first",
			counted(m.degraded, "group of names has", "groups of names have"))
	}
	return m
}

// exactLinks links nodes that share a name.
func (m *entityMatching) exactLinks() []link {
	byName := map[int]int{}
	for x, list := range m.extractedNames {
		byName[list[0]] = x
	}
	m.similarities = []similarity{equalNames}
	var links []link
	for e, list := range m.expectedNames {
		for _, name := range list {
			if x, ok := byName[name]; ok {
				links = append(links, link{expected: e, extracted: x, exact: true, gain: gain{field + 1, equalNames.ppm()}})
			}
		}
	}
	return links
}

// similarEntities links nodes that share no name and have similar ones; the
// most similar names decide.
func (c *call) similarEntities(m *entityMatching, exact []link) []link {
	closedExpected, closedExtracted := closed(m.expected, m.extracted, exact)
	nodesOf := map[int][]int{}
	for e, list := range m.expectedNames {
		if closedExpected[e] {
			continue
		}
		for _, name := range list {
			nodesOf[name] = append(nodesOf[name], e)
		}
	}
	byName := map[int]int{}
	for x, list := range m.extractedNames {
		if !closedExtracted[x] {
			byName[list[0]] = x
		}
	}
	search := budget{searchAllowance}
	ours := slices.Sorted(maps.Keys(nodesOf))
	similar := c.matcher.join(ours, slices.Sorted(maps.Keys(byName)), &search)
	linked := map[[2]int]bool{}
	for _, l := range exact {
		linked[[2]int{l.expected, l.extracted}] = true
	}
	best := map[[2]int]similarity{}
	for _, name := range ours {
		for _, other := range similar[name] {
			for _, e := range nodesOf[name] {
				if !search.spend(edgeCost) {
					break
				}
				key := [2]int{e, byName[other.name]}
				if known, ok := best[key]; !linked[key] && (!ok || betterThan(other.similarity, known)) {
					best[key] = other.similarity
				}
			}
		}
	}
	if search.exhausted() {
		c.warn("entities: too many or too long names to compare all of them; from some length on only equal names were matched")
	}
	var links []link
	for key, s := range best {
		links = append(links, link{expected: key[0], extracted: key[1], gain: gain{1, s.ppm()}, detail: len(m.similarities)})
		m.similarities = append(m.similarities, s)
	}
	return links
}
