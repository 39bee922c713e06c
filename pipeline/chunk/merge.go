package chunk

import (
	"cmp"
	"fmt"
	"slices"

	"extraction-experiment/extraction"
)

// maxWarnings bounds what Merge says about one document.
const maxWarnings = 100

// Part is what was extracted from one chunk. Offsets of mentions count from the
// beginning of the chunk; identifiers are local to the part.
type Part struct {
	Extraction extraction.Extraction
	Chunk      Chunk
}

// Merge unites what was extracted from the chunks of one document. Parts are
// taken in the order of their chunks' Start, whatever order they come in; the
// result is in the order of first appearance. It changes nothing of its input.
//
// Entities are one if their names are equal in NFKC, folded case and single
// spaces, and their types are equal (likewise, _ and - being spaces) or one has
// none. If chunks disagree about the type of a name, most chunks win, then the
// first, with a warning; but a name that one chunk lists under two types stands
// for two things, and stays apart by type. An entity whose name is an alias of
// exactly one other of the same type is that one; an alias of several joins
// nothing, with a warning. The united entity has the first spelling of the
// name; other names become aliases; the aliases are united; the description is
// the first that is not empty; properties are the first value per key that is
// not null; mentions, moved to offsets of the document, are united and sorted.
// An entity without a name is united with none.
//
// The ends of relationships become the names of the united entities: an end is
// looked for among the names of its own part, its identifiers, the names of the
// other parts, then the aliases of either if only one entity has it. Other ends
// stay as they are. Statements with equal ends and type are one, and so are
// those that the vocabulary says to be the same; the first is kept, with the
// first description. An end that refers to nothing stays dangling, and such a
// statement is never united with another.
//
// A list is nil only if it is nil in every part. A single part is what the
// extractor said: mentions are moved, references resolved, exact repetitions
// removed, and nothing else, so that merging what is merged changes nothing.
// Otherwise identifiers are removed.
//
// Time O(n log n) in the size of the parts.
func Merge(parts []Part, v Vocabulary) (extraction.Extraction, []string) {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b Part) int { return cmp.Compare(a.Chunk.Start, b.Chunk.Start) })
	m := newMerger(ordered)
	if len(parts) != 1 {
		m.cluster()
		m.joinAliases()
	}
	merged := extraction.Extraction{Entities: m.entities(), Relationships: m.relationships(v)}
	return merged, m.warned()
}

// member is an entity of a part.
type member struct {
	part      int
	name, typ string // keys
	cluster   int
	*extraction.Entity
}

// cluster is a set of members that are one by name and type.
type cluster struct {
	name, typ string // keys
	members   []int
}

// merger unites the parts of one document.
type merger struct {
	parts    []Part
	keys     *keys
	members  []member // in order of appearance
	clusters []cluster
	parent   []int // of clusters, joined by aliases; a root is its own
	names    []string
	warnings []string
	silent   int // warnings that found no place
}

// newMerger lists the members of every part, each a cluster of its own.
func newMerger(parts []Part) *merger {
	m := &merger{parts: parts, keys: newKeys()}
	for i := range parts {
		entities := parts[i].Extraction.Entities
		for j := range entities {
			e := &entities[j]
			n := len(m.members)
			m.members = append(m.members, member{i, m.keys.name(e.Name), m.keys.typ(e.Type), n, e})
			m.addCluster(cluster{m.members[n].name, m.members[n].typ, []int{n}})
		}
	}
	return m
}

func (m *merger) addCluster(c cluster) {
	for _, i := range c.members {
		m.members[i].cluster = len(m.clusters)
	}
	m.parent = append(m.parent, len(m.clusters))
	m.clusters = append(m.clusters, c)
}

// root returns the cluster that stands for i and all that it was joined with:
// the one that appears first.
func (m *merger) root(i int) int {
	for m.parent[i] != i {
		m.parent[i] = m.parent[m.parent[i]]
		i = m.parent[i]
	}
	return i
}

func (m *merger) warn(format string, args ...any) {
	if len(m.warnings) == maxWarnings {
		m.silent++
		return
	}
	m.warnings = append(m.warnings, fmt.Sprintf(format, args...))
}

func (m *merger) warned() []string {
	if m.silent > 0 {
		return append(m.warnings, fmt.Sprintf("and %d more warnings of merging chunks", m.silent))
	}
	return m.warnings
}

// quoted returns a name for a message, cut where it is long.
func quoted(name string) string {
	const longest = 80
	if runes := []rune(name); len(runes) > longest {
		name = string(runes[:longest]) + "…"
	}
	return fmt.Sprintf("%q", name)
}
