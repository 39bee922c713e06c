package seed

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// exempt are the paths of metadata that link to Langfuse.
var exempt = map[string]bool{
	"metadata.source_trace_id": true, "metadata.evidence.id": true, "metadata.evidence.time": true,
	"metadata.evidence.kind": true, "metadata.evidence.observation": true,
}

// walk goes through a value; give gets every text and number with its path.
func walk(path []string, value any, give func(path []string, value any) any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = walk(path, v[i], give)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = walk(append(slices.Clip(path), keyPath(key)...), v[key], give)
		}
	case string, json.Number:
		if !exempt[strings.Join(path, ".")] && !isOffset(path, value) {
			return give(path, value)
		}
	}
	return value
}
