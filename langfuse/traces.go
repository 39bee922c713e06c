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
	"google.golang.org/protobuf/encoding/protowire"

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

// ExportSpans sends spans: OTLP as protobuf, compressed, marked for direct storage
// (x-langfuse-ingestion-version: 4), in requests of DefaultBatchBytes and
// DefaultBatchSpans at most, one after the other. Nothing is sent when a span is
// invalid: the error lists up to ten of them. No spans are no request.
//
// A success means queued. Retried with the same bytes; the same spans may be
// sent again any time. After a *ConnectionError it is unknown whether they
// arrived: send them again. Errors: *APIError (400 refuses the whole request;
// ErrTooLarge: send less at once), *ConnectionError.
//
// API: POST /api/public/otel/v1/traces
func (c *Client) ExportSpans(ctx context.Context, scope Scope, spans []Span) error {
	var invalid problems
	for _, span := range spans {
		if err := span.Validate(); err != nil && len(invalid) < maxReported {
			invalid = append(invalid, err)
		}
	}
	if len(invalid) > 0 {
		return fmt.Errorf("langfuse: nothing sent: %w", errors.Join(invalid...))
	}
	for batch := range splitSpans(spans, DefaultBatchBytes, DefaultBatchSpans) {
		if err := c.exportBatch(ctx, scope, batch); err != nil {
			return fmt.Errorf("exporting %d spans: %w", len(batch), err)
		}
	}
	return nil
}

// exportBatch sends spans in one request.
func (c *Client) exportBatch(ctx context.Context, scope Scope, spans []Span) (err error) {
	r := request{method: http.MethodPost, path: "otel/v1/traces", body: encodeSpans(scope, spans)}
	r.header = map[string]string{"Content-Type": "application/x-protobuf", "x-langfuse-ingestion-version": "4"}
	if !c.config.Uncompressed {
		r.header["Content-Encoding"] = "gzip"
		if r.body, err = c.compressed(r.body); err != nil {
			return err
		}
	}
	_, err = c.do(ctx, r, nil)
	return err
}

// encodeSpans returns an export request of OTLP in protobuf; the same spans give the same
// bytes. The numbers of the fields are those of trace.proto: a request holds ResourceSpans
// (1) with a resource (1) and ScopeSpans (2) with a scope (1) and spans (2).
func encodeSpans(scope Scope, spans []Span) []byte {
	resource := TextAttribute("service.name", scope.Name).proto(nil)
	scoped := appendBytes(nil, 1, appendText(appendText(nil, 1, scope.Name), 2, scope.Version))
	size := 0
	for _, span := range spans {
		size += span.size()
	}
	body := make([]byte, 0, size+512)
	var one []byte
	for _, span := range spans {
		one = span.proto(one[:0])
		body = appendBytes(body, 2, one)
	}
	head := appendBytes(nil, 1, appendBytes(nil, 1, resource))
	head = append(appendLength(head, 2, len(scoped)+len(body)), scoped...)
	whole := appendLength(nil, 1, len(head)+len(body))
	return slices.Insert(body, 0, append(whole, head...)...)
}

// proto appends a valid span as OTLP writes it: a message Span.
func (s Span) proto(b []byte) []byte {
	const internal, status, failed = 1, 15, 2
	for i, id := range []string{s.TraceID, s.SpanID, s.ParentID} {
		if id != "" {
			b = appendLength(b, []protowire.Number{1, 2, 4}[i], len(id)/2)
			b, _ = hex.AppendDecode(b, []byte(id)) // Validate looked at it
		}
	}
	b = appendText(b, 5, s.Name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), internal)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), uint64(s.Start.UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 8, protowire.Fixed64Type), uint64(s.End.UnixNano()))
	for _, attribute := range s.Attributes {
		b = attribute.proto(appendLength(b, 9, attribute.size()))
	}
	ended := appendText(nil, 2, s.StatusMessage)
	if s.Failed {
		ended = protowire.AppendVarint(protowire.AppendTag(ended, 3, protowire.VarintType), failed)
	}
	return appendBytes(b, status, ended)
}

