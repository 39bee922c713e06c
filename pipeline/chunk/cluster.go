package chunk

import (
	"fmt"
	"slices"
	"strings"
)

// aliasRounds bounds how often aliases are looked at again because a join has
// made them unambiguous.
const aliasRounds = 16

// cluster gathers members of equal names and compatible types.
func (m *merger) cluster() {
	m.clusters, m.parent = nil, nil
	byName := map[string][]int{}
	for i, e := range m.members {
		byName[e.name] = append(byName[e.name], i)
	}
	done := map[string]bool{}
	for i, e := range m.members {
		switch {
		case e.name == "":
			m.addCluster(cluster{e.name, e.typ, []int{i}})
		case !done[e.name]:
			done[e.name] = true
			m.clusterName(byName[e.name])
		}
	}
}

// clusterName divides the members of one name by type.
func (m *merger) clusterName(members []int) {
	votes := m.vote(members)
	name := m.members[members[0]].name
	if len(votes.types) < 2 || !votes.homonym {
		m.addCluster(cluster{name, votes.winner, members})
		if len(votes.types) > 1 {
			m.warn("entity %s: chunks disagree about its type (%s); %s is kept",
				quoted(m.members[members[0]].Name), votes, quoted(votes.spelling[votes.winner]))
		}
		return
	}
	byType := map[string][]int{}
	for _, i := range members {
		typ := m.members[i].typ
		if typ == "" {
			typ = votes.winner
		}
		byType[typ] = append(byType[typ], i)
	}
	for _, typ := range votes.types {
		m.addCluster(cluster{name, typ, byType[typ]})
	}
}

// votes counts the parts that list a name under each type.
type votes struct {
	types    []string // keys, in order of appearance
	count    map[string]int
	spelling map[string]string
	winner   string
	homonym  bool // one part lists the name under two types
}

func (m *merger) vote(members []int) votes {
	v := votes{count: map[string]int{}, spelling: map[string]string{}}
	last := map[string]int{} // part that voted last, by type
	part, first := -1, ""
	for _, i := range members {
		e := m.members[i]
		if e.typ == "" {
			continue
		}
		if e.part != part {
			part, first = e.part, e.typ
		}
		v.homonym = v.homonym || e.typ != first
		if v.count[e.typ] == 0 {
			v.types = append(v.types, e.typ)
			v.spelling[e.typ] = e.Type
		}
		if at, voted := last[e.typ]; !voted || at != e.part {
			last[e.typ] = e.part
			v.count[e.typ]++
		}
	}
	for _, typ := range v.types {
		if v.count[typ] > v.count[v.winner] {
			v.winner = typ
		}
	}
	return v
}

// String lists the types with the number of chunks that say so.
func (v votes) String() string {
	const most = 5
	var parts []string
	for _, typ := range v.types[:min(most, len(v.types))] {
		parts = append(parts, fmt.Sprintf("%s in %d", quoted(v.spelling[typ]), v.count[typ]))
	}
	if len(v.types) > most {
		parts = append(parts, fmt.Sprintf("%d more", len(v.types)-most))
	}
	return strings.Join(parts, ", ")
}

// typed is a name or alias of a type.
type typed struct{ name, typ string }

// joinAliases joins each cluster whose name is an alias of exactly one other
// cluster of its type. A join can make another alias unambiguous and never an
// unambiguous one ambiguous, so the order does not matter.
func (m *merger) joinAliases() {
	owners := m.owners()
	for range aliasRounds {
		var pairs [][2]int
		for i := range m.clusters {
			if candidates := m.candidates(i, owners); len(candidates) == 1 {
				pairs = append(pairs, [2]int{i, candidates[0]})
			}
		}
		if len(pairs) == 0 {
			break
		}
		for _, p := range pairs {
			a, b := m.root(p[0]), m.root(p[1])
			m.parent[max(a, b)] = min(a, b)
		}
	}
	for i, c := range m.clusters {
		if candidates := m.candidates(i, owners); len(candidates) > 1 {
			m.warn("entity %s: it is an alias of %s and of %s; it is kept apart", quoted(m.members[c.members[0]].Name),
				quoted(m.nameOf(candidates[0])), quoted(m.nameOf(candidates[1])))
		}
	}
}

// owners returns the clusters that have an alias, by alias and type.
func (m *merger) owners() map[typed][]int {
	owners := map[typed][]int{}
	for i, c := range m.clusters {
		if c.name == "" {
			continue
		}
		for _, j := range c.members {
			for _, alias := range m.members[j].Aliases {
				key := typed{m.keys.name(alias), c.typ}
				if list := owners[key]; key.name != "" && (len(list) == 0 || list[len(list)-1] != i) {
					owners[key] = append(list, i)
				}
			}
		}
	}
	return owners
}

// candidates returns the first two others that the name of cluster i is an alias
// of, by their roots.
func (m *merger) candidates(i int, owners map[typed][]int) []int {
	own := m.root(i)
	var roots []int
	for _, owner := range owners[typed{m.clusters[i].name, m.clusters[i].typ}] {
		if r := m.root(owner); r != own && !slices.Contains(roots, r) {
			if roots = append(roots, r); len(roots) == 2 {
				break
			}
		}
	}
	return roots
}

func (m *merger) nameOf(cluster int) string { return m.members[m.clusters[cluster].members[0]].Name }
