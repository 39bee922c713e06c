package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// maxWrapped is how many objects may be around the lists:
// {"result": {"extraction": {"entities": …}}}.
const maxWrapped = 4

// maxNamed bounds how many keys and units a message names.
const maxNamed = 5

// listNames are the two lists of an answer.
var listNames = []string{"entities", "relationships"}

// candidate is one JSON value of the text, which may be the answer.
type candidate struct {
	start, end int // in the text; end is where reading stopped
	// lists are those of the answer as strict JSON, by name; what an object has in
	// place of one too.
	lists    map[string]json.RawMessage
	open     bool // a list may go on after the end
	bare     bool // a list of entities or relationships without an object around it
	wrapped  bool // a list whose first element has the lists
	err      error
	other    string // a key that nobody asked for with a list of objects
	repaired bool   // the text is not JSON as it stands
	problems []string
	warnings []string
}

func (c *candidate) recognised() bool { return len(c.lists) > 0 }
func (c *candidate) cut() bool        { return c.err == errCut }

// closed reports whether both lists were read to their end.
func (c *candidate) closed() bool { return !c.open && len(c.lists) == len(listNames) }

// filled reports whether there is an entity or a relationship.
func (c *candidate) filled() bool {
	return slices.ContainsFunc(listNames, func(name string) bool { return len(c.lists[name]) > len("[]") && c.lists[name][0] == '[' })
}

// read reads the value that begins at start with a bracket.
func read(text string, start int) *candidate {
	s := &scanner{text: text, pos: start}
	c := &candidate{start: start, lists: map[string]json.RawMessage{}, err: s.value()}
	c.end, c.repaired = s.pos, s.repaired
	c.open = c.err != nil && bytes.IndexByte(s.open[:s.within], ']') >= 0
	raw := s.json()
	if raw[0] == '{' {
		c.object(raw, 0)
	} else if holdsObjects(raw) {
		c.bareList(raw)
	}
	return c
}

func holdsObjects(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("[{")) }

// object looks for the lists in an object, and in the objects in it.
func (c *candidate) object(raw json.RawMessage, depth int) {
	for key, value := range textutil.JSONMembers(raw) {
		name := field(key)
		asked := slices.Contains(listNames, name)
		switch {
		case asked && c.lists[name] != nil:
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", name))
		case asked && (value[0] == '[' || depth == 0 && (c.err == nil || value[0] != '{')): // which may be cut
			c.lists[name] = value
		case !asked && holdsObjects(value):
			c.other = shown(`"` + key + `"`)
		case depth < maxWrapped && value[0] == '{':
			c.object(value, depth+1)
		}
	}
}

// bareList takes a list as one of entities or of relationships, which the fields
// of its first element tell.
func (c *candidate) bareList(raw json.RawMessage) {
	var known []string
	for first := range textutil.JSONElements(raw) {
		_, known, _ = c.spell(nil, first)
		break
	}
	c.wrapped = has(known, listNames...)
	switch {
	case has(known, anySource...) || has(known, anyTarget...):
		c.lists["relationships"], c.bare = raw, true
	case has(known, "name"):
		c.lists["entities"], c.bare = raw, true
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
		list := c.lists[name]
		switch {
		case list == nil:
		case list[0] != '[':
			raw = fmt.Appendf(comma(raw), "%q:%s", name, list)
		default:
			raw = fmt.Appendf(comma(raw), "%q:[", name)
			n := 0
			for unit := range textutil.JSONElements(list) {
				raw = c.unit(comma(raw), name, n, unit)
				n++
			}
			if raw = append(raw, ']'); n > maxListed {
				c.problems = append(c.problems, fmt.Sprintf("the answer lists more than %d %s", maxListed, name))
			}
		}
	}
	return append(raw, '}')
}

// comma appends a comma after a value.
func comma(raw []byte) []byte {
	if last := raw[len(raw)-1]; last == '{' || last == '[' {
		return raw
	}
	return append(raw, ',')
}

// unit appends an entity or a relationship, and names one whose fields are not
// those that were asked for: in another language, or of another form.
func (c *candidate) unit(raw []byte, list string, i int, unit json.RawMessage) []byte {
	if unit[0] != '{' {
		return append(raw, unit...)
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
func (c *candidate) spell(raw []byte, unit json.RawMessage) (spelled []byte, known, unknown []string) {
	raw = append(raw, '{')
	for key, value := range textutil.RawJSONMembers(unit) {
		given := textutil.JSONTextIn(key)
		name := field(given)
		switch {
		case name == "":
			if len(unknown) < maxNamed {
				unknown = append(unknown, shown(string(key)))
			}
		case !has(known, name):
			known = append(known, name)
			if given != name {
				c.repaired, key = true, fmt.Appendf(nil, "%q", name)
			}
		}
		raw = append(append(append(comma(raw), key...), ':'), value...)
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
