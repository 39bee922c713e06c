package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"extraction-experiment/internal/textutil"
)

// Observation is a span as v4 keeps it. Input, output and metadata are there where
// TraceParts says so.
type Observation struct {
	ID        string    `json:"id"`
	TraceID   string    `json:"traceId"`
	ParentID  string    `json:"parentObservationId"` // empty: the root
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

	// See DecodeIO.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	// Metadata: values over 200 characters are cut unless the key is in
	// TraceParts.ExpandMetadata.
	Metadata json.RawMessage `json:"metadata"`

	// Servers use either name; see ModelName.
	Model             string          `json:"model"`
	ProvidedModelName string          `json:"providedModelName"`
	ModelParameters   json.RawMessage `json:"modelParameters"`

	UsageDetails map[string]Number `json:"usageDetails"`
	CostDetails  map[string]Number `json:"costDetails"` // USD
	TotalCost    Number            `json:"totalCost"`   // USD

	PromptName    string `json:"promptName"`
	PromptVersion Number `json:"promptVersion"`

	TraceName string   `json:"traceName"`
	Tags      []string `json:"tags"`
	Release   string   `json:"release"`
}

// ModelName returns the language model that was named in the span.
func (o Observation) ModelName() string { return cmp.Or(o.ProvidedModelName, o.Model) }

// maxObservations is the largest page of observations.
const maxObservations = 1000

// ObservationsQuery selects observations; empty fields select all. Give traces
// or a time window, else the server reads everything.
type ObservationsQuery struct {
	TraceParts
	TraceIDs []string // any of; at most a few dozen fit into a query
	Name     string
	// TraceName is the name given to the trace; where none was given it is
	// empty, also where the web interface shows the root's.
	TraceName   string
	Environment string
	Tags        []string  // of the trace: every one
	From, To    time.Time // of StartTime
	Limit       int       // of a page, at most 1000; 0 is 64
}

// ListObservations yields observations, the newest first. Only where
// Capabilities.NewReads. A span that was sent twice may show twice for a while:
// count by (TraceID, ID). Retried; the first error ends the iteration.
//
// API: GET /api/public/v2/observations
func (c *Client) ListObservations(ctx context.Context, q ObservationsQuery) iter.Seq2[Observation, error] {
	query := url.Values{}
	q.conditions(query)
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

// conditions adds what the observations must be like: as plain parameters where
// those can say it, else everything as a filter, beside which the server does
// not look at some of the plain ones.
func (q ObservationsQuery) conditions(query url.Values) {
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

// condition is one that observations must meet.
type condition struct {
	Column   string `json:"column"`
	Operator string `json:"operator"`
	Type     string `json:"type"`
	Value    any    `json:"value"` // a text or a list of texts
}

func setFilter(query url.Values, conditions ...condition) {
	filter, _ := textutil.MarshalJSON(conditions) // texts can always be written
	query.Set("filter", string(filter))
}

// FindObservation returns an observation of which only the id is known, as that
// of an item of an annotation queue: with its trace's id, without input and
// output. Span ids are unique in a trace only; of several the newest counts.
// Retried; errors: ErrNotFound, *APIError, *ConnectionError.
//
// API: GET /api/public/v2/observations, or GET /api/public/observations/{id}
func (c *Client) FindObservation(ctx context.Context, server Capabilities, id string) (Observation, error) {
	if id == "" {
		return Observation{}, errors.New("langfuse: finding an observation needs its id")
	}
	if !server.NewReads {
		found, err := call[legacyObservation](ctx, c, get("observations/"+url.PathEscape(id), nil), nil, "observation %q", id)
		return found.observation(), err
	}
	query := url.Values{"fields": {"core,basic"}}
	setFilter(query, condition{"id", "=", "string", id})
	for found, err := range listCursor[Observation](ctx, c, "v2/observations", query, 1, maxObservations) {
		if err != nil {
			return Observation{}, fmt.Errorf("observation %q: %w", id, err)
		}
		return found, nil
	}
	return Observation{}, fmt.Errorf("observation %q: %w", id, ErrNotFound)
}
