package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"time"

	"extraction-experiment/internal/textutil"
)

// Observation is a span as Langfuse stores it. TraceParts determines whether input, output and
// metadata are read.
type Observation struct {
	ID        string    `json:"id"`
	TraceID   string    `json:"traceId"`
	ParentID  string    `json:"parentObservationId"` // empty for the root
	Type      string    `json:"type"`                // SPAN, GENERATION, …
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`

	Name          string `json:"name"`
	Level         string `json:"level"`
	StatusMessage string `json:"statusMessage"`
	Environment   string `json:"environment"`
	UserID        string `json:"userId"`
	SessionID     string `json:"sessionId"`
	Version       string `json:"version"`

	// Input and Output are decoded in a Trace. Elsewhere, see DecodeJSON.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	// Metadata is truncated on v4: see TraceParts.ExpandMetadata.
	Metadata json.RawMessage `json:"metadata"`

	// Model and ProvidedModelName are two names for the same field: see ModelName.
	Model             string          `json:"model"`
	ProvidedModelName string          `json:"providedModelName"`
	ModelParameters   json.RawMessage `json:"modelParameters"`

	UsageDetails map[string]Number `json:"usageDetails"`
	CostDetails  map[string]Number `json:"costDetails"` // USD
	TotalCost    Number            `json:"totalCost"`   // USD
	// CalculatedTotalCost is the name of v3 for TotalCost, which has its value in a Trace.
	CalculatedTotalCost Number `json:"calculatedTotalCost"`

	PromptName    string `json:"promptName"`
	PromptVersion Number `json:"promptVersion"`

	TraceName string   `json:"traceName"`
	Tags      []string `json:"tags"`
	Release   string   `json:"release"`
}

// ModelName returns the name of the language model.
func (o Observation) ModelName() string { return cmp.Or(o.ProvidedModelName, o.Model) }

// maxObservations is the largest page of observations.
const maxObservations = 1000

// ObservationsQuery selects observations. Empty fields select all. Without TraceIDs or From,
// the server has to search everything.
type ObservationsQuery struct {
	TraceParts
	TraceIDs []string // the observation is in any of them; a query has room for a few dozen
	Name     string
	// TraceName is the name of the trace itself. A trace without a name does not match, even if
	// the web interface shows the name of the root observation for it.
	TraceName   string
	Environment string
	Tags        []string  // the trace has all of them
	From, To    time.Time // range of StartTime
	Limit       int       // observations per page, at most 1000; 0 means 64
}

// ListObservations yields observations, the newest first. It requires Capabilities.NewReads. A
// span that was sent twice may temporarily appear twice: count by (TraceID, ID). Retried; the
// first error ends the iteration.
//
// API: GET /api/public/v2/observations
func (c *Client) ListObservations(ctx context.Context, q ObservationsQuery) iter.Seq2[Observation, error] {
	query := url.Values{}
	q.addConditions(query)
	if q.Roots {
		query.Set("isRootObservation", "true")
	}
	setTime(query, "fromStartTime", q.From)
	setTime(query, "toStartTime", q.To)
	fields := "core,basic,model,usage,prompt,trace_context"
	if q.IO {
		fields += ",io"
	}
	if q.Metadata {
		fields += ",metadata"
	}
	query.Set("fields", fields)
	setList(query, "expandMetadata", q.ExpandMetadata)
	return listCursor[Observation](ctx, c, "v2/observations", query, q.Limit, maxObservations)
}

// addConditions adds the conditions to the query: as plain parameters if these suffice,
// otherwise all in the parameter filter, because the server ignores some plain parameters if
// there is a filter.
func (q ObservationsQuery) addConditions(query url.Values) {
	if len(q.TraceIDs) <= 1 && q.Environment == "" && len(q.Tags) == 0 && q.TraceName == "" {
		setList(query, "traceId", q.TraceIDs)
		setText(query, "name", q.Name)
		return
	}
	var conditions []condition
	add := func(kind, column, operator string, values []string) {
		if len(values) > 0 && values[0] != "" {
			conditions = append(conditions, condition{column, operator, kind, values})
		}
	}
	add("stringOptions", "name", "any of", []string{q.Name})
	add("stringOptions", "traceId", "any of", q.TraceIDs)
	add("stringOptions", "traceName", "any of", []string{q.TraceName})
	add("stringOptions", "environment", "any of", []string{q.Environment})
	add("arrayOptions", "tags", "all of", q.Tags)
	setFilter(query, conditions...)
}

// condition is a condition of the parameter filter.
type condition struct {
	Column   string `json:"column"`
	Operator string `json:"operator"`
	Type     string `json:"type"`
	Value    any    `json:"value"` // a text or a list of texts
}

func setFilter(query url.Values, conditions ...condition) {
	filter, _ := textutil.MarshalJSON(conditions) // texts cannot fail
	query.Set("filter", string(filter))
}

// FindObservation returns an observation by its id alone, for example that of an annotation
// queue item. The result includes the trace id. With Capabilities.NewReads it has no input and
// output. Span ids are only unique within a trace; if several match, the result is the newest.
// Retried; errors: ErrNotFound, *APIError, *ConnectionError.
//
// API: GET /api/public/v2/observations, or GET /api/public/observations/{id}
func (c *Client) FindObservation(ctx context.Context, caps Capabilities, id string) (Observation, error) {
	if id == "" {
		return Observation{}, usageError("finding an observation needs its id")
	}
	if !caps.NewReads {
		return call[Observation](ctx, c, get("observations/"+url.PathEscape(id), nil), nil, "observation %q", id)
	}
	query := url.Values{"fields": {"core,basic"}}
	setFilter(query, condition{"id", "=", "string", id})
	found := listCursor[Observation](ctx, c, "v2/observations", query, 1, maxObservations)
	for o, err := range convert(found, keepAll[Observation], "observation %q", id) {
		return o, err
	}
	return Observation{}, fmt.Errorf("observation %q: %w", id, ErrNotFound)
}
