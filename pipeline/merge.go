package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// maxWarnings is the most warnings that mergeChunks returns for a document.
const maxWarnings = 100

// chunkResult is what was extracted from one chunk. Offsets of mentions count from the
// beginning of the chunk; identifiers are local to the chunk.
type chunkResult struct {
	Extraction extraction.Extraction
	chunk      chunk
}

// mergeChunks unites the results of the chunks of one document, given in order. The lists of
// the result are in order of first appearance. The input is not changed.
//
// Entities are the same if their names are equal in NFKC, folded case and single spaces, and
// their types are equal (compared likewise, with _ and - as spaces) or one has no type. If
// chunks disagree about the type of a name, the type in most chunks wins, or the first one on a
// tie, and a warning says so. But if one chunk lists a name under two types, the name stands
// for two things, and its entities are united only by type. The united entity has the first
// spelling of the name, all aliases, the first description and properties that are not empty,
// and all mentions, sorted and moved to offsets of the document. Entities without a name are
// not united.
//
// The ends of relationships become the names of the united entities; other ends stay unchanged.
// extraction.DecodeExtraction has resolved references within a chunk. Relationships with equal
// ends and type are the same, and so are those that the vocabulary equates; the first one is
// kept, with the first description. An end that refers to nothing stays dangling, and its
// relationship is never united with another.
//
// A list is nil only if it is nil in every part. A single part is only changed by moving
// mentions and removing exact repetitions, so that merging a result again changes nothing. With
// several parts, identifiers are removed.
//
// Time O(n log n) in the size of the parts.
func mergeChunks(parts []chunkResult, v Vocabulary) (extraction.Extraction, []string) {
	m := merger{spellings: map[string]string{}}
	for i, p := range parts {
		m.add(i, p)
	}
	if len(parts) > 1 {
		m.uniteEntities()
		m.uniteRelationships(v)
	}
	entities, relationships := map[string]bool{}, map[extraction.Relationship]bool{}
	m.merged.Entities = slices.DeleteFunc(m.merged.Entities, func(e extraction.Entity) bool {
		key := entityKey(e)
		duplicate := entities[key]
		entities[key] = true
		return duplicate
	})
	m.merged.Relationships = slices.DeleteFunc(m.merged.Relationships, func(r extraction.Relationship) bool {
		duplicate := relationships[r]
		relationships[r] = !r.Dangling()
		return duplicate
	})
	if more := len(m.warnings) - maxWarnings; more > 0 {
		m.warnings = append(m.warnings[:maxWarnings], fmt.Sprintf("and %d more warnings of merging chunks", more))
	}
	return m.merged, m.warnings
}

// entityKey returns a text that is equal for entities that differ at most in their identifier.
func entityKey(e extraction.Entity) string {
	return fmt.Sprintf("%q %q %q %q %q %#v", e.Name, e.Type, e.Description, e.Aliases, e.Properties, e.Mentions)
}

// member is an entity of a part.
type member struct {
	*extraction.Entity
	part      int
	order     int    // position in the order of appearance
	name, typ string // folded for comparison
}

// cluster is a set of members that are the same entity, in order of appearance.
type cluster struct {
	typ     string // folded for comparison
	members []member
}

// merger unites the parts of one document.
type merger struct {
	merged    extraction.Extraction // all parts in order, united at the end
	members   []member
	clusters  []cluster
	spellings map[string]string // folded name of an entity to its spelling
	warnings  []string
}

// add appends the result of a part, with mentions moved to offsets of the document. A mention
// without usable offsets keeps only its quote.
func (m *merger) add(part int, p chunkResult) {
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
		m.members = append(m.members, member{Entity: e, part: part, order: len(m.members)})
	}
	m.merged.Entities = concat(m.merged.Entities, entities)
	m.merged.Relationships = concat(m.merged.Relationships, p.Extraction.Relationships)
}

// concat returns both lists as one, which is nil only if both are.
func concat[T any](list, more []T) []T {
	if list == nil && more != nil {
		list = []T{}
	}
	return append(list, more...)
}

// uniteEntities unites members of equal names and compatible types.
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
		case members[0].order == e.order:
			m.splitByType(members)
		}
	}
	slices.SortFunc(m.clusters, func(a, b cluster) int { return cmp.Compare(a.members[0].order, b.members[0].order) })
	m.merged.Entities = m.merged.Entities[:0]
	for _, c := range m.clusters {
		e := c.unite()
		m.merged.Entities = append(m.merged.Entities, e)
		if name := c.members[0].name; name != "" && m.spellings[name] == "" {
			m.spellings[name] = e.Name
		}
	}
}

// splitByType makes clusters of the members of one name.
func (m *merger) splitByType(members []member) {
	winner, types, homonym := vote(members)
	if !homonym {
		m.clusters = append(m.clusters, cluster{winner.typ, members})
		if types > 1 {
			m.warnings = append(m.warnings, fmt.Sprintf("entity %q: chunks disagree about its type; of %d %q is kept",
				brief(members[0].Name), types, brief(winner.Type)))
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
		if textutil.AbsentJSON(e.Properties) {
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

// vote returns the first member of the type under which most parts list a name, the number of
// types, and whether one part lists the name under two types.
func vote(members []member) (winner member, types int, homonym bool) {
	type ballot struct {
		part int
		typ  string
	}
	counted, count, lastPart := map[ballot]bool{}, map[string]int{}, -1
	for _, e := range members {
		b := ballot{e.part, e.typ}
		if e.typ == "" || counted[b] {
			continue
		}
		counted[b] = true
		homonym = homonym || e.part == lastPart
		lastPart = e.part
		count[e.typ]++
	}
	for _, e := range members {
		if count[e.typ] > count[winner.typ] {
			winner = e
		}
	}
	return winner, len(count), homonym
}

// statement is a relationship, folded for comparison.
type statement struct{ source, typ, target string }

// uniteRelationships removes repeated relationships and spells ends like the united entities.
func (m *merger) uniteRelationships(v Vocabulary) {
	swapped := v.swapped()
	kept := m.merged.Relationships[:0]
	index := map[statement]int{}
	for _, r := range m.merged.Relationships {
		s := statement{textutil.FoldName(r.Source), textutil.FoldType(r.Type), textutil.FoldName(r.Target)}
		r.Source, r.Target = cmp.Or(m.spellings[s.source], r.Source), cmp.Or(m.spellings[s.target], r.Target)
		if !r.Dangling() {
			if first, known := findStatement(index, s, swapped); known {
				kept[first].Description = cmp.Or(kept[first].Description, r.Description)
				continue
			}
			index[s] = len(kept)
		}
		kept = append(kept, r)
	}
	m.merged.Relationships = kept
}

// findStatement returns the index of a statement that was made before, also in its swapped form.
func findStatement(index map[statement]int, s statement, swapped map[string][]string) (int, bool) {
	if i, ok := index[s]; ok {
		return i, true
	}
	for _, typ := range swapped[s.typ] {
		if i, ok := index[statement{s.target, typ, s.source}]; ok {
			return i, true
		}
	}
	return 0, false
}

// Vocabulary says which relationship types state the same fact. It has the fields of
// scoring.Vocabulary and converts to it. With the zero value, only equal statements are the
// same.
type Vocabulary struct {
	// Inverse lists pairs: a(x, y) means the same as b(y, x). It is not transitive.
	Inverse [][2]string
	// Symmetric lists types: a(x, y) means the same as a(y, x).
	Symmetric []string
}

// swapped returns, for each folded type, the types that mean the same with swapped ends.
func (v Vocabulary) swapped() map[string][]string {
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
