package seed

import (
	"maps"
	"slices"

	"extraction-experiment/extraction"
)

// checkTypes looks for types that an extractor which keeps to the item's
// schemas can never give.
func checkTypes(n *notes, document extraction.Document, expected extraction.Extraction) {
	objects := folded(slices.Collect(maps.Keys(document.Objects)))
	for _, s := range document.Objects {
		objects[foldType(s.Name)] = true
	}
	allowed := folded(document.AllowedTypes)
	for i, e := range expected.Entities {
		kind := foldType(e.Type)
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
		relationships[foldType(s.Name)] = true
	}
	for i, r := range expected.Relationships {
		if kind := foldType(r.Type); kind != "" && len(relationships) > 0 && !relationships[kind] {
			n.warn(UnknownType, relationshipPath(i)+".relationship_type", "%q is none of the relationship_schemas", r.Type)
		}
	}
}

func folded(types []string) map[string]bool {
	set := map[string]bool{}
	for _, t := range types {
		set[foldType(t)] = true
	}
	return set
}
