package scoring

import (
	"fmt"
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

// aliasing knows which names an end of an expected relationship stands for:
// an end that is a name of an expected entity stands for all its names.
type aliasing struct {
	entities []entity
	byName   map[int][]int    // entities that have several names
	together map[string][]int // names of several entities
}

func newAliasing(entities []entity) *aliasing {
	a := &aliasing{entities, map[int][]int{}, map[string][]int{}}
	for i, e := range entities {
		if len(e.names) < 2 {
			continue
		}
		for _, name := range e.names {
			a.byName[name] = append(a.byName[name], i)
		}
	}
	return a
}

// names returns all names that an end stands for, sorted. Ends of the same
// entities share one list: an entity may have very many names.
func (a *aliasing) names(end int) []int {
	owners := a.byName[end]
	switch len(owners) {
	case 0:
		return []int{end}
	case 1:
		return a.entities[owners[0]].names
	}
	key := fmt.Sprint(owners)
	if _, known := a.together[key]; !known {
		var all []int
		for _, i := range owners {
			all = append(all, a.entities[i].names...)
		}
		a.together[key] = sortedSet(all)
	}
	return a.together[key]
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

// sameFacts returns for each relationship the first one that states the same
// fact, itself included.
func (c *call) sameFacts(list []extraction.Relationship) []int {
	type fact struct {
		form
		sourceRef, targetRef string
	}
	set := newDisjointSet(len(list))
	at := map[fact]int{}
	for i, r := range list {
		f := fact{c.formOf(r), r.SourceRef, r.TargetRef}
		if first, ok := at[f]; ok {
			set.join(first, i)
			continue
		}
		at[f] = i
	}
	for f, i := range at {
		turned := fact{f.swapped(), f.targetRef, f.sourceRef}
		for _, typ := range c.reversals(f.typ) {
			turned.typ = typ
			if j, ok := at[turned]; ok {
				set.join(i, j)
			}
		}
	}
	first := make([]int, len(list))
	for i := range list {
		first[i] = set.find(i)
	}
	return first
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

// Duplicate is a repetition in one list.
type Duplicate struct {
	Index int `json:"index"`
	// Of is the index of the first one of its kind.
	Of int `json:"of"`
	// Collapsed says that the repetition was left out of the counts.
	Collapsed bool `json:"collapsed,omitempty"`
}

// Duplicates are the repetitions of all lists, found whether or not they are
// collapsed: entities of equal normalised name and type, and relationships
// that state the same fact.
type Duplicates struct {
	ExpectedEntities       []Duplicate `json:"expected_entities,omitempty"`
	ExtractedEntities      []Duplicate `json:"extracted_entities,omitempty"`
	ExpectedRelationships  []Duplicate `json:"expected_relationships,omitempty"`
	ExtractedRelationships []Duplicate `json:"extracted_relationships,omitempty"`
}

// Counts returns how many repetitions each list has, by its JSON name with
// "duplicate_" before it; lists without any are left out.
func (d Duplicates) Counts() map[string]int64 {
	counts := map[string]int64{}
	for name, list := range map[string][]Duplicate{
		"duplicate_expected_entities":       d.ExpectedEntities,
		"duplicate_extracted_entities":      d.ExtractedEntities,
		"duplicate_expected_relationships":  d.ExpectedRelationships,
		"duplicate_extracted_relationships": d.ExtractedRelationships,
	} {
		if len(list) > 0 {
			counts[name] = int64(len(list))
		}
	}
	return counts
}

// duplicates finds the repetitions of all four lists.
func (c *call) duplicates(d *Duplicates) {
	d.ExpectedEntities = c.repeatedEntities(c.expected.given.Entities)
	d.ExtractedEntities = c.repeatedEntities(c.extracted.given.Entities)
	d.ExpectedRelationships = c.repeatedFacts(c.expected.given.Relationships)
	d.ExtractedRelationships = c.repeatedFacts(c.extracted.given.Relationships)
	if n := len(d.ExpectedEntities) + len(d.ExpectedRelationships); n > 0 && c.options.Dedupe != Exact {
		c.warn("expected: %s another; only one of them can match each extracted one", counted(n, "entry repeats", "entries repeat"))
	}
}

func (c *call) repeatedEntities(list []extraction.Entity) []Duplicate {
	first := map[[2]int]int{}
	var repeated []Duplicate
	for i, e := range list {
		key := [2]int{c.names.id(e.Name), c.types.id(e.Type)}
		if of, ok := first[key]; ok {
			repeated = append(repeated, Duplicate{i, of, c.options.Dedupe == Exact})
			continue
		}
		first[key] = i
	}
	return repeated
}

func (c *call) repeatedFacts(list []extraction.Relationship) []Duplicate {
	var repeated []Duplicate
	for i, of := range c.sameFacts(list) {
		if of != i {
			repeated = append(repeated, Duplicate{i, of, c.options.Dedupe == Exact})
		}
	}
	return repeated
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
