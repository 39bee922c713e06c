package bench

import (
	"context"
	_ "embed" // the texts of the built-in prompt
	"encoding/json"
	"maps"
	"slices"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// Question is what is asked about a case: neither gold nor the stored answer.
type Question struct {
	DocumentText string `json:"documentText"`
	Instructions string `json:"instructions"`
	// TargetSchema is the JSON Schema of a record.
	TargetSchema json.RawMessage `json:"targetSchema"`
	// OffsetMode is how offsets are to be counted: as the schema says, else
	// ModeUTF16. An answer may state another.
	OffsetMode string `json:"-"`
}

// Answerer is the system under test. Answer returns the text of its answer,
// {"extractions": [...]}, as the system gave it: what is wrong with it is for
// the bench to judge. An error means that there is no answer; an
// *outcome.Failure in its chain says its class. It is called by many goroutines
// at once.
type Answerer interface {
	Answer(ctx context.Context, q Question) (text string, calls []outcome.Call, err error)
}

// texts are those that the schema of a record lets a property be.
func texts(schema json.RawMessage, property string) (list []string) {
	for enum := range dataset.ValuesAt(schema, property+".enum") {
		for text := range textutil.JSONElements(enum) {
			list = append(list, textutil.JSONText(text))
		}
	}
	for text := range dataset.ValuesAt(schema, property+".const") {
		list = append(list, textutil.JSONText(text))
	}
	return slices.DeleteFunc(list, func(text string) bool { return text == "" })
}

// offsetMode is the first that the schema of a record names, in span or at the top.
func offsetMode(schema json.RawMessage) string {
	for _, mode := range append(texts(schema, "properties.span.properties.offsetMode"), texts(schema, "properties.offsetMode")...) {
		if _, _, known := unitOf(mode); known {
			return mode
		}
	}
	return ModeUTF16
}

// document makes a document of the question, for a system that extracts
// entities: the classes that the schema allows are the types to extract,
// described by the instructions.
func (q Question) document() extraction.Document {
	doc := extraction.Document{Text: q.DocumentText, Objects: map[string]extraction.ObjectSchema{}}
	for _, class := range texts(q.TargetSchema, "properties.extractionClass") {
		doc.Objects[class] = extraction.ObjectSchema{Name: class, Description: q.Instructions}
	}
	return doc
}

var (
	//go:embed prompt_system.txt
	promptSystem string
	//go:embed prompt_user.txt
	promptUser string
)

// Prompt returns the prompt that models are asked with: the instructions and the
// schema of the case, and the form of a record with quote and offsets.
func Prompt() pipeline.Template {
	return pipeline.Template{Name: Name, Messages: []pipeline.TemplateMessage{
		{Role: pipeline.RoleSystem, Content: promptSystem}, {Role: pipeline.RoleUser, Content: promptUser},
	}}
}

// Asking asks a language model, once for each case. The schema is a part of the
// prompt and is not enforced by the provider, nor is an answer repaired: what
// the model says is what is measured. It is safe for concurrent use if the model
// is.
type Asking struct {
	Model pipeline.Model
	// Name and Provider are how calls call the model.
	Name, Provider string
}

// Answer returns what the model says; also a refusal and an answer that was cut
// off are answers. Errors are those of the model.
func (a Asking) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	_, unit, _ := unitOf(q.OffsetMode)
	messages, err := pipeline.Compile(Prompt(), pipeline.Vars{Texts: map[string]string{
		"document_text": q.DocumentText, "instructions": q.Instructions, "target_schema": string(q.TargetSchema),
		"offset_mode": q.OffsetMode, "offset_unit": unit,
	}})
	if err != nil {
		return "", nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := pipeline.Request{Messages: messages}
	about := outcome.Call{Name: "extract", Provider: a.Provider, Model: a.Name}
	res, call, err := pipeline.Record(ctx, a.Model, req, about, time.Now)
	if res.Finish == pipeline.FinishLength {
		call.Warnings = append(call.Warnings, "the answer was cut by the limit of tokens")
	}
	return res.Text, []outcome.Call{call}, err
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
	text, err := json.Marshal(recordsOf(found))
	return string(text), calls, err
}

// recordsOf writes entities as an answer: one record for each mention, as it is
// stated. An entity without mentions is one record without offsets: nothing is
// searched for that the system did not say.
func recordsOf(found extraction.Extraction) any {
	records := []map[string]any{}
	for _, e := range found.Entities {
		attributes := e.Properties
		if len(attributes) == 0 {
			attributes = json.RawMessage(`{}`)
		}
		record := map[string]any{"extractionClass": e.Type, "quote": e.Name, "attributes": attributes}
		if len(e.Mentions) == 0 {
			records = append(records, record)
		}
		for _, m := range e.Mentions {
			record = maps.Clone(record)
			record["quote"] = m.Quote
			record["span"] = map[string]any{"offsetMode": ModeRune, "charStart": m.Start, "charEnd": m.End}
			records = append(records, record)
		}
	}
	return map[string]any{"extractions": records}
}

// External asks a team's own pipeline by the protocol of
// docs/pipeline-protocol.md, with "instructions", "target_schema" and
// "offset_mode" in the request. An answer holds "extractions", records as the
// schema asks for, or "entities" whose mentions are the records. It is safe for
// concurrent use.
type External struct{ Asker *provider.External }

// Answer asks once. A reply without a list is an answer that cannot be used, as
// a model's prose is; errors are those of the pipeline.
func (e External) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	doc := q.document()
	reply, calls, err := e.Asker.Ask(ctx, map[string]any{
		"document_text": doc.Text, "document_type": doc.Type, "object_schemas": doc.Objects, "relationship_schemas": struct{}{},
		"allowed_types": []string{}, "available_tags": []string{},
		"instructions": q.Instructions, "target_schema": q.TargetSchema, "offset_mode": q.OffsetMode,
	})
	if err != nil {
		return "", calls, err
	}
	var answer any = reply
	if reply["extractions"] == nil {
		found, _, err := extraction.DecodeExtraction([]byte(`{"entities":` + string(reply["entities"]) + `}`))
		if err == nil {
			answer = recordsOf(found)
		}
	}
	text, err := json.Marshal(answer)
	return string(text), calls, err
}
