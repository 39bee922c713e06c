package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// maxNesting is how many objects may surround the lists: {"result": {"extraction": {"entities":
// …}}}.
const maxNesting = 4

// maxMessageItems is the most keys and units that the problems name.
const maxMessageItems = 5

// listNames are the keys of the two lists of an answer.
var listNames = []string{"entities", "relationships"}

// candidate is a JSON value in the text that may be the answer.
type candidate struct {
	start, end int // in the text; reading stopped at end
	// lists holds the lists of the answer by key, as strict JSON. A value that an object has
	// instead of a list is in it too.
	lists        map[string]json.RawMessage
	listOpen     bool // a list may continue after the end
	bareList     bool // a list of entities or relationships without a surrounding object
	answerInList bool // a list whose first element has the lists
	err          error
	unknownList  string // an unknown key with a list of objects
	respelled    bool   // a key has another spelling
	problems     []string
	warnings     []string
}

func (c *candidate) isCut() bool { return c.err == errCut }

// hasUnits reports whether a list has an element.
func (c *candidate) hasUnits() bool {
	return slices.ContainsFunc(listNames, func(name string) bool { return len(c.lists[name]) > len("[]") && c.lists[name][0] == '[' })
}

// readCandidate reads the value whose opening bracket is at start.
func readCandidate(text string, start int) *candidate {
	s := &scanner{text: text, pos: start}
	c := &candidate{start: start, lists: map[string]json.RawMessage{}, err: s.value()}
	c.end = s.pos
	c.listOpen = c.err != nil && bytes.IndexByte(s.closers[:s.completeDepth], ']') >= 0
	raw := s.completeJSON()
	if raw[0] == '{' {
		c.findLists(raw, 0)
	} else if holdsObjects(raw) {
		c.readBareList(raw)
	}
	return c
}

func holdsObjects(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("[{")) }

// findLists finds the lists in an object and in the objects inside it.
func (c *candidate) findLists(raw json.RawMessage, depth int) {
	for key, value := range textutil.JSONMembers(raw) {
		name := fieldName(key)
		isList := slices.Contains(listNames, name)
		switch {
		case isList && c.lists[name] != nil:
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", name))
		case isList && (value[0] == '[' || depth == 0 && (c.err == nil || value[0] != '{')): // the value may be cut
			c.lists[name] = value
		case !isList && holdsObjects(value):
			c.unknownList = brief(`"` + key + `"`)
		case depth < maxNesting && value[0] == '{':
			c.findLists(value, depth+1)
		}
	}
}

// readBareList reads a list as entities or as relationships, depending on the fields of its
// first element.
func (c *candidate) readBareList(raw json.RawMessage) {
	var known []string
	for first := range textutil.JSONElements(raw) {
		_, known, _ = c.appendSpelled(nil, first)
		break
	}
	c.answerInList = containsAny(known, listNames...)
	switch {
	case containsAny(known, anySource...) || containsAny(known, anyTarget...):
		c.lists["relationships"], c.bareList = raw, true
	case containsAny(known, "name"):
		c.lists["entities"], c.bareList = raw, true
	}
}

// warn adds a warning once.
func (c *candidate) warn(warning string) {
	if !slices.Contains(c.warnings, warning) {
		c.warnings = append(c.warnings, warning)
	}
}

// extractionJSON returns the two lists in the form that extraction.DecodeExtraction reads.
func (c *candidate) extractionJSON() []byte {
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, name := range listNames {
		list := c.lists[name]
		if len(list) == 0 || list[0] != '[' {
			w.Raw(name, list)
			continue
		}
		w.Name(name)
		w.B = append(w.B, '[')
		n := 0
		for unit := range textutil.JSONElements(list) {
			if n > 0 {
				w.B = append(w.B, ',')
			}
			w.B = c.appendUnit(w.B, name, n, unit)
			n++
		}
		if w.B = append(w.B, ']'); n > maxListed {
			c.problems = append(c.problems, fmt.Sprintf("the answer lists more than %d %s", maxListed, name))
		}
	}
	w.Close()
	return w.B
}

// appendUnit appends an entity or a relationship. A unit with unknown fields and without the
// required ones is a problem: its field names may be in another language or of another form.
func (c *candidate) appendUnit(raw []byte, list string, i int, unit json.RawMessage) []byte {
	if unit[0] != '{' {
		return append(raw, unit...)
	}
	raw, known, unknown := c.appendSpelled(raw, unit)
	complete, names := containsAny(known, "name"), `"name" and "type"`
	if list == "relationships" {
		complete = containsAny(known, anySource...) && containsAny(known, anyTarget...) && containsAny(known, "relationship_type", "type")
		names = `"source_name", "target_name" and "relationship_type"`
	}
	if len(unknown) > 0 && !complete && len(c.problems) < maxMessageItems {
		c.problems = append(c.problems, fmt.Sprintf("%s[%d] has the fields %s: its field names must be %s, in English and spelled so",
			list, i, strings.Join(unknown, ", "), names))
	}
	return raw
}

// appendSpelled appends a unit with its keys in the spelling of extractions. Unknown keys, and
// a second spelling of an earlier key, stay unchanged. It also returns the known fields of the
// unit, and some of its unknown keys.
func (c *candidate) appendSpelled(raw []byte, unit json.RawMessage) (spelled []byte, known, unknown []string) {
	w := textutil.JSONWriter{B: append(raw, '{')}
	for rawKey, value := range textutil.RawJSONMembers(unit) {
		key := textutil.UnsafeJSONText(rawKey)
		name := fieldName(key)
		switch {
		case name == "":
			if len(unknown) < maxMessageItems {
				unknown = append(unknown, brief(string(rawKey)))
			}
		case !containsAny(known, name):
			known = append(known, name)
			if key != name {
				c.respelled, key = true, name
			}
		}
		w.Raw(key, value)
	}
	w.Close()
	return w.B, known, unknown
}

var (
	anySource = []string{"source_name", "source", "source_ref"}
	anyTarget = []string{"target_name", "target", "target_ref"}
)

func containsAny(known []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// fieldNames maps the letters of a key to the key of extractions.
var fieldNames = map[string]string{
	"entities": "entities", "relationships": "relationships", "relations": "relationships",
	"name": "name", "entityname": "name", "type": "type", "entitytype": "type",
	"sourcename": "source_name", "source": "source", "sourceref": "source_ref",
	"targetname": "target_name", "target": "target", "targetref": "target_ref",
	"relationshiptype": "relationship_type", "relationtype": "relationship_type",
	"id": "id", "tempid": "temp_id", "description": "description", "aliases": "aliases",
	"properties": "properties", "mentions": "mentions",
}

// fieldName returns the key of extractions that a key equals except for case and separators
// ("sourceName", "Source-Name"), or "".
func fieldName(key string) string { return fieldNames[foldType(key)] }
