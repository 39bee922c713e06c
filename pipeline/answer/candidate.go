package answer

import (
	"fmt"
	"slices"
	"strings"
)

// maxWrapped is how many objects may stand around the lists:
// {"result": {"extraction": {"entities": …}}}.
const maxWrapped = 4

// maxNamed bounds how many keys and units a message names.
const maxNamed = 5

// list is one of the two lists of an answer.
type list struct {
	name  string
	found *value
}

// units returns the entities or relationships that were read to their end.
func (l *list) units() []value {
	if l.found == nil || l.found.kind != '[' {
		return nil
	}
	units := l.found.inner
	if n := len(units); n > 0 && !units[n-1].whole {
		return units[:n-1]
	}
	return units
}

func (l *list) closed() bool { return l.found != nil && l.found.whole }

// candidate is one JSON value of the text, which may be the answer.
type candidate struct {
	top           value
	json          string // the values, as strict JSON
	start, end    int    // in the text; end is where reading stopped
	entities      list
	relationships list
	bare          bool // a list of entities or relationships without an object around it
	wrapped       bool // a list whose first element has the lists
	err           error
	other         string // a key that nobody asked for with a list of objects
	repaired      bool   // the text is no JSON as it stands
	problems      []string
	warnings      []string
}

func (c *candidate) recognised() bool { return c.entities.found != nil || c.relationships.found != nil }
func (c *candidate) cut() bool        { return c.err == errCut }
func (c *candidate) units() int       { return len(c.entities.units()) + len(c.relationships.units()) }

// read reads the value that begins at start with a bracket.
func read(text string, start int) *candidate {
	c := &candidate{start: start, entities: list{name: "entities"}, relationships: list{name: "relationships"}}
	s := &scanner{text: text, pos: start}
	c.top, c.err = s.value(0, keptObjects+keptInList)
	c.end, c.json, c.repaired = s.pos, string(s.out), s.repaired
	if c.top.kind == '{' {
		c.object(c.top, 0)
	} else if c.top.holdsObjects() {
		c.bareList()
	}
	return c
}

func (v value) holdsObjects() bool {
	return v.kind == '[' && len(v.inner) > 0 && v.inner[0].kind == '{'
}

// object looks for the lists in an object, and in the objects in it.
func (c *candidate) object(o value, depth int) {
	for i := range o.inner {
		member := &o.inner[i]
		key := c.json[member.keyStart:member.keyEnd]
		l := c.list(key)
		if l != nil && l.found != nil {
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", l.name))
			l = nil
		} else if l == nil && member.holdsObjects() {
			c.other = shown(`"` + key + `"`)
		}
		switch {
		case l != nil && (member.kind == '[' || depth == 0 && member.whole):
			l.found = member
		case depth < maxWrapped && member.kind == '{':
			c.object(*member, depth+1)
		}
	}
}

// bareList takes a list as one of entities or of relationships, which the fields
// of its first element tell.
func (c *candidate) bareList() {
	_, known, _ := c.spell(c.top.inner[0])
	c.wrapped = has(known, "entities", "relationships")
	switch {
	case has(known, anySource...) || has(known, anyTarget...):
		c.relationships.found, c.bare = &c.top, true
	case has(known, "name"):
		c.entities.found, c.bare = &c.top, true
	}
}

// warn remembers a warning, once.
func (c *candidate) warn(warning string) {
	if !slices.Contains(c.warnings, warning) {
		c.warnings = append(c.warnings, warning)
	}
}

func (c *candidate) list(key string) *list {
	switch field(key) {
	case "entities":
		return &c.entities
	case "relationships":
		return &c.relationships
	}
	return nil
}

// extraction returns the two lists in the form that extractions have.
func (c *candidate) extraction() []byte {
	raw := []byte{'{'}
	for _, l := range []*list{&c.entities, &c.relationships} {
		if l.found == nil {
			continue
		}
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = fmt.Appendf(raw, "%q:", l.name)
		if l.found.kind != '[' {
			raw = append(raw, c.json[l.found.start:l.found.end]...)
			continue
		}
		raw = append(raw, '[')
		if len(l.units()) > MaxListed {
			c.problems = append(c.problems, fmt.Sprintf("the answer lists more than %d %s", MaxListed, l.name))
			return nil
		}
		for i, unit := range l.units() {
			if i > 0 {
				raw = append(raw, ',')
			}
			raw = c.unit(raw, l, i, unit)
		}
		raw = append(raw, ']')
	}
	return append(raw, '}')
}

// unit appends an entity or a relationship, and names one whose fields are not
// those that were asked for: in another language, or of another form.
func (c *candidate) unit(raw []byte, l *list, i int, unit value) []byte {
	if unit.kind != '{' {
		return append(raw, c.json[unit.start:unit.end]...)
	}
	keys, known, unknown := c.spell(unit)
	complete, names := has(known, "name"), `"name" and "type"`
	if l == &c.relationships {
		complete = has(known, anySource...) && has(known, anyTarget...) && has(known, "relationship_type", "type")
		names = `"source_name", "target_name" and "relationship_type"`
	}
	if len(unknown) > 0 && !complete && len(c.problems) < maxNamed {
		c.problems = append(c.problems, fmt.Sprintf("%s[%d] has the fields %s: its field names must be %s, in English and spelled so",
			l.name, i, strings.Join(unknown, ", "), names))
	}
	if keys == nil {
		return append(raw, c.json[unit.start:unit.end]...)
	}
	c.repaired = true
	raw = append(raw, '{')
	for i, member := range unit.inner {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(append(append(raw, '"'), keys[i]...), `":`...)
		raw = append(raw, c.json[member.start:member.end]...)
	}
	return append(raw, '}')
}

// spell returns the keys of a unit as extractions spell them, nil if they are so
// already; unknown keys, and a second spelling of one that was there, stay as
// they are. It also returns which fields it has, and some keys that are none.
func (c *candidate) spell(unit value) (keys, known, unknown []string) {
	changed := false
	for _, member := range unit.inner {
		key := c.json[member.keyStart:member.keyEnd]
		name := field(key)
		switch {
		case name == "":
			if len(unknown) < maxNamed {
				unknown = append(unknown, shown(`"`+key+`"`))
			}
		case !has(known, name):
			known = append(known, name)
			changed = changed || key != name
			key = name
		}
		keys = append(keys, key)
	}
	if !changed {
		keys = nil
	}
	return keys, known, unknown
}

var (
	anySource = []string{"source_name", "source", "source_ref"}
	anyTarget = []string{"target_name", "target", "target_ref"}
)

func has(known []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// fieldNames are the keys of extractions, by their letters without separators.
var fieldNames = map[string]string{
	"entities": "entities", "relationships": "relationships", "relations": "relationships",
	"name": "name", "entityname": "name", "type": "type", "entitytype": "type",
	"sourcename": "source_name", "source": "source", "sourceref": "source_ref",
	"targetname": "target_name", "target": "target", "targetref": "target_ref",
	"relationshiptype": "relationship_type", "relationtype": "relationship_type",
	"id": "id", "tempid": "temp_id", "description": "description", "aliases": "aliases",
	"properties": "properties", "mentions": "mentions",
}

// field returns how a key is spelled that differs in case and separators only
// ("sourceName", "Source-Name"); "" for a key that extractions do not have.
func field(key string) string {
	var folded [32]byte
	n := 0
	for i := range len(key) {
		c := key[i]
		if c == '_' || c == '-' || c == ' ' {
			continue
		}
		if n == len(folded) {
			return ""
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded[n] = c
		n++
	}
	return fieldNames[string(folded[:n])]
}
