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

// mergeChunks unites what was extracted from the chunks of one document. Parts are
// taken in the order of their chunks' Start, whatever order they come in; the
// result is in the order of first appearance. It changes nothing of its input.
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
// The ends of relationships become the names of the united entities: an end is
// looked for among the names of its own part, its identifiers, and the names of the
// other parts. Other ends stay as they are. Statements with equal ends and type are one, and so are
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
func mergeChunks(parts []chunkFound, v Vocabulary) (extraction.Extraction, []string) {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b chunkFound) int { return cmp.Compare(a.chunk.Start, b.chunk.Start) })
	m := newMerger(ordered)
	if len(parts) != 1 {
		m.cluster()
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
	parts    []chunkFound
	keys     *keys
	members  []member // in order of appearance
	clusters []cluster
	names    []string
	warnings []string
	silent   int // warnings that found no place
}

// newMerger lists the members of every part, each a cluster of its own.
func newMerger(parts []chunkFound) *merger {
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
	m.clusters = append(m.clusters, c)
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

// entities returns one entity for each cluster and sets the names of all clusters.
func (m *merger) entities() []extraction.Entity {
	var entities []extraction.Entity
	for _, p := range m.parts {
		if p.Extraction.Entities != nil {
			entities = []extraction.Entity{}
		}
	}
	m.names = make([]string, len(m.clusters))
	for i, c := range m.clusters {
		m.names[i] = m.members[c.members[0]].Name
	}
	seen := map[string]bool{}
	for i, e := range m.members {
		c := m.clusters[e.cluster]
		if c.members[0] != i {
			continue
		}
		united := m.unite(c)
		if key := everything(united); !seen[key] {
			seen[key] = true
			entities = append(entities, united)
		}
	}
	return entities
}

// unite makes one entity of the members of a cluster, in order of appearance.
func (m *merger) unite(c cluster) extraction.Entity {
	e := *m.members[c.members[0]].Entity
	e.Aliases = slices.Clone(e.Aliases)
	e.Mentions = m.mentions(c.members)
	if len(m.parts) > 1 {
		e.ID = ""
	}
	if len(c.members) == 1 {
		return e
	}
	e.Type, e.Aliases = "", nil
	seen := map[string]bool{c.name: true}
	for _, i := range c.members {
		other := m.members[i]
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
			if key := m.keys.name(alias); key != "" && !seen[key] {
				seen[key] = true
				e.Aliases = append(e.Aliases, alias)
			}
		}
	}
	return e
}

// mentions moves mentions to offsets of the document. A mention without usable
// offsets keeps its quote only. Those of a single member keep their order.
func (m *merger) mentions(members []int) []extraction.Span {
	var spans []extraction.Span
	for _, i := range members {
		e := m.members[i]
		for _, s := range e.Mentions {
			if s.Start < 0 || s.End <= s.Start {
				s.Start, s.End = 0, 0
			} else {
				s.Start += m.parts[e.part].chunk.Start
				s.End += m.parts[e.part].chunk.Start
			}
			spans = append(spans, s)
		}
	}
	if len(members) > 1 {
		slices.SortFunc(spans, func(a, b extraction.Span) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Quote, b.Quote))
		})
		spans = slices.Compact(spans)
	}
	return spans
}

// everything spells all that is said of an entity, its identifier apart.
func everything(e extraction.Entity) string {
	e.ID = ""
	return fmt.Sprintf("%q %q %q %q %q %#v", e.Name, e.Type, e.Description, e.Aliases, e.Properties, e.Mentions)
}

// statement is a relationship in the form in which it is compared.
type statement struct{ source, typ, target string }

