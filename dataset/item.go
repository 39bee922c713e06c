// Package dataset holds evaluation items: reading and writing them as JSONL,
// JSON and CSV, their canonical form and fingerprint, and filters over them.
//
// To this package input, expected output and metadata are JSON and nothing
// more; what they mean is the business of a harness.
package dataset

import "encoding/json"

// Item is one case of a dataset.
type Item struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// SourceTraceID and SourceObservationID link the item to the production
	// trace that it was made from.
	SourceTraceID       string `json:"sourceTraceId,omitempty"`
	SourceObservationID string `json:"sourceObservationId,omitempty"`
}
