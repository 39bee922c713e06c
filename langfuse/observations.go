package langfuse

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"time"
)

// Observation is a span as v4 keeps it. Which fields are filled depends on
// ObservationsQuery.Fields.
type Observation struct {
	ID        string    `json:"id"`
	TraceID   string    `json:"traceId"`
	ParentID  string    `json:"parentObservationId"` // empty: the root
	Type      string    `json:"type"`                // SPAN, GENERATION, …
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`

	// Group basic.
	Name          string `json:"name"`
	Level         string `json:"level"`
	StatusMessage string `json:"statusMessage"`
	Environment   string `json:"environment"`
	UserID        string `json:"userId"`
	SessionID     string `json:"sessionId"`
	Version       string `json:"version"`

	// Group io; see DecodeIO.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	// Group metadata: values over 200 characters are cut unless the key is in
	// ObservationsQuery.ExpandMetadata.
	Metadata json.RawMessage `json:"metadata"`

	// Group model. Servers use either name; see ModelName.
	Model             string          `json:"model"`
	ProvidedModelName string          `json:"providedModelName"`
	ModelParameters   json.RawMessage `json:"modelParameters"`

	// Group usage.
	UsageDetails map[string]Number `json:"usageDetails"`
	CostDetails  map[string]Number `json:"costDetails"` // USD
	TotalCost    Number            `json:"totalCost"`   // USD

	// Group prompt.
	PromptName    string `json:"promptName"`
	PromptVersion Number `json:"promptVersion"`

	// Group trace_context.
	TraceName string   `json:"traceName"`
	Tags      []string `json:"tags"`
	Release   string   `json:"release"`
}

// ModelName returns the language model that was named in the span.
func (o Observation) ModelName() string { return orDefault(o.ProvidedModelName, o.Model) }

// maxObservations is the largest page of observations.
const maxObservations = 1000

// ObservationsQuery selects observations; empty fields select all. Give a trace
// or a time window, else the server reads everything.
type ObservationsQuery struct {
	TraceID string
	Name    string
	Type    string
	Level   string
	// Tags selects observations of traces with any of the tags. The server then
	// ignores TraceID, Name, Type and Level, so they must be empty.
	Tags []string
	// Roots selects root observations only: one per trace.
	Roots    bool
	From, To time.Time // of StartTime
	// Fields names groups: basic, time, io, metadata, model, usage, prompt,
	// metrics, trace_context. Core is always there. Empty: core and basic.
	Fields         []string
	ExpandMetadata []string
	Limit          int // of a page, at most 1000; 0 is 64
}

// ListObservations yields observations, the newest first. Only where
// Capabilities.NewReads. A span that was sent twice may show twice for a while:
// count by (TraceID, ID). Retried; the first error ends the iteration.
//
// API: GET /api/public/v2/observations
func (c *Client) ListObservations(ctx context.Context, q ObservationsQuery) iter.Seq2[Observation, error] {
	query := url.Values{}
	setText(query, "traceId", q.TraceID)
	setText(query, "name", q.Name)
	setText(query, "type", q.Type)
	setText(query, "level", q.Level)
	if q.Roots {
		query.Set("isRootObservation", "true")
	}
	if len(q.Tags) > 0 && q.TraceID+q.Name+q.Type+q.Level != "" {
		return failing[Observation](errors.New("langfuse: observations are selected by tags, or by trace, name, type and level, not by both"))
	}
	if len(q.Tags) > 0 {
		filter, err := encode([]any{map[string]any{
			"type": "arrayOptions", "column": "tags", "operator": "any of", "value": q.Tags,
		}})
		if err != nil {
			return failing[Observation](err)
		}
		query.Set("filter", string(filter))
	}
	setTime(query, "fromStartTime", q.From)
	setTime(query, "toStartTime", q.To)
	fields := q.Fields
	if len(fields) == 0 {
		fields = []string{"basic"}
	}
	setList(query, "fields", append([]string{"core"}, fields...))
	setList(query, "expandMetadata", q.ExpandMetadata)
	return listCursor[Observation](ctx, c, "v2/observations", query, q.Limit, maxObservations)
}
