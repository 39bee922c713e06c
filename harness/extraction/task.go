package extraction

import (
	"context"
	"encoding/json"
	"slices"

	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Task extracts from the document of an item. It is safe for concurrent use if
// the extractor is.
type Task struct {
	Extractor pipeline.Extractor
}

// Do extracts. An input that is no document fails with class "item"; an error of
// the extractor is returned as it is.
func (t Task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	doc, warnings, err := extraction.DecodeDocument(item.Input)
	if err != nil {
		return experiment.TaskResult{Warnings: warnings}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	if len(doc.Objects)+len(doc.Relationships)+len(doc.AllowedTypes) == 0 {
		warnings = append(warnings, "the item has no schemas: nothing tells the extractor what to look for")
	}
	doc.Metadata = item.Metadata
	// An item that is tried again had no usable answer, so that a cache must ask.
	ctx = pipeline.WithTrial(ctx, pipeline.Trial{Number: item.Trial, Again: item.Attempt > 1})
	found, calls, err := t.Extractor.Extract(ctx, doc)
	for _, call := range calls {
		warnings = append(warnings, call.Warnings...)
	}
	result := experiment.TaskResult{Calls: calls, Warnings: warnings}
	if err != nil {
		return result, err
	}
	result.Output, err = json.Marshal(found)
	if err != nil {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return result, nil
}

// QuestionsError says that a dataset is of questions.
type QuestionsError struct{}

// Error says what they are for.
func (*QuestionsError) Error() string {
	return "the items have no document in their input: questions about a document are asked by experiment answers run"
}

// ExitCode is that of a wrong usage.
func (*QuestionsError) ExitCode() int { return 64 }

// Accepts refuses items of which none has a document, but questions or nothing, with
// a *QuestionsError; among others such an item is a failed one.
func (Task) Accepts(first []experiment.Item) error {
	if slices.ContainsFunc(first, func(item experiment.Item) bool { return !lacksDocument(item.Input) }) {
		return nil
	}
	return &QuestionsError{}
}

// lacksDocument reports whether an input is absent, or a question.
func lacksDocument(input json.RawMessage) bool {
	var keys map[string]json.RawMessage
	if isAbsent(input) || json.Unmarshal(input, &keys) != nil {
		return isAbsent(input)
	}
	return keys["question"] != nil && keys["document_text"] == nil && keys["text"] == nil
}
