package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Question is what is asked about a case: neither gold nor the stored answer.
type Question struct {
	DocumentText string
	Instructions string
	// TargetSchema is the JSON Schema of a record.
	TargetSchema json.RawMessage
	// OffsetMode is how offsets are to be counted: as the schema says, else
	// ModeUTF16. An answer may state another.
	OffsetMode string
}

// Answerer is the system under test. Answer returns the text of its answer,
// {"extractions": [...]}, as the system gave it: what is wrong with it is for
// the bench to judge. An error means that there is no answer; an
// *outcome.Failure in its chain says its class. It is called by many goroutines
// at once.
type Answerer interface {
	Answer(ctx context.Context, q Question) (text string, calls []outcome.Call, err error)
}

// question makes the question about a case.
func (in input) question() Question {
	return Question{in.DocumentText, in.Instructions, in.TargetSchema, offsetMode(in.TargetSchema)}
}

// word is a property that may have a few values only.
type word struct {
	Enum  []string `json:"enum"`
	Const string   `json:"const"`
}

func (w word) values() []string {
	if w.Const != "" {
		return append(w.Enum, w.Const)
	}
	return w.Enum
}

// offsetMode finds the mode that a schema asks for.
func offsetMode(schema json.RawMessage) string {
	type spanned struct {
		Mode word `json:"offsetMode"`
	}
	var s struct {
		Properties struct {
			spanned
			Span struct {
				Properties spanned `json:"properties"`
			} `json:"span"`
		} `json:"properties"`
	}
	// A schema that says it in another way leaves the choice to us.
	_ = json.Unmarshal(schema, &s)
	for _, mode := range append(s.Properties.Span.Properties.Mode.values(), s.Properties.Mode.values()...) {
		if _, ok := unitOf(mode); ok {
			return mode
		}
	}
	return ModeUTF16
}

// document makes a document of the question, for a system that extracts
// entities: the classes that the schema allows are the types to extract,
// described by the instructions.
func (q Question) document() extraction.Document {
	var schema struct {
		Properties struct {
			Class word `json:"extractionClass"`
		} `json:"properties"`
	}
	// A schema that names its classes in another way allows any.
	_ = json.Unmarshal(q.TargetSchema, &schema)
	doc := extraction.Document{Text: q.DocumentText, Objects: map[string]extraction.ObjectSchema{}}
	for _, class := range schema.Properties.Class.values() {
		doc.Objects[class] = extraction.ObjectSchema{Name: class, Description: q.Instructions}
	}
	return doc
}

// Extracting answers with what an extractor of entities finds: each mention of
// an entity is a record with its type as the class.
type Extracting struct{ Extractor pipeline.Extractor }

// Answer asks the extractor; errors are its own.
func (e Extracting) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	found, calls, err := e.Extractor.Extract(ctx, q.document())
	if err != nil {
		return "", calls, err
	}
	text, err := asRecords(found)
	return text, calls, err
}

// asRecords writes entities as an answer: one record for each mention, as it is
// stated. An entity without mentions is one record without offsets: nothing is
// searched for that the system did not say.
func asRecords(found extraction.Extraction) (string, error) {
	type span struct {
		Mode  string `json:"offsetMode"`
		Start int    `json:"charStart"`
		End   int    `json:"charEnd"`
	}
	type record struct {
		Class      string          `json:"extractionClass"`
		Quote      string          `json:"quote"`
		Span       *span           `json:"span,omitempty"`
		Attributes json.RawMessage `json:"attributes"`
	}
	records := []record{}
	for _, e := range found.Entities {
		attributes := e.Properties
		if len(attributes) == 0 {
			attributes = json.RawMessage(`{}`)
		}
		if len(e.Mentions) == 0 {
			records = append(records, record{e.Type, e.Name, nil, attributes})
		}
		for _, m := range e.Mentions {
			records = append(records, record{e.Type, m.Quote, &span{ModeRune, m.Start, m.End}, attributes})
		}
	}
	text, err := json.Marshal(map[string]any{"extractions": records})
	if err != nil {
		return "", fmt.Errorf("writing what was extracted: %w", err)
	}
	return string(text), nil
}
