// Package extraction is the harness of knowledge extraction: the task gives a
// dataset item's document to an extractor, the scorer compares the entities
// and relationships that come back with the expected ones. Here JSON becomes
// documents and extractions: a document once, by the scorer, which hands it to the
// task. The engine sees only JSON.
package extraction

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
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

// Do extracts. An input that is not a document fails with class "item"; an error of
// the extractor is returned as it is.
func (t *Task) Do(ctx context.Context, item experiment.Item) (result experiment.TaskResult, err error) {
	read, ok := item.Decoded.(*document)
	if !ok {
		read = new(document)
		read.Document, read.warnings, read.err = extraction.DecodeDocument(item.Input)
	}
	doc := read.Document
	result.Warnings = slices.Clone(read.warnings)
	if read.err != nil {
		return result, &outcome.Failure{Class: outcome.Item, Message: read.err.Error()}
	}
	if len(doc.Objects)+len(doc.Relationships)+len(doc.AllowedTypes) == 0 {
		result.Warnings = append(result.Warnings, "the item has no schemas: nothing tells the extractor what to look for")
	}
	doc.Metadata = item.Metadata
	// An item that is tried again had no usable answer, so that a cache must ask.
	ctx = pipeline.WithTrial(ctx, pipeline.Trial{Number: item.Trial, Again: item.Attempt > 1})
	var found extraction.Extraction
	found, result.Calls, err = t.Extractor.Extract(ctx, doc)
	for i := range result.Calls {
		result.Warnings = append(result.Warnings, result.Calls[i].Warnings...)
	}
	if err == nil {
		err = write(&result, found)
	}
	return result, err
}

// write puts what was found into the result.
func write(result *experiment.TaskResult, found extraction.Extraction) (err error) {
	if extraction.ReadsBack(found) {
		result.Decoded = found
	}
	result.Output, err = found.MarshalJSON()
	if brief := extraction.WithoutLookedUp(result.Output); len(brief) < len(result.Output) {
		result.Brief = brief
	}
	if err != nil {
		return &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return nil
}

// Accepts refuses items of which none has a document, but questions or nothing, with
// exit code 64; among others such an item is a failed one.
func (*Task) Accepts(first []experiment.Item) error {
	if slices.ContainsFunc(first, func(item experiment.Item) bool { return !isAbsent(item.Input) && !IsQuestion(item.Input) }) {
		return nil
	}
	return cli.Usage("the items have no document: it belongs into input.document_text, or a column document_text; questions about a document are asked by experiment answers run")
}

// IsQuestion reports whether an input is that of another harness: a question, and no
// document.
func IsQuestion(input json.RawMessage) bool {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(input, &keys) // what is not an object has no keys
	return keys["question"] != nil && keys["document_text"] == nil && keys["text"] == nil
}

// GroundedRate is the share of the extracted entities that are in the document:
// one that carries quotes if at least one of them occurs, any other if its name or
// an alias does. 0 to 1, more is better. It needs no expected output, only the
// document.
const GroundedRate = "grounded_rate"

// InventedRate is a score that runs of older versions have: 1 less
// GroundedRate, but for entities that occur with another quote. Less is better.
const InventedRate = "invented_rate"

// inventedEntities counts, for GroundedRate, the entities of which neither a
// quote, nor the name, nor an alias occurs.
const inventedEntities = "invented_entities"

// Grounding returns GroundedRate of what was extracted from a document; of nothing
// it is undefined. It looks for every entity as extraction.Index.Locate does: white space,
// case and the like do not matter. Time is linear but for logarithms.
func Grounding(index *extraction.Index, found extraction.Extraction) outcome.Score {
	quoted, inText, invented := 0, 0, 0
	for _, e := range found.Entities {
		if len(e.Mentions) > 0 {
			quoted++
		}
		switch {
		case index.Mentioned(e):
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
		Counts:  outcome.Counts{{Name: inventedEntities, N: int64(invented)}},
		Comment: fmt.Sprintf("%d/%d extracted entities stand in the document (%d with quotes, %d by name); %d occur nowhere in it", inText, n, quoted, n-quoted, invented),
	}
}

// Scorer compares extractions with the expected output of items. It is safe
// for concurrent use.
type Scorer struct {
	Rules *scoring.Scorer
	// Documents remembers schemas that many items share; nil remembers none.
	Documents *extraction.Decoder
}

// Judge reads the expected output of an item. An item without any is judged
// by nothing but whether it failed and what of it is in the document. Gold
// of the wrong shape is an error.
func (s Scorer) Judge(item dataset.Item) (experiment.Judge, error) {
	documents := cmp.Or(s.Documents, new(extraction.Decoder))
	j := judge{rules: s.Rules, document: new(document)}
	j.document.Document, j.document.warnings, j.document.err = documents.Document(item.Input) // the task says what is wrong
	if isAbsent(item.Expected) {
		return j, nil
	}
	expected, warnings, err := extraction.DecodeExtraction(item.Expected)
	if err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("the expected output cannot be used: %v", err)}
	}
	j.expected, j.warnings = expected, ofGold(warnings)
	return j, nil
}

