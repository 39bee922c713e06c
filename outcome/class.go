package outcome

// Class says why an item failed. The empty class is success.
type Class string

// The classes of failure.
const (
	// OK is the class of an item that did not fail.
	OK Class = ""
	// Timeout: the task did not finish within the time given to an item.
	Timeout Class = "timeout"
	// RateLimited: the provider kept refusing because of its limits.
	RateLimited Class = "rate_limited"
	// Provider: the model or its server failed otherwise.
	Provider Class = "provider"
	// InvalidOutput: the extractor answered with something that is no extraction.
	InvalidOutput Class = "invalid_output"
	// Item: the dataset item itself cannot be used.
	Item Class = "item"
	// Internal: a fault of this program.
	Internal Class = "internal"
)

// Classes lists every class of failure, in the order in which they are shown.
func Classes() []Class {
	return []Class{Timeout, RateLimited, Provider, InvalidOutput, Item, Internal}
}
