package langfuse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"extraction-experiment/internal/textutil"
)

// Scope names the program that made the spans.
type Scope struct {
	// Name is the service and the instrumentation scope. A name that begins
	// with "langfuse-sdk" would claim to be an official SDK.
	Name    string
	Version string
}

// maxReported is how many invalid spans one error lists.
const maxReported = 10

// ExportSpans sends spans in one request: OTLP as protobuf, compressed, marked
// for direct storage (x-langfuse-ingestion-version: 4). Nothing is sent when a
// span is invalid: the error lists up to ten of them. No spans are no request.
//
// A success means queued. Retried with the same bytes; the same spans may be
// sent again any time. After a *ConnectionError it is unknown whether they
// arrived: send them again. Errors: *APIError (400 refuses the whole request;
// ErrTooLarge: send less at once), *ConnectionError.
//
// API: POST /api/public/otel/v1/traces
func (c *Client) ExportSpans(ctx context.Context, scope Scope, spans []Span) error {
	if len(spans) == 0 {
		return nil
	}
	var problems []error
	for _, span := range spans {
		if err := span.Validate(); err != nil && len(problems) < maxReported {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("langfuse: nothing sent: %w", errors.Join(problems...))
	}
	body, err := encodeSpans(scope, spans)
	header := map[string]string{"Content-Type": "application/x-protobuf", "x-langfuse-ingestion-version": "4"}
	if err == nil && !c.config.Uncompressed {
		header["Content-Encoding"] = "gzip"
		body, err = compressed(body)
	}
	if err != nil {
		return fmt.Errorf("langfuse: encoding spans: %w", err)
	}
	_, err = c.do(ctx, request{method: http.MethodPost, path: "otel/v1/traces", body: body, header: header})
	if err != nil {
		return fmt.Errorf("exporting %d spans: %w", len(spans), err)
	}
	return nil
}

// encodeSpans returns the TracesData; the same spans give the same bytes. TracesData is encoded as the export request is.
func encodeSpans(scope Scope, spans []Span) ([]byte, error) {
	encoded := make([]*tracepb.Span, len(spans))
	for i, span := range spans {
		encoded[i] = span.proto()
	}
	data := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			TextAttribute("service.name", scope.Name).proto,
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope.Name, Version: scope.Version},
			Spans: encoded,
		}},
	}}}
	return proto.MarshalOptions{Deterministic: true}.Marshal(data)
}

func compressed(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := compressor.Write(plain); err != nil {
		return nil, err
	}
	err = compressor.Close()
	return out.Bytes(), err
}

// proto returns a valid span as OTLP writes it.
func (s Span) proto() *tracepb.Span {
	traceID, _ := hex.DecodeString(s.TraceID)
	spanID, _ := hex.DecodeString(s.SpanID)
	parentID, _ := hex.DecodeString(s.ParentID)
	attributes := make([]*commonpb.KeyValue, len(s.Attributes))
	for i, attribute := range s.Attributes {
		attributes[i] = attribute.proto
	}
	return &tracepb.Span{
		TraceId: traceID, SpanId: spanID, ParentSpanId: parentID,
		Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(s.Start.UnixNano()), EndTimeUnixNano: uint64(s.End.UnixNano()),
		Attributes: attributes,
		Status:     &tracepb.Status{Code: tracepb.Status_StatusCode(s.Status), Message: s.StatusMessage},
	}
}

// TraceQuery selects traces; empty fields select all. Give a time window, else
// the server reads everything.
type TraceQuery struct {
	// Name is that of the trace; on v4 also that of the root observation, as
	// many traces have no name of their own there.
	Name         string
	Tags         []string  // every one
	Environments []string  // any of
	From, To     time.Time // of the start
	Limit        int       // of a page, at most 100; 0 is 64
}

// ListTraces yields traces that match, through whichever endpoint the server
// has, each once, the newest first (with a Name on v4: those named so, then those
// whose root is named so). Their observations are read with ReadTraces. Retried;
// the first error ends the iteration.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces
func (c *Client) ListTraces(ctx context.Context, server Capabilities, q TraceQuery, want TraceParts) iter.Seq2[Trace, error] {
	traces := c.listRootTraces(ctx, q, want)
	if !server.NewReads {
		traces = c.listLegacyTraces(ctx, q, want)
	}
	return onceEach(traces, func(t Trace) string { return t.ID })
}

