// Package dataset holds evaluation items: reading and writing them as JSONL,
// JSON and CSV, their canonical form and fingerprint, and filters over them.
//
// To this package input, expected output and metadata are JSON and nothing
// more; what they mean is the business of a harness.
//
// The steps, in the order in which a command takes them:
//
//	for located, err := range dataset.ReadFile(ctx, "items.jsonl") { … } // Read, formats
//	filter, err := dataset.ParseFilter("metadata.difficulty=hard")  // which of them
//	hash, err := dataset.Hash(located.Item)                         // what an item is
//	err = fingerprint.Add(located.ID, hash)                         // what they all are
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

// Located is an item with the place that it was read from.
type Located struct {
	Item
	// File is the name that Read was given.
	File string
	// Line is where the item begins, counted from 1.
	Line int
	// DerivedID says that the source gave no id: see DeriveID.
	DerivedID bool
	// Warnings name what was read but may not be what the writer meant, such
	// as a key that is not a key of an item.
	Warnings []string
}
