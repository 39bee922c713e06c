package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// maxWarnings bounds what mergeChunks says about one document.
const maxWarnings = 100

// chunkFound is what was extracted from one chunk. Offsets of mentions count from the
// beginning of the chunk; identifiers are local to the part.
type chunkFound struct {
	Extraction extraction.Extraction
	chunk      chunk
}

// mergeChunks unites what was extracted from the chunks of one document, which come in
// their order; the result is in the order of first appearance. It changes nothing of its
// input.
//
// Entities are one if their names are equal in NFKC, folded case and single
// spaces, and their types are equal (likewise, _ and - being spaces) or one has
// none. If chunks disagree about the type of a name, most chunks win, then the
// first, with a warning; but a name that one chunk lists under two types stands
// for two things, and stays apart by type. The united entity has the first spelling
// of the name; the aliases are united; description and properties are the first
// that are not empty; mentions, moved to offsets of the document, are united and
// sorted. An entity without a name is united with none.
//
// The ends of relationships become the names of the united entities; other ends
// stay as they are. References within a part are resolved by
// extraction.DecodeExtraction. Statements with equal ends and type are one, and so
// are those that the vocabulary says to be the same; the first is kept, with the
// first description. An end that refers to nothing stays dangling, and such a
// statement is never united with another.
//
// A list is nil only if it is nil in every part. A single part is what the
// extractor said: mentions are moved, exact repetitions removed, and nothing else,
// so that merging what is merged changes nothing. Otherwise identifiers are removed.
//
// Time O(n log n) in the size of the parts.
func mergeChunks(parts []chunkFound, v Vocabulary) (extraction.Extraction, []string) {
	m := merger{names: map[string]string{}}
	for i, p := range parts {
		m.add(i, p)
	}
	if len(parts) > 1 {
		m.uniteEntities()
		m.uniteRelationships(v)
	}
	entities, relationships := map[string]bool{}, map[extraction.Relationship]bool{}
	m.found.Entities = slices.DeleteFunc(m.found.Entities, func(e extraction.Entity) bool {
		key := everything(e)
		again := entities[key]
		entities[key] = true
		return again
	})
	m.found.Relationships = slices.DeleteFunc(m.found.Relationships, func(r extraction.Relationship) bool {
		again := relationships[r]
		relationships[r] = !r.Dangling()
		return again
	})
	if more := len(m.warnings) - maxWarnings; more > 0 {
		m.warnings = append(m.warnings[:maxWarnings], fmt.Sprintf("and %d more warnings of merging chunks", more))
	}
	return m.found, m.warnings
}

// everything spells all that is said of an entity, its identifier apart.
func everything(e extraction.Entity) string {
	return fmt.Sprintf("%q %q %q %q %q %#v", e.Name, e.Type, e.Description, e.Aliases, e.Properties, e.Mentions)
}

// member is an entity of a part.
type member struct {
	*extraction.Entity
	part      int
	at        int    // in the order of appearance
	name, typ string // in the form in which they are compared
}

// cluster is a set of members that are one by name and type, in order of appearance.
type cluster struct {
	typ     string // in the form in which it is compared
	members []member
}

// merger unites the parts of one document.
type merger struct {
	found    extraction.Extraction // all parts one after the other, then united
	members  []member
	clusters []cluster
	names    map[string]string // spellings of the entities' names
	warnings []string
}

// add appends what was found in a part, its mentions moved to offsets of the document. A
// mention without usable offsets keeps its quote only.
func (m *merger) add(part int, p chunkFound) {
	entities := slices.Clone(p.Extraction.Entities)
	for i := range entities {
		e := &entities[i]
		e.Mentions = slices.Clone(e.Mentions)
		for j := range e.Mentions {
			if s := &e.Mentions[j]; s.Start < 0 || s.End <= s.Start {
				s.Start, s.End = 0, 0
			} else {
				s.Start, s.End = s.Start+p.chunk.Start, s.End+p.chunk.Start
			}
		}
		m.members = append(m.members, member{Entity: e, part: part, at: len(m.members)})
	}
	m.found.Entities = appended(m.found.Entities, entities)
	m.found.Relationships = appended(m.found.Relationships, p.Extraction.Relationships)
}

// appended returns both lists as one, which is nil only if both are.
func appended[T any](list, more []T) []T {
	if list == nil && more != nil {
		list = []T{}
	}
	return append(list, more...)
}

// uniteEntities gathers members of equal names and compatible types.
func (m *merger) uniteEntities() {
	byName := map[string][]member{}
	for i := range m.members {
		e := &m.members[i]
		e.name, e.typ = textutil.FoldName(e.Name), textutil.FoldType(e.Type)
		byName[e.name] = append(byName[e.name], *e)
	}
	for _, e := range m.members {
		switch members := byName[e.name]; {
		case e.name == "":
			m.clusters = append(m.clusters, cluster{e.typ, []member{e}})
		case members[0].at == e.at:
			m.divide(members)
		}
	}
	slices.SortFunc(m.clusters, func(a, b cluster) int { return cmp.Compare(a.members[0].at, b.members[0].at) })
	m.found.Entities = m.found.Entities[:0]
	for _, c := range m.clusters {
		e := c.unite()
		m.found.Entities = append(m.found.Entities, e)
		if name := c.members[0].name; name != "" && m.names[name] == "" {
			m.names[name] = e.Name
		}
	}
}

