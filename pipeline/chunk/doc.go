// Package chunk cuts a long document into overlapping pieces that fit a model's
// window, and puts what was extracted from the pieces together again.
//
// It knows nothing of prompts, models or scores, and it does not judge what was
// extracted: it only says which entities and statements of different chunks are
// the same one.
//
// The steps of a long document are
//
//  1. Split cuts at paragraph borders, else after sentences, else between
//     words, in any script;
//  2. somebody extracts from each chunk, with offsets relative to the chunk;
//  3. Merge unites the results, with offsets relative to the document.
//
// For example:
//
//	chunks := chunk.Split(doc.Text, chunk.Config{MaxRunes: 8000, Overlap: 400})
//	parts := make([]chunk.Part, len(chunks))
//	for i, c := range chunks {
//		parts[i] = chunk.Part{Extraction: extract(c.Text), Chunk: c}
//	}
//	merged, warnings := chunk.Merge(parts, chunk.Vocabulary{})
package chunk
