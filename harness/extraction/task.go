package extraction

import (
	"context"
	"encoding/json"

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
func (t Task) Do(ctx context.Context, item experiment.Item) (experiment.Result, error) {
	doc, warnings, err := extraction.DecodeDocument(item.Input)
	if err != nil {
		return experiment.Result{Warnings: warnings}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
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
	result := experiment.Result{Calls: calls, Warnings: warnings}
	if err != nil {
		return result, err
	}
	result.Output, err = json.Marshal(found)
	if err != nil {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return result, nil
}
