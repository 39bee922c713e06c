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

// list is one of the two lists of an answer, as strict JSON.
type list struct {
	name   string
	raw    []byte // the complete units with commas between; another value as it is
	count  int
	found  bool
	closed bool // the list was read to its end, or is another value
	other  bool // not a list
}

// json returns the list as a value.
func (l *list) json() []byte {
	if l.other {
		return l.raw
	}
	return append(append([]byte{'['}, l.raw...), ']')
}

// candidate is one JSON value of the text, which may be the answer.
type candidate struct {
	start, end    int // end is where reading stopped
	entities      list
	relationships list
	bare          bool // a list of entities or relationships without an object around it
	begun         bool // at least one member or element was complete
	objects       bool // a list whose first element is an object
	wrapped       bool // a list whose first element has the lists
	err           error
	keys          []string // the keys of the outermost object, some
	lists         []string // keys that nobody asked for with lists of objects, some
	problems      []string
	warnings      []string
	repairs       []string
}

func (c *candidate) recognised() bool { return c.entities.found || c.relationships.found }
func (c *candidate) cut() bool        { return c.err == errCut }
func (c *candidate) units() int       { return c.entities.count + c.relationships.count }

// read reads the value that begins at start with a bracket.
func read(text string, start int) *candidate {
	c := &candidate{start: start, entities: list{name: "entities"}, relationships: list{name: "relationships"}}
	s := &scanner{text: text, pos: start}
	if text[start] == '{' {
		c.err = c.object(s, 0)
	} else {
		c.err = c.bareList(s)
	}
	c.end, c.repairs = s.pos, s.repairs
	return c
}

// object looks for the lists in an object, and in the objects in it.
func (c *candidate) object(s *scanner, depth int) error {
	return s.members(depth, func(key []byte) error {
		_, set := field(key[1 : len(key)-1])
		if depth == 0 && len(c.keys) < maxNamed {
			c.keys = append(c.keys, shown(string(key)))
		}
		l := c.list(set)
		if l == nil && len(c.lists) < maxNamed && s.startsWith("[") && s.opensObjects() {
			c.lists = append(c.lists, shown(string(key)))
		}
		if l != nil && l.found {
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", l.name))
			l = nil
		}
		err := c.member(s, depth, l)
		c.begun = c.begun || err == nil
		return err
	})
}

// warn remembers a warning, once.
func (c *candidate) warn(warning string) {
	if !slices.Contains(c.warnings, warning) {
		c.warnings = append(c.warnings, warning)
	}
}

func (c *candidate) list(set fields) *list {
	switch set {
	case fieldEntities:
		return &c.entities
	case fieldRelationships:
		return &c.relationships
	}
	return nil
}

// member reads the value of a key; l is the list that the key names, or nil.
func (c *candidate) member(s *scanner, depth int, l *list) error {
	isList := s.startsWith("[")
	switch {
	case l != nil && isList:
		l.found = true
		return c.readUnits(s, l, depth+1)
	case l != nil && depth == 0:
		err := s.value(depth + 1)
		if err == nil {
			l.found, l.closed, l.other = true, true, true
			l.raw = s.out
		}
		s.out = nil
		return err
	case depth < maxWrapped && s.startsWith("{"):
		return c.object(s, depth+1)
	}
	err := s.value(depth + 1)
	s.out = s.out[:0]
	return err
}

// readUnits reads the units of a list. What is kept when the text ends, or is
// broken, are the complete ones.
func (c *candidate) readUnits(s *scanner, l *list, depth int) error {
	s.out = nil
	err := s.elements(depth, func() error {
		mark := len(s.out)
		if l.count > 0 {
			s.out = append(s.out, ',')
		}
		set, err := s.unit(depth + 1)
		if err == nil && l.count == MaxListed {
			err = s.fail("the answer lists more than %d %s", MaxListed, l.name)
		}
		if err != nil {
			s.out = s.out[:mark]
			return err
		}
		c.judge(l, set, s.unknown)
		l.count++
		return nil
	})
	l.raw, l.closed = s.out, err == nil
	s.out = nil
	return err
}

// judge names a unit whose fields are not those that were asked for: in another
// language, or of another form.
func (c *candidate) judge(l *list, set fields, unknown []string) {
	complete, names := set&fieldName != 0, `"name" and "type"`
	if l == &c.relationships {
		complete = set&anySource != 0 && set&anyTarget != 0 && set&(fieldRelationshipType|fieldType) != 0
		names = `"source_name", "target_name" and "relationship_type"`
	}
	if len(unknown) == 0 || complete || len(c.problems) >= maxNamed {
		return
	}
	c.problems = append(c.problems, fmt.Sprintf("%s[%d] has the fields %s: its field names must be %s, in English and spelled so",
		l.name, l.count, strings.Join(unknown, ", "), names))
}
