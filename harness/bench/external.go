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
type External struct{ Asker *external.Extractor }

// Answer asks once. A reply without a list is an answer that cannot be used, as
// a model's prose is; errors are those of the Asker.
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

// said returns a pipeline's reply as the text of an answer.
func said(fields map[string]json.RawMessage) (string, error) {
	entities, own := fields["entities"]
	if _, records := fields["extractions"]; own && !records {
		if found, _, err := extraction.DecodeExtraction([]byte(`{"entities":` + string(entities) + `}`)); err == nil {
			return asRecords(found)
		}
	}
	text, err := json.Marshal(fields)
	return string(text), err
}
