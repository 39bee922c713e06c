// Package baseline extracts entities and relationships by rules: the honest
// floor that every language model must beat. It is no model, it learns
// nothing, and no rule or list in it was made from expected output.
//
// The steps: the text is cut into tokens and sentences, twice, so that no list
// of them is kept; the first pass counts how words are written, the second
// lets each rule take its mentions (addresses and codes, quoted titles, dates,
// names of scripts without spaces, Arabic names, capitalised names, numbers,
// offices) and looks for the cue phrases of the relationship types between
// them; in the end mentions are merged into entities, evidence for kinds
// (person, organisation, place, date …) becomes a type of the schema, and
// statements whose ends survived become relationships.
//
// The schema steers it: words of a type's name and description say which kinds
// the type takes ("company", "город", "金额"), words of a relationship's name
// and description choose cue phrases or are cues themselves, and source and
// target types are respected. Without types nothing is extracted.
//
//	extractor, err := baseline.New(baseline.Config{})
//	found, calls, err := extractor.Extract(ctx, doc)
package baseline
