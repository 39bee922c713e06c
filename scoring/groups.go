package scoring

import (
	"slices"

	"extraction-experiment/outcome"
)

// groups counts by type.
type groups struct {
	kind  string
	types *dictionary
	of    map[int]*outcome.Group
}

// untyped is the group of what has no type.
const untyped = "(no type)"

func (c *call) newGroups(kind string) *groups {
	return &groups{kind, c.types, map[int]*outcome.Group{}}
}

func (g *groups) at(typ int) *outcome.Group {
	if g.of[typ] == nil {
		name := g.types.texts[typ]
		if typ == 0 {
			name = untyped
		}
		g.of[typ] = &outcome.Group{Kind: g.kind, Name: name}
	}
	return g.of[typ]
}

func (g *groups) expected(typ int)  { g.at(typ).Expected++ }
func (g *groups) extracted(typ int) { g.at(typ).Extracted++ }
func (g *groups) matched(typ int)   { g.at(typ).Matched++ }

// list returns the groups in the order of their types.
func (g *groups) list() []outcome.Group {
	var types []int
	for typ := range g.of {
		types = append(types, typ)
	}
	slices.Sort(types)
	var list []outcome.Group
	for _, typ := range types {
		list = append(list, *g.of[typ])
	}
	return list
}
