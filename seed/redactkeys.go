package seed

import (
	"fmt"
	"slices"
	"strings"
)

func (w *redacting) collectKeys(value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			w.collectKeys(element)
		}
	case map[string]any:
		for key, element := range v {
			w.keys = append(w.keys, key)
			w.collectKeys(element)
		}
	}
}

// checkKeys refuses an item whose keys hold a secret.
func (w *redacting) checkKeys() error {
	slices.Sort(w.keys)
	var keys []*cover
	found := ""
	for _, key := range slices.Compact(w.keys) {
		if !wireKeys[key] {
			keys = append(keys, newCover(key))
			w.r.matches(key, func(_, _ int, label byte) { found = w.r.labels[label] })
		}
	}
	all := newConcordance(keys)
	for _, s := range w.secrets {
		err := all.find(s.text, func(in *cover, at int) {
			if in.isWord(at, at+len(s.text)) {
				found = w.r.labels[s.label]
			}
		})
		if err != nil {
			return err
		}
	}
	if found != "" {
		return fmt.Errorf("a key of an object holds what %s takes out, and keys are not changed: leave that object out of the mapping", found)
	}
	return nil
}

// wireKeys are the keys that every item may have.
var wireKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, key := range strings.Fields(`document_text text document_type object_schemas relationship_schemas allowed_types
		available_tags name description properties source_types target_types entities relationships type aliases mentions
		quote start end source_name target_name relationship_type source_ref target_ref evidence kind author time id
		observation source_trace_id`) {
		keys[key] = true
	}
	return keys
}()
