package answer

import "strings"

// bareList reads a list that may be one of entities or of relationships, which
// the fields of its first element tell.
func (c *candidate) bareList(s *scanner) error {
	c.objects = s.opensObjects()
	ahead := *s
	kind := &c.entities
	if c.objects {
		kind = c.kindOf(ahead)
	}
	c.bare = c.objects && kind != nil
	if !c.bare {
		kind = &list{name: "list"}
	}
	kind.found = c.bare
	err := c.readUnits(s, kind, 0)
	c.begun = kind.count > 0
	if !c.bare {
		c.problems = nil
		c.entities, c.relationships = list{name: "entities"}, list{name: "relationships"}
	}
	return err
}

// kindOf reads the first element of a list ahead, which may be broken or cut:
// nil where it is neither an entity nor a relationship.
func (c *candidate) kindOf(s scanner) *list {
	s.pos++
	set, _ := s.unit(1)
	c.keys = s.unknown
	c.wrapped = set&(fieldEntities|fieldRelationships) != 0
	switch {
	case set&(anySource|anyTarget) != 0:
		return &c.relationships
	case set&fieldName != 0:
		return &c.entities
	}
	return nil
}

// opensObjects reports whether the list that begins here has an object first.
func (s *scanner) opensObjects() bool {
	ahead := scanner{text: s.text, pos: s.pos + 1}
	return ahead.startsWith("{")
}

// inner reports whether a list without an object around it stands behind a key,
// or before more of an object: then it is a part of something that was not
// understood.
func (c *candidate) inner(text string) bool {
	const space = " \t\r\n"
	before := strings.TrimRight(text[:c.start], space)
	if key, colon := strings.CutSuffix(before, ":"); colon {
		key = strings.TrimRight(key, space)
		if strings.HasSuffix(key, `"`) || strings.HasSuffix(key, "'") {
			return true
		}
	}
	after := strings.TrimLeft(text[c.end:], space)
	if rest, comma := strings.CutPrefix(after, ","); comma {
		rest = strings.TrimLeft(rest, space)
		return strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, "'")
	}
	return strings.HasPrefix(after, "}")
}
