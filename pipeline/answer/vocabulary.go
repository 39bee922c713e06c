package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
	"extraction-experiment/internal/nearest"
)

// vocabulary is the types that a document allows, of entities or of
// relationships. An empty one allows every type.
type vocabulary struct {
	names  []string
	folded map[string]string // "" where several names fold to it
	alias  map[string]bool   // which of the folded are names inside schemas
	seen   map[string]string // by spelling as it was looked up
}

// entityTypes are the allowed types; without them, those of the schemas.
func entityTypes(doc extraction.Document) vocabulary {
	names := doc.AllowedTypes
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(doc.Objects))
	}
	v := newVocabulary(names)
	for key, schema := range doc.Objects {
		v.addAlias(schema.Name, key)
	}
	return v
}

func relationshipTypes(doc extraction.Document) vocabulary {
	v := newVocabulary(slices.Sorted(maps.Keys(doc.Relationships)))
	for key, schema := range doc.Relationships {
		v.addAlias(schema.Name, key)
	}
	return v
}

func newVocabulary(names []string) vocabulary {
	v := vocabulary{folded: map[string]string{}, alias: map[string]bool{}, seen: map[string]string{}}
	for _, name := range names {
		if _, twice := v.seen[name]; twice {
			continue
		}
		v.seen[name] = name
		v.names = append(v.names, name)
		key := foldType(name)
		if _, taken := v.folded[key]; taken {
			v.folded[key] = ""
			continue
		}
		v.folded[key] = name
	}
	return v
}

// addAlias lets the name in a schema stand for its key, unless that is how a
// type is spelled, or the name in another schema.
func (v vocabulary) addAlias(name, key string) {
	folded := foldType(name)
	if folded == "" || v.seen[key] != key {
		return
	}
	switch other, taken := v.folded[folded]; {
	case !taken:
		v.folded[folded], v.alias[folded] = key, true
	case v.alias[folded] && other != key:
		v.folded[folded] = ""
	}
}

// spell returns the type as the schemas spell it; false for a type that they do
// not have, or that several of them could be.
func (v vocabulary) spell(name string) (string, bool) {
	spelled, ok := v.seen[name]
	if !ok {
		if folded := foldType(name); folded != "" {
			spelled = v.folded[folded]
		}
		v.seen[name] = spelled
	}
	return spelled, spelled != ""
}

// list names the types for a message, and the one that was perhaps meant.
func (v vocabulary) list(wrong string) string {
	const most = 30
	shownNames, more := v.names, ""
	if len(shownNames) > most {
		shownNames, more = v.names[:most], fmt.Sprintf(" and %d more", len(v.names)-most)
	}
	meant := ""
	if near := nearest.Word(wrong, v.names); near != "" {
		meant = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return strings.Join(shownNames, ", ") + more + meant
}

// foldType makes types equal that differ in case, spaces, hyphens and
// underscores only, so that "worksFor" is "works_for".
func foldType(name string) string { return strings.ReplaceAll(fold.Type(name), "_", "") }
