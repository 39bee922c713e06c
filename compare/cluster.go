package compare

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
)

// clusters numbers the clusters of items. The zero value knows no clusters.
type clusters struct {
	key     string // "" takes every item for itself
	of      map[string]int
	numbers map[string]int
	keys    map[string]bool // of items that have no value
	without int             // items that have no value
	next    int
}

func newClusters(key string) *clusters {
	return &clusters{key: key, of: map[string]int{}, numbers: map[string]int{}, keys: map[string]bool{}}
}

// add takes an item into account. One without a value is a cluster of its own.
func (c *clusters) add(item Item) {
	if c.key == "" {
		return
	}
	value, ok := lookup(item.Metadata, c.key)
	number, known := c.numbers[value]
	if !ok || !known {
		number = c.next
		c.next++
	}
	if ok {
		c.numbers[value] = number
	} else {
		c.without++
		c.note(item.Metadata, "")
	}
	c.of[item.ID] = number
}

// check is a *KeyError where no item has the key: each would silently stand for
// itself.
func (c *clusters) check() error {
	if c.key == "" || len(c.of) == 0 || c.without < len(c.of) {
		return nil
	}
	return &KeyError{Key: c.key, Known: slices.Sorted(maps.Keys(c.keys))}
}

// mostKeys bounds the keys that are listed for a person.
const mostKeys = 50

// note lists the keys of an item, those of nested objects with dots.
func (c *clusters) note(raw json.RawMessage, prefix string) {
	var object map[string]json.RawMessage
	if len(prefix) > maxRule || json.Unmarshal(raw, &object) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value := object[key]
		if len(value) > 0 && value[0] == '{' {
			c.note(value, prefix+key+".")
			continue
		}
		if len(c.keys) < mostKeys {
			c.keys[prefix+key] = true
		}
	}
}

// lookup returns the value at a path below a JSON object as text: a string as
// it is, anything else in canonical form. Null is no value. Every way to cut the
// path into keys is tried, the shortest key first, as in dataset.Filter.
func lookup(raw json.RawMessage, path string) (string, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return "", false
	}
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '.' {
			continue
		}
		next, ok := object[path[:end]]
		if !ok {
			continue
		}
		if end == len(path) {
			return scalar(next)
		}
		if value, ok := lookup(next, strings.TrimPrefix(path[end:], ".")); ok {
			return value, true
		}
	}
	return "", false
}

func scalar(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	canonical, err := dataset.Canonical(raw)
	return string(canonical), err == nil
}
