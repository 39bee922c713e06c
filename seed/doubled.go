package seed

import (
	"bytes"
	"encoding/json"
	"slices"

	"extraction-experiment/extraction"
)

// doubledKey returns a key that an object of the JSON has twice, of which the
// last one counts, or nothing; a text that holds JSON is looked into. What is
// no JSON has none.
func doubledKey(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	type level struct {
		keys  map[string]bool // nil in a list
		isKey bool
	}
	var open []level
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		top := len(open) - 1
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, level{map[string]bool{}, true})
				continue
			case '[':
				open = append(open, level{})
				continue
			}
			open = open[:top]
		case string:
			if top >= 0 && open[top].isKey {
				if open[top].keys[v] {
					return v
				}
				open[top].keys[v], open[top].isKey = true, false
				continue
			}
		}
		if top = len(open) - 1; top >= 0 {
			open[top].isKey = open[top].keys != nil
		}
	}
}

// unambiguous refuses gold in which two entities have the id that a
// relationship refers to: which of them is meant cannot be known. Of an answer
// that is no plain JSON (value is a text) every end counts as a reference.
func unambiguous(gold extraction.Extraction, value any) error {
	first := map[string]string{} // name by id
	for _, e := range gold.Entities {
		name, taken := first[e.ID]
		if e.ID == "" || !taken {
			first[e.ID] = e.Name
			continue
		}
		if name == e.Name || !refersTo(gold, value, e.ID, name) {
			continue
		}
		return refuse(Expected, "expectedOutput.entities", "the id %s is that of two entities, and relationships refer to it: which one is meant is not known; correct the trace", excerpt(e.ID))
	}
	return nil
}

func refersTo(gold extraction.Extraction, value any, id, name string) bool {
	object, isObject := value.(map[string]any)
	if !isObject {
		return slices.ContainsFunc(gold.Relationships, func(r extraction.Relationship) bool { return r.Source == name || r.Target == name })
	}
	list, _ := object["relationships"].([]any)
	return slices.ContainsFunc(list, func(one any) bool {
		fields, _ := one.(map[string]any)
		for key, end := range fields {
			if spelled(end) == id && key != "relationship_type" && key != "type" {
				return true
			}
		}
		return false
	})
}
