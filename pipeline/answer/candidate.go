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

// listNames are the two lists of an answer.
var listNames = []string{"entities", "relationships"}

// candidate is one JSON value of the text, which may be the answer.
type candidate struct {
	top        value
	json       string            // the values, as strict JSON
	start, end int               // in the text; end is where reading stopped
	lists      map[string]*value // by name; what an object has in place of one too
	bare       bool              // a list of entities or relationships without an object around it
	wrapped    bool              // a list whose first element has the lists
	err        error
	other      string // a key that nobody asked for with a list of objects
	repaired   bool   // the text is no JSON as it stands
	problems   []string
	warnings   []string
}

func (c *candidate) recognised() bool { return len(c.lists) > 0 }
func (c *candidate) cut() bool        { return c.err == errCut }
func (c *candidate) total() int       { return len(c.units("entities")) + len(c.units("relationships")) }

// closed reports whether both lists were read to their end.
func (c *candidate) closed() bool {
	return !slices.ContainsFunc(listNames, func(name string) bool { return c.lists[name] == nil || !c.lists[name].whole })
}

// units returns the entities or relationships that were read to their end.
func (c *candidate) units(name string) []value {
	list := c.lists[name]
	if list == nil || list.kind != '[' {
		return nil
	}
	if n := len(list.inner); n > 0 && !list.inner[n-1].whole {
		return list.inner[:n-1]
	}
	return list.inner
}

// read reads the value that begins at start with a bracket.
func read(text string, start int) *candidate {
	c := &candidate{start: start, lists: map[string]*value{}}
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
		name := field(key)
		asked := slices.Contains(listNames, name)
		switch {
		case asked && c.lists[name] != nil:
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", name))
		case asked && (member.kind == '[' || depth == 0 && member.whole):
			c.lists[name] = member
		case !asked && member.holdsObjects():
			c.other = shown(`"` + key + `"`)
		case depth < maxWrapped && member.kind == '{':
			c.object(*member, depth+1)
		}
	}
}

// bareList takes a list as one of entities or of relationships, which the fields
// of its first element tell.
func (c *candidate) bareList() {
	_, known, _ := c.spell(nil, c.top.inner[0])
	c.wrapped = has(known, listNames...)
	switch {
	case has(known, anySource...) || has(known, anyTarget...):
		c.lists["relationships"], c.bare = &c.top, true
	case has(known, "name"):
		c.lists["entities"], c.bare = &c.top, true
	}
}

// warn remembers a warning, once.
func (c *candidate) warn(warning string) {
	if !slices.Contains(c.warnings, warning) {
		c.warnings = append(c.warnings, warning)
	}
}

// extraction returns the two lists in the form that extractions have.
func (c *candidate) extraction() []byte {
	raw := []byte{'{'}
	for _, name := range listNames {
		list, units := c.lists[name], c.units(name)
		switch {
		case list == nil:
		case list.kind != '[':
			raw = fmt.Appendf(comma(raw), "%q:%s", name, c.json[list.start:list.end])
		case len(units) > MaxListed:
			c.problems = append(c.problems, fmt.Sprintf("the answer lists more than %d %s", MaxListed, name))
			return nil
		default:
			raw = fmt.Appendf(comma(raw), "%q:[", name)
			for i, unit := range units {
				raw = c.unit(comma(raw), name, i, unit)
			}
			raw = append(raw, ']')
		}
	}
	return append(raw, '}')
}

// comma appends a comma behind a value.
func comma(raw []byte) []byte {
	if last := raw[len(raw)-1]; last == '{' || last == '[' {
		return raw
	}
	return append(raw, ',')
}

// unit appends an entity or a relationship, and names one whose fields are not
// those that were asked for: in another language, or of another form.
func (c *candidate) unit(raw []byte, list string, i int, unit value) []byte {
	if unit.kind != '{' {
		return append(raw, c.json[unit.start:unit.end]...)
	}
	raw, known, unknown := c.spell(raw, unit)
	complete, names := has(known, "name"), `"name" and "type"`
	if list == "relationships" {
		complete = has(known, anySource...) && has(known, anyTarget...) && has(known, "relationship_type", "type")
		names = `"source_name", "target_name" and "relationship_type"`
	}
	if len(unknown) > 0 && !complete && len(c.problems) < maxNamed {
		c.problems = append(c.problems, fmt.Sprintf("%s[%d] has the fields %s: its field names must be %s, in English and spelled so",
			list, i, strings.Join(unknown, ", "), names))
	}
	return raw
}

// spell appends a unit with its keys as extractions spell them; unknown keys, and
// a second spelling of one that was there, stay as they are. It also returns which
// fields it has, and some keys that are none.
func (c *candidate) spell(raw []byte, unit value) (spelled []byte, known, unknown []string) {
	raw = append(raw, '{')
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
			c.repaired = c.repaired || key != name
			key = name
		}
		raw = append(append(append(comma(raw), '"'), key...), `":`...)
		raw = append(raw, c.json[member.start:member.end]...)
	}
	return append(raw, '}'), known, unknown
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
func field(key string) string { return fieldNames[foldType(key)] }
