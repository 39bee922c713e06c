// Package extraction is the harness of knowledge extraction: the task passes the document of a
// dataset item to an extractor, and the scorer compares the extracted entities and
// relationships with the expected ones. This package decodes the JSON: the scorer decodes each
// document once and passes it to the task. The engine sees only JSON.
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

// Name is the name of this harness in run files.
const Name = "extraction"

// Primary is the score that ranks items.
const Primary = scoring.EntityF1

// ScorerInfo returns the scorer for the header of a run, as the commands record it. options is the
// JSON of scoring.Options.
func ScorerInfo(options json.RawMessage) outcome.Scorer {
	return outcome.Scorer{Version: scoring.Version, Options: options, Primary: Primary, OutputOnly: []string{scoring.GroundedRate}}
}

// Task extracts from the document of an item. It is safe for concurrent use if the extractor
// is.
type Task struct {
	Extractor pipeline.Extractor
}

// document is a decoded input, shared by scorer and task.
type document struct {
	extraction.Document
	warnings []string
	err      error
}

// Do extracts from one item. An input that is not a document fails with class "item". Errors of
// the extractor are returned unchanged.
func (t *Task) Do(ctx context.Context, item experiment.Item) (result experiment.TaskResult, err error) {
	decoded, ok := item.Decoded.(*document)
	if !ok {
		decoded = new(document)
		decoded.Document, decoded.warnings, decoded.err = extraction.DecodeDocument(item.Input)
	}
	doc := decoded.Document
	result.Warnings = slices.Clone(decoded.warnings)
	if decoded.err != nil {
		return result, &outcome.Failure{Class: outcome.Item, Message: decoded.err.Error()}
	}
	if len(doc.Objects)+len(doc.Relationships)+len(doc.AllowedTypes) == 0 {
		result.Warnings = append(result.Warnings, "the item has no schemas: nothing tells the extractor what to look for")
	}
	doc.Metadata = item.Metadata
	// A new attempt means that the earlier ones had no usable answer, so a cache must not
	// return it.
	ctx = pipeline.WithTrial(ctx, pipeline.Trial{Number: item.Trial, SkipCache: item.Attempt > 1})
	var found extraction.Extraction
	found, result.Calls, err = t.Extractor.Extract(ctx, doc)
	for i := range result.Calls {
		result.Warnings = append(result.Warnings, result.Calls[i].Warnings...)
	}
	if err == nil {
		err = setOutput(&result, found)
	}
	return result, err
}

// setOutput writes the extraction into the result.
func setOutput(result *experiment.TaskResult, found extraction.Extraction) (err error) {
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

// Accepts refuses a dataset if none of its first items has a document, with exit code 64;
// questions or nothing are not documents. A single item without a document only fails itself.
func (*Task) Accepts(first []experiment.Item) error {
	if slices.ContainsFunc(first, func(item experiment.Item) bool { return !isAbsent(item.Input) && !IsQuestion(item.Input) }) {
		return nil
	}
	return cli.Usage("the items have no document: it belongs into input.document_text, or a column document_text; questions about a document are asked by experiment answers run")
}

// IsQuestion reports whether an input has a question and no document, and so is for another
// harness.
func IsQuestion(input json.RawMessage) bool {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(input, &keys) // other values have no keys
	return keys["question"] != nil && keys["document_text"] == nil && keys["text"] == nil
}

// InventedRate is a score in runs of older versions: 1 − scoring.GroundedRate, except for entities that
// occur with another quote. Lower is better.
const InventedRate = "invented_rate"

// inventedEntities is the count, beside scoring.GroundedRate, of entities of which neither a quote, nor
// the name, nor an alias occurs.
const inventedEntities = "invented_entities"

// Grounding returns the scoring.GroundedRate of an extraction from a document; it is undefined
// without entities. It searches for entities like extraction.Index.Locate, regardless of white space
// and case. Time is linear apart from logarithms.
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
		return outcome.Score{Name: scoring.GroundedRate, Reason: "nothing was extracted that could stand in the document"}
	}
	value := float64(inText) / float64(n)
	return outcome.Score{
		Name: scoring.GroundedRate, Value: &value, Ratio: &outcome.Ratio{Num: int64(inText), Den: int64(n)},
		Counts:  outcome.Counts{{Name: inventedEntities, N: int64(invented)}},
		Comment: fmt.Sprintf("%d/%d extracted entities stand in the document, %d occur nowhere in it; %d of all have quotes", inText, n, invented, quoted),
	}
}