// divide makes clusters of the members of one name by type.
func (m *merger) divide(members []member) {
	winner, types, homonym := vote(members)
	if !homonym {
		m.clusters = append(m.clusters, cluster{winner.typ, members})
		if types > 1 {
			m.warnings = append(m.warnings, fmt.Sprintf("entity %q: chunks disagree about its type; of %d %q is kept",
				shown(members[0].Name), types, shown(winner.Type)))
		}
		return
	}
	byType := map[string][]member{}
	for _, e := range members {
		typ := cmp.Or(e.typ, winner.typ)
		byType[typ] = append(byType[typ], e)
	}
	for typ, members := range byType {
		m.clusters = append(m.clusters, cluster{typ, members})
	}
}

// unite makes one entity of the members of a cluster.
func (c cluster) unite() extraction.Entity {
	e := *c.members[0].Entity
	e.ID = ""
	if len(c.members) == 1 {
		return e
	}
	e.Type, e.Aliases, e.Mentions = "", nil, nil
	seen := map[string]bool{"": true, c.members[0].name: true}
	for _, other := range c.members {
		if e.Type == "" && other.typ == c.typ {
			e.Type = other.Type
		}
		if strings.TrimSpace(e.Description) == "" {
			e.Description = other.Description
		}
		if len(e.Properties) == 0 || string(e.Properties) == "null" {
			e.Properties = other.Properties
		}
		for _, alias := range other.Aliases {
			if key := textutil.FoldName(alias); !seen[key] {
				seen[key] = true
				e.Aliases = append(e.Aliases, alias)
			}
		}
		e.Mentions = append(e.Mentions, other.Mentions...)
	}
	slices.SortFunc(e.Mentions, func(a, b extraction.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Quote, b.Quote))
	})
	e.Mentions = slices.Compact(e.Mentions)
	return e
}

// vote returns the first member of the type under which most parts list a name, under how
// many types they do, and whether one part lists it under two.
func vote(members []member) (winner member, types int, homonym bool) {
	type ballot struct {
		part int
		typ  string
	}
	cast, count, last := map[ballot]bool{}, map[string]int{}, -1
	for _, e := range members {
		b := ballot{e.part, e.typ}
		if e.typ == "" || cast[b] {
			continue
		}
		cast[b] = true
		homonym = homonym || e.part == last
		last = e.part
		count[e.typ]++
	}
	for _, e := range members {
		if count[e.typ] > count[winner.typ] {
			winner = e
		}
	}
	return winner, len(count), homonym
}

// statement is a relationship in the form in which it is compared.
type statement struct{ source, typ, target string }

// uniteRelationships keeps every statement once, its ends spelled as the united
// entities are.
func (m *merger) uniteRelationships(v Vocabulary) {
	swaps := v.swaps()
	kept := m.found.Relationships[:0]
	at := map[statement]int{}
	for _, r := range m.found.Relationships {
		s := statement{textutil.FoldName(r.Source), textutil.FoldType(r.Type), textutil.FoldName(r.Target)}
		r.Source, r.Target = cmp.Or(m.names[s.source], r.Source), cmp.Or(m.names[s.target], r.Target)
		if !r.Dangling() {
			if first, known := find(at, s, swaps); known {
				kept[first].Description = cmp.Or(kept[first].Description, r.Description)
				continue
			}
			at[s] = len(kept)
		}
		kept = append(kept, r)
	}
	m.found.Relationships = kept
}

// find returns where a statement was made before, in these words or swapped.
func find(at map[statement]int, s statement, swaps map[string][]string) (int, bool) {
	if i, ok := at[s]; ok {
		return i, true
	}
	for _, typ := range swaps[s.typ] {
		if i, ok := at[statement{s.target, typ, s.source}]; ok {
			return i, true
		}
	}
	return 0, false
}

// Vocabulary says which relationship types state the same fact. It has the
// shape of scoring.Vocabulary, into which it converts. The zero value knows
// nothing: only equal statements are one.
type Vocabulary struct {
	// Inverse pairs: a(x, y) says what b(y, x) says; not transitive.
	Inverse [][2]string
	// Symmetric types: a(x, y) says what a(y, x) says.
	Symmetric []string
}

// swaps returns, by type key, the types that say the same with swapped ends.
func (v Vocabulary) swaps() map[string][]string {
	swaps := map[string][]string{}
	for _, pair := range v.Inverse {
		a, b := textutil.FoldType(pair[0]), textutil.FoldType(pair[1])
		swaps[a] = append(swaps[a], b)
		if a != b {
			swaps[b] = append(swaps[b], a)
		}
	}
	for _, t := range v.Symmetric {
		key := textutil.FoldType(t)
		swaps[key] = append(swaps[key], key)
	}
	return swaps
}
