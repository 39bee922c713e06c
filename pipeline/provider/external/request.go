package external

import (
	"bytes"
	"encoding/json"
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline"
)

// request is what a pipeline is asked. Every key but model and parameters is
// always there.
type request struct {
	ID                  string                                   `json:"id"`
	DocumentText        string                                   `json:"document_text"`
	DocumentType        string                                   `json:"document_type"`
	ObjectSchemas       map[string]extraction.ObjectSchema       `json:"object_schemas"`
	RelationshipSchemas map[string]extraction.RelationshipSchema `json:"relationship_schemas"`
	AllowedTypes        []string                                 `json:"allowed_types"`
	AvailableTags       []string                                 `json:"available_tags"`
	Model               string                                   `json:"model,omitempty"`
	Parameters          pipeline.Parameters                      `json:"parameters,omitzero"`
}

// encodeRequest writes one line of JSON without its end; a nil list or map is
// written as an empty one.
func encodeRequest(id string, doc extraction.Document, cfg Config) ([]byte, error) {
	r := request{
		ID: id, DocumentText: doc.Text, DocumentType: doc.Type,
		ObjectSchemas: doc.Objects, RelationshipSchemas: doc.Relationships,
		AllowedTypes: append([]string{}, doc.AllowedTypes...), AvailableTags: append([]string{}, doc.AvailableTags...),
		Model: cfg.Model, Parameters: cfg.Parameters,
	}
	if r.ObjectSchemas == nil {
		r.ObjectSchemas = map[string]extraction.ObjectSchema{}
	}
	if r.RelationshipSchemas == nil {
		r.RelationshipSchemas = map[string]extraction.RelationshipSchema{}
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("writing the request to the pipeline: %w", err)
	}
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), nil
}

// checkAnswer says whether an answer is a JSON object and, if it repeats an id,
// that of the request. It is what keeps a program in step.
func checkAnswer(request, answer []byte) error {
	var asked, got struct {
		ID json.RawMessage `json:"id"`
	}
	if !json.Valid(answer) {
		return fmt.Errorf("that is not JSON; the answer is one JSON object on one line")
	}
	if err := json.Unmarshal(answer, &got); err != nil || answer[0] != '{' {
		return fmt.Errorf("that is JSON, but no object; the answer is one JSON object with entities and relationships")
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return fmt.Errorf("reading our own request: %w", err)
	}
	if len(got.ID) > 0 && string(got.ID) != "null" && !bytes.Equal(asked.ID, got.ID) {
		return fmt.Errorf("that answers request %.40s, asked was %s; repeat the id of the request or leave it out", got.ID, asked.ID)
	}
	return nil
}
