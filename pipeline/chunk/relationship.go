package chunk

import (
	"extraction-experiment/extraction"
)

// statement is a relationship in the form in which it is compared.
type statement struct{ source, typ, target string }

// relationships returns every statement once, its ends spelled as the united
// entities are.
func (m *merger) relationships(v Vocabulary) []extraction.Relationship {
	ends := m.newEnds()
	swaps := v.swaps(m.keys)
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

// ends finds the entities that the ends of relationships name. A cluster of -1
// stands for several that are not one.
type ends struct {
	m       *merger
	ids     map[inPart]int
	own     map[inPart]int // names of the part
	names   map[string]int
	aliases map[inPart]int // of the part; part -1 is the document
}

func (m *merger) newEnds() *ends {
	e := &ends{m, map[inPart]int{}, map[inPart]int{}, map[string]int{}, map[inPart]int{}}
	for _, member := range m.members {
		root := m.root(member.cluster)
		if member.ID != "" {
			setFirst(e.ids, inPart{member.part, member.ID}, member.cluster)
		}
		if member.name == "" {
			continue
		}
		setFirst(e.own, inPart{member.part, member.name}, member.cluster)
		setFirst(e.names, member.name, member.cluster)
		for _, alias := range member.Aliases {
			key := m.keys.name(alias)
			for _, part := range []int{member.part, -1} {
				owner := root
				if at, taken := e.aliases[inPart{part, key}]; taken && at != root {
					owner = -1
				}
				e.aliases[inPart{part, key}] = owner
			}
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
	if c, ok := e.names[key]; ok {
		return c, true
	}
	for _, at := range []int{part, -1} {
		if c, ok := e.aliases[inPart{at, key}]; ok && c >= 0 {
			return c, true
		}
	}
	return 0, false
}
