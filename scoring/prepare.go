package scoring

import (
	"slices"

	"extraction-experiment/extraction"
)

// entity is one entity of a side, with what it is compared by.
type entity struct {
	index int // in the list as given
	name  int
	typ   int
	names []int // name and aliases, sorted; nil for an empty name
}

// statement is one relationship of a side, with what it is compared by.
type statement struct {
	index int // in the list as given
	forms []form
}

// form is one wording of a statement.
type form struct{ source, typ, target int }

// swapped is the form with its ends exchanged.
func (f form) swapped() form { return form{f.target, f.typ, f.source} }

// prepareEntities numbers the names and types of a side and collapses
// repetitions if asked to.
func (c *call) prepareEntities(s *side, aliases bool) {
	kept := map[[2]int]int{}
	empty := 0
	for i, given := range s.given.Entities {
		e := entity{index: i, name: c.names.id(given.Name), typ: c.types.id(given.Type)}
		if e.name == 0 {
			empty++
		} else {
			e.names = c.namesOfEntity(given, e.name, aliases)
		}
		key := [2]int{e.name, e.typ}
		if first, repeated := kept[key]; repeated && c.options.Dedupe == Exact {
			keeper := &s.entities[first]
			keeper.names = sortedSet(append(keeper.names, e.names...))
			continue
		}
		kept[key] = len(s.entities)
		s.entities = append(s.entities, e)
	}
	if empty > 0 {
		c.warn("%s: %s an empty name; it counts and never matches", s.word, counted(empty, "entity has", "entities have"))
	}
}

func (c *call) namesOfEntity(given extraction.Entity, name int, aliases bool) []int {
	all := []int{name}
	if aliases {
		for _, alias := range given.Aliases {
			if id := c.names.id(alias); id != 0 {
				all = append(all, id)
			}
		}
	}
	return sortedSet(all)
}

// prepareRelationships numbers the ends and types of a side and collapses
// repetitions if asked to.
func (c *call) prepareRelationships(s *side) {
	given := s.given.Relationships
	dangling := 0
	for i, r := range given {
		if r.Dangling() {
			dangling++
		}
		s.relationships = append(s.relationships, statement{i, []form{c.formOf(r)}})
	}
	if dangling > 0 {
		c.warn("%s: %s an end that refers to no entity; it counts and never matches",
			s.word, counted(dangling, "relationship has", "relationships have"))
	}
	if c.options.Dedupe != Exact {
		return
	}
	var kept []statement
	at := map[int]int{}
	first := c.sameFacts(given)
	for i, r := range s.relationships {
		if first[i] == i {
			at[i] = len(kept)
			kept = append(kept, r)
			continue
		}
		keeper := &kept[at[first[i]]]
		keeper.forms = append(keeper.forms, r.forms...)
	}
	for i := range kept {
		kept[i].forms = sortedForms(kept[i].forms)
	}
	s.relationships = kept
}

// formOf returns what a relationship says; an end that refers to nothing is
// empty, whatever is written beside the reference.
func (c *call) formOf(r extraction.Relationship) form {
	f := form{c.names.id(r.Source), c.types.id(r.Type), c.names.id(r.Target)}
	if r.SourceRef != "" {
		f.source = 0
	}
	if r.TargetRef != "" {
		f.target = 0
	}
	return f
}

// reversals returns the types that say with swapped ends what a type says:
// itself if it is symmetric, and its inverses. Only types that occur count.
func (c *call) reversals(typ int) []int {
	text := c.types.texts[typ]
	types := c.inverses(typ)
	if c.symmetric[text] {
		types = append(types, typ)
	}
	return types
}

// inverses returns the inverses of a type that occur, sorted.
func (c *call) inverses(typ int) []int {
	var types []int
	for inverse := range c.inverse[c.types.texts[typ]] {
		if id, ok := c.types.ids[inverse]; ok {
			types = append(types, id)
		}
	}
	slices.Sort(types)
	return types
}

func sortedSet(ids []int) []int {
	slices.Sort(ids)
	return slices.Compact(ids)
}

func sortedForms(forms []form) []form {
	slices.SortFunc(forms, func(a, b form) int {
		return slices.Compare([]int{a.source, a.typ, a.target}, []int{b.source, b.typ, b.target})
	})
	return slices.Compact(forms)
}
