package langfuse

import (
	"context"
	"encoding/json"
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

// ObservationsQuery selects observations; empty fields select all. Give traces
// or a time window, else the server reads everything.
type ObservationsQuery struct {
	IDs      []string // any of, as TraceIDs
	TraceID  string
	TraceIDs []string // any of; at most a few dozen fit into a query
	Name     string
	Type     string
	Level    string
	// TraceName is the name given to the trace; where none was given it is
	// empty, also where the web interface shows the root's.
	TraceName    string
	UserID       string
	SessionID    string
	Version      string
	Environments []string  // any of
	Tags         []string  // of the trace: any of
	AllTags      []string  // of the trace: every one
	Roots        bool      // root observations only: one per trace
	From, To     time.Time // of StartTime
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
	if err := q.conditions(query); err != nil {
		return failing[Observation](err)
	}
	if q.Roots {
		query.Set("isRootObservation", "true")
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

// conditions adds what the observations must be like: as plain parameters where
// those can say it, else everything as a filter, beside which the server does
// not look at some of the plain ones.
func (q ObservationsQuery) conditions(query url.Values) error {
	plain := []struct{ key, value string }{
		{"traceId", q.TraceID}, {"name", q.Name}, {"type", q.Type}, {"level", q.Level},
		{"userId", q.UserID}, {"sessionId", q.SessionID}, {"version", q.Version},
	}
	if len(q.IDs) == 0 && len(q.TraceIDs) == 0 && len(q.Environments) == 0 && len(q.Tags) == 0 && len(q.AllTags) == 0 && q.TraceName == "" {
		for _, p := range plain {
			setText(query, p.key, p.value)
		}
		return nil
	}
	type condition struct {
		Column   string   `json:"column"`
		Operator string   `json:"operator"`
		Type     string   `json:"type"`
		Value    []string `json:"value"`
	}
	var conditions []condition
	add := func(kind, column, operator string, values []string) {
		if len(values) > 0 && values[0] != "" {
			conditions = append(conditions, condition{column, operator, kind, values})
		}
	}
	for _, p := range plain {
		add("stringOptions", p.key, "any of", []string{p.value})
	}
	add("stringOptions", "id", "any of", q.IDs)
	add("stringOptions", "traceId", "any of", q.TraceIDs)
	add("stringOptions", "traceName", "any of", []string{q.TraceName})
	add("stringOptions", "environment", "any of", q.Environments)
	add("arrayOptions", "tags", "any of", q.Tags)
	add("arrayOptions", "tags", "all of", q.AllTags)
	filter, err := encode(conditions)
	query.Set("filter", string(filter))
	return err
}
