package pipeline

import (
	"context"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// Extractor finds entities and relationships in a document.
//
// Extract returns what was found and every call that was made on the way, in
// the order in which they began; the calls are returned with an error too. It
// stops soon after ctx is done and then returns an error that wraps ctx.Err().
// The types it returns are those of the document's schemas. An error says what
// happened in words for a person; an *outcome.Failure in its chain says how it counts. Implementations
// are safe for concurrent use.
type Extractor interface {
	Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error)
}
