// Package extraction is the harness of knowledge extraction: the task gives a
// dataset item's document to an extractor, the scorer compares the entities
// and relationships that come back with the expected ones. Here JSON becomes
// documents and extractions: a document once, by the scorer, which hands it to the
// task. The engine sees only JSON.
package extraction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/scoring"
)

// Name is how run files call this harness.
const Name = "extraction"

// Primary is the score by which items are called best and worst.
const Primary = scoring.EntityF1

// Task extracts from the document of an item. It is safe for concurrent use if
// the extractor is.
type Task struct {
	Extractor pipeline.Extractor
}

// document is an input as it was read, once for scorer and task.
type document struct {
	extraction.Document
	warnings []string
	err      error
}

// Do extracts. An input that is no document fails with class "item"; an error of
// the extractor is returned as it is.
func (t Task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	read, ok := item.Decoded.(document)
	if !ok {
		read.Document, read.warnings, read.err = extraction.DecodeDocument(item.Input)
	}
	doc, warnings := read.Document, slices.Clone(read.warnings)
	if read.err != nil {
		return experiment.TaskResult{Warnings: warnings}, &outcome.Failure{Class: outcome.Item, Message: read.err.Error()}
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
	if extraction.ReadsBack(found) {
		result.Decoded = found
	}
	result.Output, err = found.MarshalJSON()
	if err != nil {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return result, nil
}

// Accepts refuses items of which none has a document, but questions or nothing, with
// exit code 64; among others such an item is a failed one.
func (Task) Accepts(first []experiment.Item) error {
	if slices.ContainsFunc(first, func(item experiment.Item) bool { return !lacksDocument(item.Input) }) {
		return nil
	}
	return cli.Usage("the items have no document in their input: questions about a document are asked by experiment answers run")
}

// lacksDocument reports whether an input is absent, or a question.
func lacksDocument(input json.RawMessage) bool {
	var keys map[string]json.RawMessage
	if isAbsent(input) || json.Unmarshal(input, &keys) != nil {
		return isAbsent(input)
	}
	return keys["question"] != nil && keys["document_text"] == nil && keys["text"] == nil
}

// GroundedRate is the share of the extracted entities that stand in the document:
// one that carries quotes if at least one of them occurs, any other if its name or
// an alias does. 0 to 1, more is better. It needs no expected output, only the
// document.
const GroundedRate = "grounded_rate"

// InventedRate is a score that runs of older versions have: 1 less
// GroundedRate, but for entities that occur with another quote. Less is better.
const InventedRate = "invented_rate"

// inventedEntities counts, behind GroundedRate, the entities of which neither a
// quote, nor the name, nor an alias occurs.
const inventedEntities = "invented_entities"

// Grounding returns GroundedRate of what was extracted from a document; of nothing
// it is undefined. It looks for every entity as extraction.Index.Locate does: white space,
// case and the like do not matter. Time is linear but for logarithms.
func Grounding(document string, found extraction.Extraction) outcome.Score {
	return grounding(extraction.NewIndex(document), found)
}

func grounding(index *extraction.Index, found extraction.Extraction) outcome.Score {
	quoted, inText, invented := 0, 0, 0
	for _, e := range found.Entities {
		if len(e.Mentions) > 0 {
			quoted++
		}
		switch {
		case index.Mentioned(e) > 0:
			inText++
		case !index.Named(e):
			invented++
		case len(e.Mentions) == 0:
			inText++
		}
	}
	n := len(found.Entities)
	if n == 0 {
		return outcome.Score{Name: GroundedRate, Reason: "nothing was extracted that could stand in the document"}
	}
	value := float64(inText) / float64(n)
	return outcome.Score{
		Name: GroundedRate, Value: &value, Ratio: &outcome.Ratio{Num: int64(inText), Den: int64(n)},
		Counts:  map[string]int64{inventedEntities: int64(invented)},
		Comment: fmt.Sprintf("%d/%d extracted entities stand in the document (%d with quotes, %d by name); %d occur nowhere in it", inText, n, quoted, n-quoted, invented),
	}
}
