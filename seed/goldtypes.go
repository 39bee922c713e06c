package seed

import (
	"maps"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
)

// checkTypes looks for types that an extractor which keeps to the item's
// schemas can never give.
func checkTypes(n *notes, document extraction.Document, expected extraction.Extraction) {
	objects := folded(slices.Collect(maps.Keys(document.Objects)))
	for _, s := range document.Objects {
		objects[fold.Type(s.Name)] = true
	}
	allowed := folded(document.AllowedTypes)
	for i, e := range expected.Entities {
		kind := fold.Type(e.Type)
		switch {
		case kind == "":
		case len(objects) > 0 && !objects[kind]:
			n.warn(UnknownType, entityPath(i)+".type", "%q is none of the object_schemas", e.Type)
		case len(allowed) > 0 && !allowed[kind]:
			n.warn(UnknownType, entityPath(i)+".type", "%q is none of the allowed_types", e.Type)
		}
	}
	relationships := folded(slices.Collect(maps.Keys(document.Relationships)))
	for _, s := range document.Relationships {
		relationships[fold.Type(s.Name)] = true
	}
	for i, r := range expected.Relationships {
		if kind := fold.Type(r.Type); kind != "" && len(relationships) > 0 && !relationships[kind] {
			n.warn(UnknownType, relationshipPath(i)+".relationship_type", "%q is none of the relationship_schemas", r.Type)
		}
	}
}

func folded(types []string) map[string]bool {
	set := map[string]bool{}
	for _, t := range types {
		set[fold.Type(t)] = true
	}
	return set
}
