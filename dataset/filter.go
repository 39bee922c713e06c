package dataset

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Filter selects items of a dataset. The zero value selects all.
type Filter struct {
	// Limit is the maximum number of items, in their order; 0 means no limit.
	Limit int

	ids        []string // sorted and unique; empty selects every id
	conditions []condition
}

// condition is one "path=value" or "path!=value".
type condition struct {
	path     string // "metadata.difficulty"
	operator string // = or !=
	value    string
}

// ParseFilter returns the Filter of conditions, all of which must hold:
//
//	metadata.difficulty=hard     the value at the path, as text
//	metadata.source.year!=2020   not that value, or no value
//	id=a-17                      one item; several ids mean any of them
//
// A path begins with metadata, input or expectedOutput (expected), followed by keys, separated
// by dots; a key may contain dots itself. The value is compared with a string as text, with a
// number by value (1.0 = 1), and with true, false or null; a list matches if one of its
// elements does. The error joins all problems and has the exit code of wrong usage.
func ParseFilter(expressions ...string) (Filter, error) {
	var f Filter
	var problems Problems
	for _, text := range expressions {
		c, err := parseCondition(text)
		switch {
		case err != nil:
			problems.Add(err)
		case c.path == "id" && c.operator == "=":
			f = f.WithIDs(c.value)
		default:
			f.conditions = append(f.conditions, c)
		}
	}
	return f, problems.Err()
}

func parseCondition(text string) (condition, error) {
	path, value, found := strings.Cut(text, "=")
	operator := "="
	if before, negated := strings.CutSuffix(path, "!"); negated {
		path, operator = before, "!="
	}
	c := condition{strings.TrimSpace(path), operator, strings.TrimSpace(value)}
	root, rest, _ := strings.Cut(c.path, ".")
	f := fields[root]
	isPath := rest != "" && (f == fieldMetadata || f == fieldInput || f == fieldExpected)
	if !found || !isPath && c.path != "id" || c.path == "id" && c.value == "" {
		return c, fmt.Errorf("filter %q: expected id=ID, or path=value with a path that begins with metadata., input. or "+
			"expectedOutput., such as metadata.difficulty=hard", text)
	}
	return c, nil
}

// WithIDs returns the filter with these ids added to those that it selects. Without ids it
// returns the same filter.
func (f Filter) WithIDs(ids ...string) Filter {
	f.ids = slices.Concat(f.ids, ids)
	slices.Sort(f.ids)
	f.ids = slices.Compact(f.ids)
	return f
}

// Match reports whether the filter selects the item, ignoring Limit. Values that are not JSON
// match nothing.
func (f Filter) Match(item Item) bool {
	if _, ok := slices.BinarySearch(f.ids, item.ID); !ok && len(f.ids) > 0 {
		return false
	}
	return !slices.ContainsFunc(f.conditions, func(c condition) bool { return c.holdsFor(item) != (c.operator == "=") })
}

func (c condition) holdsFor(item Item) bool {
	root, rest, _ := strings.Cut(c.path, ".")
	raw := map[field]json.RawMessage{fieldMetadata: item.Metadata, fieldInput: item.Input, fieldExpected: item.Expected}[fields[root]]
	for raw := range ValuesAt(raw, rest) {
		if value, err := Decode(raw); err == nil && matchValue(value, c.value) {
			return true
		}
	}
	return c.path == "id" && item.ID == c.value
}

// ValuesAt yields the values at a dotted path below a JSON object. It tries every way to split
// the path into keys, shortest keys first, since a key may contain dots.
func ValuesAt(raw json.RawMessage, path string) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) { valuesAt(raw, path, yield) }
}

func valuesAt(raw json.RawMessage, path string, yield func(json.RawMessage) bool) bool {
	if path == "" {
		return yield(raw)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return true
	}
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '.' {
			continue
		}
		if next, ok := object[path[:end]]; ok && !valuesAt(next, strings.TrimPrefix(path[end:], "."), yield) {
			return false
		}
	}
	return true
}

// matchValue compares a result of Decode with the text of a condition.
func matchValue(value any, text string) bool {
	switch v := value.(type) {
	case nil:
		return text == "null"
	case bool:
		return text == strconv.FormatBool(v)
	case string:
		return text == v
	case json.Number:
		number, err := Decode(json.RawMessage(text))
		n, ok := number.(json.Number)
		return err == nil && ok && canonicalNumber(v.String()) == canonicalNumber(n.String())
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return matchValue(element, text) })
	}
	return false
}

// String describes the filter for a run's header. The same conditions give the same text in any
// order, and selecting everything gives "".
func (f Filter) String() string {
	var parts []string
	for _, c := range f.conditions {
		parts = append(parts, c.path+c.operator+c.value)
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	switch {
	case len(f.ids) > 20:
		parts = append(parts, fmt.Sprintf("%d ids (sha256 %s)", len(f.ids), hexSum([]byte(strings.Join(f.ids, "\n")))[:16]))
	case len(f.ids) > 0:
		parts = append(parts, "id in ("+strings.Join(f.ids, ", ")+")")
	}
	text := strings.Join(parts, " and ")
	if f.Limit > 0 {
		text = strings.TrimSpace(text + " limit " + strconv.Itoa(f.Limit))
	}
	return text
}

// Selection applies a Filter to a sequence of items. It counts them and records the requested
// ids that occurred. It is not safe for concurrent use.
type Selection struct {
	filter Filter
	count  int
	found  map[string]bool
}

// Start returns a new Selection.
func (f Filter) Start() *Selection {
	return &Selection{filter: f, found: map[string]bool{}}
}

// Take reports whether the next item belongs to the selection, and counts it if so.
func (s *Selection) Take(item Item) bool {
	if s.Full() || !s.filter.Match(item) {
		return false
	}
	if len(s.filter.ids) > 0 {
		s.found[item.ID] = true
	}
	s.count++
	return true
}

// Full reports whether no further item will be selected: the limit is reached, or every
// requested id has occurred.
func (s *Selection) Full() bool {
	f := s.filter
	return f.Limit > 0 && s.count >= f.Limit || len(f.ids) > 0 && len(s.found) == len(f.ids)
}

// Missing returns the requested ids that were not selected, sorted. If there is a limit or
// another condition, they may exist nevertheless.
func (s *Selection) Missing() []string {
	return slices.DeleteFunc(slices.Clone(s.filter.ids), func(id string) bool { return s.found[id] })
}
