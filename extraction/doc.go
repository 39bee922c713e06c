// Package extraction holds the words of knowledge extraction: a Document with
// its schemas goes into an extractor, an Extraction with entities and
// relationships comes out. It knows how these look as JSON, and nothing of
// models, scores or Langfuse.
//
// Reading is tolerant where writers differ (synonyms of keys, references by
// identifier) and strict where a wrong guess would change a score: a list that
// is absent is kept apart from a list that is empty, and a value of the wrong
// kind is an error that names its path.
//
//	doc, warnings, err := extraction.DecodeDocument(item.Input)
//	want, warnings, err := extraction.DecodeExtraction(item.Expected)
package extraction
