package bench

import (
	"context"
	"encoding/json"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/provider/external"
)

// External asks a team's own pipeline by the protocol of
// docs/pipeline-protocol.md, with "instructions", "target_schema" and
// "offset_mode" in the request. An answer holds "extractions", records as the
// schema asks for, or "entities" whose mentions are the records. It is safe for
// concurrent use.
type External struct{ Asker *external.Asker }

// Answer asks once. An answer with neither list fails with class invalid_output;
// other errors are those of the Asker.
func (e External) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	doc := q.document()
	fields, calls, err := e.Asker.Ask(ctx, map[string]any{
		"document_text": doc.Text, "document_type": doc.Type, "object_schemas": doc.Objects, "relationship_schemas": struct{}{},
		"allowed_types": []string{}, "available_tags": []string{},
		"instructions": q.Instructions, "target_schema": q.TargetSchema, "offset_mode": q.OffsetMode,
	})
	if err != nil {
		return "", calls, err
	}
	text, err := said(fields)
	return text, calls, err
}

// said returns the records of a pipeline's reply as the text of an answer.
func said(fields map[string]json.RawMessage) (string, error) {
	if list, there := fields["extractions"]; there {
		text, err := json.Marshal(map[string]json.RawMessage{"extractions": list})
		return string(text), err
	}
	if _, there := fields["entities"]; !there {
		return "", &outcome.Failure{Class: outcome.InvalidOutput, Message: `the reply has neither "extractions" nor "entities"; write an empty list where nothing was found`}
	}
	own, err := json.Marshal(map[string]json.RawMessage{"entities": fields["entities"]})
	if err != nil {
		return "", err
	}
	found, _, err := extraction.DecodeExtraction(own)
	if err != nil {
		return "", &outcome.Failure{Class: outcome.InvalidOutput, Message: "the reply is no extraction: " + err.Error()}
	}
	return asRecords(found)
}
