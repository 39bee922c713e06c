package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/ground"
)

// task answers a case: from what is stored with it, or by an extractor.
type task struct{ extractor pipeline.Extractor }

// Do returns an Answer. An answer that cannot be used is a failure inside of it;
// an error of the extractor is returned as it is.
func (t task) Do(ctx context.Context, item experiment.Item) (experiment.Result, error) {
	var in input
	if err := json.Unmarshal(item.Input, &in); err != nil {
		return experiment.Result{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	schema, err := compileSchema(in.TargetSchema)
	if err != nil {
		return experiment.Result{}, &outcome.Failure{Class: outcome.Item, Message: "targetSchema: " + err.Error()}
	}
	r := reader{schema, newChecker(in.DocumentText)}
	var a Answer
	var result experiment.Result
	if t.extractor == nil {
		a = r.stored(in.ProviderResponseText)
	} else {
		found, calls, err := t.extractor.Extract(ctx, in.document(item))
		result.Calls = calls
		if err != nil {
			return result, err
		}
		if a, err = r.extracted(found, in.DocumentText); err != nil {
			return result, err
		}
	}
	result.Output, err = json.Marshal(a)
	return result, err
}

// document makes a document of the case: the classes that its schema allows are
// the types to extract, described by the instructions.
func (in input) document(item experiment.Item) extraction.Document {
	var schema struct {
		Properties struct {
			Class struct {
				Enum  []string `json:"enum"`
				Const string   `json:"const"`
			} `json:"extractionClass"`
		} `json:"properties"`
	}
	// A schema that names its classes in another way allows any.
	_ = json.Unmarshal(in.TargetSchema, &schema)
	classes := schema.Properties.Class.Enum
	if c := schema.Properties.Class.Const; c != "" {
		classes = append(classes, c)
	}
	doc := extraction.Document{Text: in.DocumentText, Objects: map[string]extraction.ObjectSchema{}, Input: item.Input, Metadata: item.Metadata}
	for _, class := range classes {
		doc.Objects[class] = extraction.ObjectSchema{Name: class, Description: in.Instructions}
	}
	return doc
}

// extracted makes records of what an extractor found: one for each mention, as
// it is stated. An entity without a mention stands where its name does; one
// whose name does not occur is a record that quotes nothing.
func (r reader) extracted(found extraction.Extraction, text string) (Answer, error) {
	index := ground.NewIndex(text)
	var records []Record
	for _, e := range found.Entities {
		spans := e.Mentions
		if len(spans) == 0 {
			span, match := index.Locate(e.Name, 0)
			if match == ground.None {
				span = extraction.Span{Quote: e.Name, Start: 0, End: 1}
			}
			spans = []extraction.Span{span}
		}
		for _, s := range spans {
			raw, err := json.Marshal(map[string]any{
				"extractionClass": e.Type, "quote": s.Quote, "offsetMode": ModeRune, "charStart": s.Start, "charEnd": s.End,
				"attributes": attributes(e.Properties),
			})
			if err != nil {
				return Answer{}, fmt.Errorf("encoding what was extracted: %w", err)
			}
			records = append(records, r.record(raw))
		}
	}
	return newAnswer(records, 1), nil
}

func attributes(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}