// Scorer compares extractions with the expected output of items. It is safe for concurrent use.
type Scorer struct {
	Rules *scoring.Scorer
	// Documents caches schemas that many items share; nil caches none.
	Documents *extraction.Decoder
}

// ForItem reads the expected output of an item. Without one, the only scores are about failures
// and grounding in the document. Expected output of the wrong shape is an error.
func (s Scorer) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	documents := cmp.Or(s.Documents, new(extraction.Decoder))
	j := itemScorer{rules: s.Rules, document: new(document)}
	j.document.Document, j.document.warnings, j.document.err = documents.Document(item.Input) // the task reports the error
	if isAbsent(item.Expected) {
		return j, nil
	}
	expected, warnings, err := extraction.DecodeExtraction(item.Expected)
	if err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("the expected output cannot be used: %v", err)}
	}
	j.expected, j.warnings = expected, goldWarnings(warnings)
	return j, nil
}

// indexPattern matches the index of an element in a list.
var indexPattern = textutil.Pattern(`\[[0-9]+\]`)

// goldWarnings returns the warnings about an expected output without indexes and repetitions,
// so that they can be counted over all items.
func goldWarnings(warnings []string) []string {
	var list []string
	for _, w := range warnings {
		if w = experiment.GoldWarning + indexPattern().ReplaceAllString(w, ""); !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

type itemScorer struct {
	rules    *scoring.Scorer
	expected extraction.Extraction
	warnings []string // about the expected output
	document *document
}

// Decoded returns the document for the task.
func (s itemScorer) Decoded() any { return s.document }

// Score compares an extraction with the expected one.
func (s itemScorer) Score(output json.RawMessage) (experiment.Scored, error) {
	return s.ScoreContext(context.Background(), output, nil)
}

// ScoreContext is Score. It does not use ctx, and decodes the output only if decoded is not an
// extraction.
func (s itemScorer) ScoreContext(_ context.Context, output json.RawMessage, decoded any) (experiment.Scored, error) {
	var warnings []string
	extracted, ok := decoded.(extraction.Extraction)
	if !ok {
		var err error
		if extracted, warnings, err = extraction.DecodeExtraction(output); err != nil {
			return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
		}
	}
	result := s.rules.Score(s.expected, extracted)
	var inDocument func(name string) bool // nil without a document
	if s.document.Text != "" {
		index := s.document.Document.Index()
		inDocument = func(name string) bool {
			_, found := index.Locate(name, 0)
			return found
		}
		result.Scores = append(result.Scores, Grounding(index, extracted))
	}
	result.Faults = scoring.Classify(result, inDocument)
	explanation, err := json.Marshal(result.Explanation)
	if err != nil {
		return experiment.Scored{}, fmt.Errorf("encoding the matches: %w", err)
	}
	return experiment.Scored{
		Scores:      result.Scores,
		Groups:      result.Groups,
		Causes:      causes(result.Faults),
		Counts:      result.Counts.Map(),
		Explanation: explanation,
		Warnings:    slices.Concat(s.warnings, warnings, result.Warnings),
	}, nil
}

// NothingExpected reports whether the expected output is annotated and empty.
func (s itemScorer) NothingExpected() bool { return isEmpty(s.expected) }

// isEmpty reports whether entities or relationships are annotated, and there are none.
func isEmpty(e extraction.Extraction) bool {
	return len(e.Entities)+len(e.Relationships) == 0 && (e.Entities != nil || e.Relationships != nil)
}

// Undelivered returns the scores that an extraction would have had, without values.
func (s itemScorer) Undelivered() []outcome.Score { return s.rules.Undelivered(s.expected) }

func isAbsent(raw json.RawMessage) bool { return textutil.AbsentJSON(bytes.TrimSpace(raw)) }

// causes counts the faults by kind, most frequent first.
func causes(faults []scoring.Fault) []outcome.Cause {
	counts := map[outcome.Cause]int64{} // keys without Count
	for _, f := range faults {
		counts[outcome.Cause{What: f.What, Name: string(f.Cause)}]++
	}
	var list []outcome.Cause
	for c, n := range counts {
		c.Count = n
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b outcome.Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}
