package tracking

import (
	"encoding/json"
	"slices"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// recordKey is the key of a root span's metadata that holds the outcome: whoever has
// nothing but Langfuse finds there what the run file has of scores and counts.
const recordKey = "outcome"

// record returns the outcome as the run file and its export write it, as one text,
// so that no server takes it for more keys. Left out are what the span says itself
// (output, calls, failure, warnings), the comments of scores, and the explanation.
func record(o outcome.Outcome) string {
	o.Output, o.Calls, o.Failure, o.Warnings, o.Explanation = nil, nil, nil, nil, nil
	o.Scores = slices.Clone(o.Scores)
	for i := range o.Scores {
		o.Scores[i].Comment = ""
	}
	return string(encode(o))
}

// recorded reads the outcome of an item from its root span; ok is false where none
// is recorded there, or that of another item.
func recorded(root langfuse.Observation, item string, trial int) (o outcome.Outcome, ok bool) {
	var metadata map[string]json.RawMessage
	if json.Unmarshal(root.Metadata, &metadata) != nil {
		return o, false
	}
	raw := metadata[recordKey]
	var text string
	if json.Unmarshal(raw, &text) == nil { // v3 gives the JSON that the text holds
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, &o) != nil || o.Item != item {
		return outcome.Outcome{}, false
	}
	o.Trial = trial
	if !o.Failed() {
		o.Output = root.Output
		return o, true
	}
	o.Failure = failureOf(root, o.Class)
	o.Class = o.Failure.Class
	return o, true
}

// failureOf returns the failure that a root span shows in place of an output.
func failureOf(root langfuse.Observation, class outcome.Class) *outcome.Failure {
	var shown struct{ Error *outcome.Failure }
	if json.Unmarshal(root.Output, &shown) == nil && shown.Error != nil {
		return knownFailure(shown.Error.Class, shown.Error.Message)
	}
	return knownFailure(class, "")
}

// knownFailure is a failure of a class that there is; other words are a message.
func knownFailure(class outcome.Class, message string) *outcome.Failure {
	if class == outcome.OK || !slices.Contains(outcome.Classes(), class) {
		class = outcome.Provider
	}
	if message == "" {
		message = "Langfuse does not say why"
	}
	return &outcome.Failure{Class: class, Message: message}
}