// proto appends an attribute as OTLP writes it: a message KeyValue with an AnyValue.
func (a Attribute) proto(b []byte) []byte {
	b = appendLength(appendText(b, 1, a.Key), 2, a.valueSize())
	if a.isNumber {
		return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(a.number))
	}
	return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), a.text)
}

// size is how many bytes proto appends.
func (a Attribute) size() int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.Key)) + protowire.SizeTag(2) + protowire.SizeBytes(a.valueSize())
}

func (a Attribute) valueSize() int {
	if a.isNumber {
		return protowire.SizeTag(3) + protowire.SizeVarint(uint64(a.number))
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.text))
}

// appendText appends a field with a text, as protobuf does: an empty one is left out.
func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// appendLength begins a field of so many bytes, which are to follow.
func appendLength(b []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(length))
}

// appendBytes appends a field with a message.
func appendBytes(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

// compressed returns what unpacks to plain. A compressor takes 0.8 MB, so that they are kept.
func (c *Client) compressed(plain []byte) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, len(plain)/8))
	compressor, kept := c.compressors.Get().(*gzip.Writer)
	if kept {
		compressor.Reset(out)
	} else {
		compressor, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is one that there is
	}
	defer c.compressors.Put(compressor)
	if _, err := compressor.Write(plain); err != nil {
		return nil, err
	}
	err := compressor.Close()
	return out.Bytes(), err
}

// TraceQuery selects traces; empty fields select all. Give a time window, else
// the server reads everything.
type TraceQuery struct {
	// Name is that of the trace; on v4 also that of the root observation, as
	// many traces have no name of their own there.
	Name        string
	Tags        []string // every one
	Environment string
	From, To    time.Time // of the start
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
	trace := func(root Observation) (Trace, bool) { return newTrace(root.TraceID, []Observation{root}), true }
	return func(yield func(Trace, error) bool) {
		for _, query := range q.observations(want) {
			for trace, err := range convert(c.ListObservations(ctx, query), trace, "listing traces") {
				if !yield(trace, err) || err != nil {
					return
				}
			}
		}
	}
}

// observations returns the queries that find the roots.
func (q TraceQuery) observations(want TraceParts) []ObservationsQuery {
	want.Roots = true
	base := ObservationsQuery{TraceParts: want, Tags: q.Tags, Environment: q.Environment, From: q.From, To: q.To}
	if q.Name == "" {
		return []ObservationsQuery{base}
	}
	byTrace, byRoot := base, base
	byTrace.TraceName, byRoot.Name = q.Name, q.Name
	return []ObservationsQuery{byTrace, byRoot}
}

func (c *Client) listLegacyTraces(ctx context.Context, q TraceQuery, want TraceParts) iter.Seq2[Trace, error] {
	query := url.Values{"orderBy": {"timestamp.desc"}, "fields": {"core"}, "tags": q.Tags}
	// Without fields the answer holds inputs and outputs, which may be large.
	// Metadata belongs to the same group as they do.
	if want.IO || want.Metadata {
		query.Set("fields", "core,io")
	}
	setText(query, "name", q.Name)
	setText(query, "environment", q.Environment)
	setTime(query, "fromTimestamp", q.From)
	setTime(query, "toTimestamp", q.To)
	trace := func(found listedTrace) (Trace, bool) { return found.Trace.decoded(), q.has(found.Trace) }
	return convert(listPages[listedTrace](ctx, c, "traces", query, 0), trace, "listing traces")
}

// has checks what old servers may ignore in the query.
func (q TraceQuery) has(t Trace) bool {
	untagged := func(tag string) bool { return !slices.Contains(t.Tags, tag) }
	return !slices.ContainsFunc(q.Tags, untagged) && (q.Name == "" || q.Name == t.Name) &&
		(q.Environment == "" || q.Environment == strings.ToLower(t.Environment))
}

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
