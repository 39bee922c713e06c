package chunk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
)

// entities returns one entity for each joined cluster and sets the names of all
// clusters.
func (m *merger) entities() []extraction.Entity {
	joined := map[int][]int{}
	for i, e := range m.members {
		r := m.root(e.cluster)
		joined[r] = append(joined[r], i)
	}
	var entities []extraction.Entity
	for _, p := range m.parts {
		if p.Extraction.Entities != nil {
			entities = []extraction.Entity{}
		}
	}
	m.names = make([]string, len(m.clusters))
	for i := range m.clusters {
		m.names[i] = m.members[joined[m.root(i)][0]].Name
	}
	seen := map[string]bool{}
	for i, e := range m.members {
		r := m.root(e.cluster)
		if joined[r][0] != i {
			continue
		}
		united := m.unite(joined[r], m.clusters[r].typ)
		if key := everything(united); !seen[key] {
			seen[key] = true
			entities = append(entities, united)
		}
	}
	return entities
}

// unite makes one entity of several, in order of appearance.
func (m *merger) unite(members []int, typ string) extraction.Entity {
	first := m.members[members[0]]
	e := *first.Entity
	e.Aliases = slices.Clone(e.Aliases)
	e.Mentions = m.mentions(members)
	if len(m.parts) > 1 {
		e.ID = ""
	}
	if len(members) == 1 {
		return e
	}
	e.Aliases = m.aliases(members, first.name)
	e.Properties = m.properties(members)
	e.Type = ""
	for _, i := range members {
		other := m.members[i]
		if e.Type == "" && other.typ == typ {
			e.Type = other.Type
		}
		if strings.TrimSpace(e.Description) == "" {
			e.Description = other.Description
		}
	}
	return e
}

// aliases returns every alias and other name once, in its first spelling.
func (m *merger) aliases(members []int, name string) []string {
	seen := map[string]bool{name: true}
	var aliases []string
	add := func(alias string) {
		if key := m.keys.name(alias); key != "" && !seen[key] {
			seen[key] = true
			aliases = append(aliases, alias)
		}
	}
	for _, i := range members {
		add(m.members[i].Name)
		for _, alias := range m.members[i].Aliases {
			add(alias)
		}
	}
	return aliases
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
				s.Start += m.parts[e.part].Chunk.Start
				s.End += m.parts[e.part].Chunk.Start
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

// properties returns the first value per key that is not null, keys sorted. If
// the first that are given are no object, they are kept as they are; later ones
// that are no object are left out.
func (m *merger) properties(members []int) json.RawMessage {
	var kept json.RawMessage
	var united map[string]json.RawMessage
	for _, i := range members {
		raw := m.members[i].Properties
		switch {
		case isNull(raw) || string(raw) == string(kept):
			continue
		case kept == nil:
			kept = raw
			continue
		}
		var more map[string]json.RawMessage
		if json.Unmarshal(raw, &more) != nil {
			continue
		}
		if united == nil && json.Unmarshal(kept, &united) != nil {
			return kept
		}
		for key, value := range more {
			if isNull(united[key]) {
				united[key] = value
			}
		}
	}
	if united == nil {
		return kept
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(united) != nil {
		return kept
	}
	return json.RawMessage(strings.TrimSpace(out.String()))
}

func isNull(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null"
}

// everything spells all that is said of an entity, its identifier apart.
func everything(e extraction.Entity) string {
	e.ID = ""
	return fmt.Sprintf("%q %q %q %q %q %#v", e.Name, e.Type, e.Description, e.Aliases, e.Properties, e.Mentions)
}