// relationships returns every statement once, its ends spelled as the united
// entities are.
func (m *merger) relationships(v Vocabulary) []extraction.Relationship {
	ends := m.newEnds()
	var swaps map[string][]string
	if len(m.parts) > 1 {
		swaps = v.swaps(m.keys)
	}
	var out []extraction.Relationship
	at := map[statement]int{}
	exact := map[extraction.Relationship]bool{}
	for i, p := range m.parts {
		if p.Extraction.Relationships != nil && out == nil {
			out = []extraction.Relationship{}
		}
		for _, r := range p.Extraction.Relationships {
			r.Source, r.SourceRef = ends.resolve(i, r.Source, r.SourceRef)
			r.Target, r.TargetRef = ends.resolve(i, r.Target, r.TargetRef)
			switch {
			case r.Dangling():
			case len(m.parts) == 1:
				if exact[r] {
					continue
				}
				exact[r] = true
			default:
				s := statement{m.keys.name(r.Source), m.keys.typ(r.Type), m.keys.name(r.Target)}
				if first, known := find(at, s, swaps); known {
					if out[first].Description == "" {
						out[first].Description = r.Description
					}
					continue
				}
				at[s] = len(out)
			}
			out = append(out, r)
		}
	}
	return out
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

// inPart is a key of one part.
type inPart struct {
	part int
	key  string
}

// ends finds the entities that the ends of relationships name.
// stands for several that are not one.
type ends struct {
	m     *merger
	ids   map[inPart]int
	own   map[inPart]int // names of the part
	names map[string]int
}

func (m *merger) newEnds() *ends {
	e := &ends{m, map[inPart]int{}, map[inPart]int{}, map[string]int{}}
	for _, member := range m.members {
		if member.ID != "" {
			setFirst(e.ids, inPart{member.part, member.ID}, member.cluster)
		}
		if member.name != "" {
			setFirst(e.own, inPart{member.part, member.name}, member.cluster)
			setFirst(e.names, member.name, member.cluster)
		}
	}
	return e
}

func setFirst[K comparable](m map[K]int, key K, value int) {
	if _, taken := m[key]; !taken {
		m[key] = value
	}
}

// resolve returns the name and the unresolved reference of an end.
func (e *ends) resolve(part int, name, ref string) (string, string) {
	if name == "" {
		if c, ok := e.ids[inPart{part, ref}]; ok && e.m.clusters[c].name != "" {
			return e.m.names[c], ""
		}
		return name, ref
	}
	if c, ok := e.find(part, name); ok {
		return e.m.names[c], ref
	}
	return name, ref
}

// find returns the cluster that a name stands for. With a single part names
// stay as they are written, and only identifiers are resolved.
func (e *ends) find(part int, name string) (int, bool) {
	key := e.m.keys.name(name)
	single := len(e.m.parts) == 1
	if c, ok := e.own[inPart{part, key}]; ok {
		return c, !single
	}
	if c, ok := e.ids[inPart{part, name}]; ok && e.m.clusters[c].name != "" {
		return c, true
	}
	if single || key == "" {
		return 0, false
	}
	c, ok := e.names[key]
	return c, ok
}

// keys brings names into the form in which they are compared, each once. Not
// safe for concurrent use; each merge has its own.
type keys struct{ seen map[string]string }

func newKeys() *keys { return &keys{seen: map[string]string{}} }

// name returns textutil.FoldName, remembered.
func (k *keys) name(s string) string {
	key, ok := k.seen[s]
	if !ok {
		key = textutil.FoldName(s)
		k.seen[s] = key
	}
	return key
}

// typ returns a type in the form in which it is compared.
func (k *keys) typ(s string) string { return textutil.FoldType(s) }

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
func (v Vocabulary) swaps(k *keys) map[string][]string {
	swaps := map[string][]string{}
	for _, pair := range v.Inverse {
		a, b := k.typ(pair[0]), k.typ(pair[1])
		swaps[a] = append(swaps[a], b)
		if a != b {
			swaps[b] = append(swaps[b], a)
		}
	}
	for _, t := range v.Symmetric {
		key := k.typ(t)
		swaps[key] = append(swaps[key], key)
	}
	return swaps
}

// cluster gathers members of equal names and compatible types.
func (m *merger) cluster() {
	m.clusters = nil
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
