// Package pipeline turns a document into an extraction. It holds the seam that
// everything above it talks to, the Extractor. It knows nothing of datasets,
// scores or Langfuse.
//
// An extractor is given the document and the item's schemas, never the
// expected output. It answers with what it found and with the calls it made;
// the calls come back from an extraction that fails as well, because they were
// paid for and belong on the trace.
//
//	found, calls, err := extractor.Extract(ctx, doc)
//
// An *outcome.Failure in the chain of the error says which class of failure it
// was; outcome.FailureOf reads it.
package pipeline
