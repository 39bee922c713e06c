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
func mergeChunks(parts []chunkResult, v extraction.Vocabulary) (extraction.Extraction, []string) {
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
		m.members = append(m.members, member{Entity: e, part: part})
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

// uniteEntities unites members of equal names and compatible types. The clusters are in the order
// of their first members. Members without a name are not united.
func (m *merger) uniteEntities() {
	byName := map[string][]member{}
	for i := range m.members {
		e := &m.members[i]
		e.name, e.typ = textutil.FoldName(e.Name), textutil.FoldType(e.Type)
		byName[e.name] = append(byName[e.name], *e)
	}
	type key struct{ name, typ string }
	var clusters []cluster
	index, decisions := map[key]int{}, map[string]decision{}
	for _, e := range m.members {
		decided, known := decisions[e.name]
		if !known && e.name != "" {
			decided = m.vote(byName[e.name])
			decisions[e.name] = decided
		}
		typ := decided.winner.typ
		if decided.homonym || e.name == "" {
			typ = cmp.Or(e.typ, typ)
		}
		i, known := index[key{e.name, typ}]
		if !known || e.name == "" {
			i = len(clusters)
			index[key{e.name, typ}] = i
			clusters = append(clusters, cluster{typ: typ})
		}
		clusters[i].members = append(clusters[i].members, e)
	}
	m.merged.Entities = m.merged.Entities[:0]
	for _, c := range clusters {
		e := c.unite()
		m.merged.Entities = append(m.merged.Entities, e)
		if name := c.members[0].name; name != "" && m.spellings[name] == "" {
			m.spellings[name] = e.Name
		}
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

// decision is what the parts say about the type of a name.
type decision struct {
	winner  member // the first one of the type under which most parts list the name
	homonym bool   // one part lists the name under two types
}

// vote decides on the members of one name. It warns if their types differ but the name is no
// homonym.
func (m *merger) vote(members []member) (d decision) {
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
		d.homonym = d.homonym || e.part == lastPart
		lastPart = e.part
		count[e.typ]++
	}
	d.winner = slices.MaxFunc(members, func(a, b member) int { return cmp.Compare(count[a.typ], count[b.typ]) })
	if len(count) > 1 && !d.homonym {
		m.warnings = append(m.warnings, fmt.Sprintf("entity %q: chunks disagree about its type; of %d %q is kept",
			brief(members[0].Name), len(count), brief(d.winner.Type)))
	}
	return d
}

// statement is a relationship, folded for comparison.
type statement struct{ source, typ, target string }

// uniteRelationships removes repeated relationships and spells ends like the united entities.
func (m *merger) uniteRelationships(v extraction.Vocabulary) {
	converses := v.Converses(textutil.FoldType)
	kept := m.merged.Relationships[:0]
	index := map[statement]int{} // of what was stated, also in its swapped forms
	for _, r := range m.merged.Relationships {
		s := statement{textutil.FoldName(r.Source), textutil.FoldType(r.Type), textutil.FoldName(r.Target)}
		r.Source, r.Target = cmp.Or(m.spellings[s.source], r.Source), cmp.Or(m.spellings[s.target], r.Target)
		if !r.Dangling() {
			if first, known := index[s]; known {
				kept[first].Description = cmp.Or(kept[first].Description, r.Description)
				continue
			}
			index[s] = len(kept)
			for _, c := range converses[s.typ] {
				index[statement{s.target, c.Type, s.source}] = len(kept)
			}
		}
		kept = append(kept, r)
	}
	m.merged.Relationships = kept
}