// index is the place of an element in a list.
var index = textutil.Pattern(`\[[0-9]+\]`)

// ofGold says warnings about an expected output once each, whatever the elements
// that they are about, so that those of all items can be counted.
func ofGold(warnings []string) []string {
	var list []string
	for _, w := range warnings {
		if w = "expected output: " + index().ReplaceAllString(w, ""); !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

type judge struct {
	rules    *scoring.Scorer
	expected extraction.Extraction
	warnings []string // about the expected output
	document *document
}

// Decoded returns the document, for the task.
func (j judge) Decoded() any { return j.document }

// Score compares an extraction with the expected one.
func (j judge) Score(output json.RawMessage) (experiment.Scored, error) {
	return j.ScoreContext(context.Background(), output, nil)
}

// ScoreContext is Score; it waits for nobody, and reads the output only where the task
// has not said what is in it.
func (j judge) ScoreContext(_ context.Context, output json.RawMessage, decoded any) (experiment.Scored, error) {
	var warnings []string
	extracted, ok := decoded.(extraction.Extraction)
	if !ok {
		var err error
		if extracted, warnings, err = extraction.DecodeExtraction(output); err != nil {
			return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
		}
	}
	result := j.rules.Score(j.expected, extracted)
	result.Faults = scoring.Classify(result, j.contains())
	explanation, err := json.Marshal(result.Explanation)
	if err != nil {
		return experiment.Scored{}, fmt.Errorf("encoding the matches: %w", err)
	}
	scores := result.Scores
	if j.document.Text != "" {
		scores = append(scores, Grounding(j.document.Document.Index(), extracted))
	}
	return experiment.Scored{
		Scores:      scores,
		Groups:      result.Groups,
		Causes:      causes(result.Faults),
		Counts:      result.Counts.Map(),
		Explanation: explanation,
		Warnings:    slices.Concat(j.warnings, warnings, result.Warnings),
	}, nil
}

// NothingExpected reports whether the expected output says that there is nothing to
// find.
func (j judge) NothingExpected() bool { return isEmpty(j.expected) }

// isEmpty reports whether entities or relationships are annotated, and there are none.
func isEmpty(e extraction.Extraction) bool {
	return len(e.Entities)+len(e.Relationships) == 0 && (e.Entities != nil || e.Relationships != nil)
}

// Undelivered returns the scores that an extraction would have had.
func (j judge) Undelivered() []outcome.Score { return j.rules.Undelivered(j.expected) }

func isAbsent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// contains looks for names in the document; without one, all are there.
func (j judge) contains() func(string) bool {
	if j.document.Text == "" {
		return nil
	}
	return func(name string) bool {
		_, found := j.document.Document.Index().Locate(name, 0)
		return found
	}
}

// causes counts the faults by kind.
func causes(faults []scoring.Fault) []outcome.Cause {
	type kind struct{ what, name string }
	counts := map[kind]int64{}
	for _, f := range faults {
		counts[kind{f.What, string(f.Cause)}]++
	}
	var list []outcome.Cause
	for k, n := range counts {
		list = append(list, outcome.Cause{What: k.what, Name: k.name, Count: n})
	}
	slices.SortFunc(list, func(a, b outcome.Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}