func (c *Client) listRootTraces(ctx context.Context, q TraceQuery, want TraceParts) iter.Seq2[Trace, error] {
	return func(yield func(Trace, error) bool) {
		for _, query := range q.observations(want) {
			for root, err := range c.ListObservations(ctx, query) {
				if err != nil {
					yield(Trace{}, fmt.Errorf("listing traces: %w", err))
					return
				}
				if !yield(newTrace(root.TraceID, []Observation{root}), nil) {
					return
				}
			}
		}
	}
}

// observations returns the queries that find the roots.
func (q TraceQuery) observations(want TraceParts) []ObservationsQuery {
	base := ObservationsQuery{
		Roots: true, From: q.From, To: q.To, Environments: q.Environments, Tags: q.Tags, Fields: want.fields(), ExpandMetadata: want.ExpandMetadata, Limit: q.Limit,
	}
	if q.Name == "" {
		return []ObservationsQuery{base}
	}
	byTrace, byRoot := base, base
	byTrace.TraceName, byRoot.Name = q.Name, q.Name
	return []ObservationsQuery{byTrace, byRoot}
}

func (c *Client) listLegacyTraces(ctx context.Context, q TraceQuery, want TraceParts) iter.Seq2[Trace, error] {
	query := url.Values{"orderBy": {"timestamp.desc"}}
	// Without fields the answer holds inputs and outputs, which may be large.
	// Metadata belongs to the same group as they do.
	fields := []string{"core"}
	if want.IO || want.Metadata {
		fields = append(fields, "io")
	}
	setList(query, "fields", fields)
	setText(query, "name", q.Name)
	setTime(query, "fromTimestamp", q.From)
	setTime(query, "toTimestamp", q.To)
	query["tags"], query["environment"] = q.Tags, q.Environments
	return func(yield func(Trace, error) bool) {
		for found, err := range listPages[legacyTrace](ctx, c, "traces", query, q.Limit) {
			if err != nil {
				yield(Trace{}, fmt.Errorf("listing traces: %w", err))
				return
			}
			if q.has(found) && !yield(found.trace(), nil) {
				return
			}
		}
	}
}

// has checks what old servers may ignore in the query.
func (q TraceQuery) has(t legacyTrace) bool {
	for _, tag := range q.Tags {
		if !slices.Contains(t.Tags, tag) {
			return false
		}
	}
	return (len(q.Environments) == 0 || slices.Contains(q.Environments, strings.ToLower(t.Environment))) &&
		(q.Name == "" || q.Name == t.Name)
}

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
func (o Observation) ModelName() string { return cmp.Or(o.ProvidedModelName, o.Model) }

// maxObservations is the largest page of observations.
const maxObservations = 1000

// ObservationsQuery selects observations; empty fields select all. Give traces
// or a time window, else the server reads everything.
type ObservationsQuery struct {
	TraceID  string
	TraceIDs []string // any of; at most a few dozen fit into a query
	Name     string
	// TraceName is the name given to the trace; where none was given it is
	// empty, also where the web interface shows the root's.
	TraceName    string
	Environments []string  // any of
	Tags         []string  // of the trace: every one
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
	if len(q.TraceIDs) == 0 && len(q.Environments) == 0 && len(q.Tags) == 0 && q.TraceName == "" {
		setText(query, "traceId", q.TraceID)
		setText(query, "name", q.Name)
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
	add("stringOptions", "name", "any of", []string{q.Name})
	add("stringOptions", "traceId", "any of", q.TraceIDs)
	add("stringOptions", "traceName", "any of", []string{q.TraceName})
	add("stringOptions", "environment", "any of", q.Environments)
	add("arrayOptions", "tags", "all of", q.Tags)
	filter, err := textutil.MarshalJSON(conditions)
	query.Set("filter", string(filter))
	return err
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
		var found legacyObservation
		if err := c.getJSON(ctx, "observations/"+url.PathEscape(id), nil, &found); err != nil {
			return Observation{}, fmt.Errorf("observation %q: %w", id, err)
		}
		return found.observation(), nil
	}
	filter, err := textutil.MarshalJSON([]any{map[string]any{"type": "string", "column": "id", "operator": "=", "value": id}})
	if err != nil {
		return Observation{}, err
	}
	query := url.Values{"filter": {string(filter)}, "fields": {"core,basic"}}
	for found, err := range listCursor[Observation](ctx, c, "v2/observations", query, 1, maxObservations) {
		if err != nil {
			return Observation{}, fmt.Errorf("observation %q: %w", id, err)
		}
		return found, nil
	}
	return Observation{}, fmt.Errorf("observation %q: %w", id, ErrNotFound)
}
