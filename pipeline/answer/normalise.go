package answer

import (
	"slices"

	"extraction-experiment/extraction"
)

// Normalise returns the extraction with its types spelled as the document's
// schemas spell them, where they differ in case, spaces, hyphens and underscores
// only ("works for", "WorksFor": "works_for"), or are the name inside a schema
// that has another key. A type that no schema has, or that two could be, stays,
// and so does everything else. The extraction given is not changed. Normalising
// again changes nothing. Time is linear.
func Normalise(e extraction.Extraction, doc extraction.Document) extraction.Extraction {
	entities, relationships := entityTypes(doc), relationshipTypes(doc)
	e.Entities = slices.Clone(e.Entities)
	for i := range e.Entities {
		if spelled, ok := entities.spell(e.Entities[i].Type); ok {
			e.Entities[i].Type = spelled
		}
	}
	e.Relationships = slices.Clone(e.Relationships)
	for i := range e.Relationships {
		if spelled, ok := relationships.spell(e.Relationships[i].Type); ok {
			e.Relationships[i].Type = spelled
		}
	}
	return e
}
