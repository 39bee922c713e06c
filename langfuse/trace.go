package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
)

// Trace is a trace with its observations. Its form does not depend on the endpoint.
type Trace struct {
	ID          string
	Name        string    // the name of the trace; on v4 of its root observation if the trace has none
	Time        time.Time `json:"timestamp"`
	Environment string
	UserID      string
	SessionID   string
	Release     string
	Version     string
	Tags        []string
	// Input, Output and Metadata are those of the trace, or of the root observation on v4.
	// Input and Output are decoded by DecodeJSON.
	Input, Output, Metadata json.RawMessage
	// Observations are sorted by start time and have unique ids. In the results of ListTraces,
	// they contain only the root if Capabilities.NewReads is set, and are empty otherwise.
	Observations []Observation
	// Scores are the scores of the trace and its observations. They are empty in the results of
	// ListTraces, and if Capabilities.NewReads is set; ReadScores works on all servers.
	Scores []Score
}

// Root returns the observation without a parent. ok is false if the root has not arrived or was
// not read.
func (t Trace) Root() (Observation, bool) {
	for _, o := range t.Observations {
		if o.ParentID == "" {
			return o, true
		}
	}
	return Observation{}, false
}

// TraceParts selects the parts of a trace that are read in addition to ids, times, names,
// levels, models, prompts, usage and cost. Without Capabilities.NewReads, GetTrace and
// ReadTraces always read everything.
type TraceParts struct {
	// IO selects input and output, which may be large.
	IO bool
	// Metadata selects metadata. v4 truncates values of more than 200 characters, unless their
	// key is in ExpandMetadata.
	Metadata       bool
	ExpandMetadata []string
	// Roots excludes all observations except the root, on v4.
	Roots bool
}

// GetTrace returns a trace with its observations. Retried; errors: ErrNotFound (the trace does
// not exist, or not yet, or belongs to another project), *APIError, *ConnectionError.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces/{id}
func (c *Client) GetTrace(ctx context.Context, caps Capabilities, id string, parts TraceParts) (Trace, error) {
	for trace, err := range c.ReadTraces(ctx, caps, []string{id}, parts) {
		return trace, err
	}
	return Trace{}, fmt.Errorf("trace %q: %w in this project", id, ErrNotFound)
}

// ReadTraces runs at most traceRequests requests at the same time. Traces that are read one by
// one are read up to tracesAhead ahead of the one that is yielded.
const (
	traceRequests = 8
	tracesAhead   = 64
)

// ReadTraces yields the traces of the ids with their observations, in the order of the ids. It
// skips traces that the server does not have. It reads 50 traces per request with
// Capabilities.NewReads, otherwise one. Eight requests run concurrently; only one does if the
// response contains 50 traces with the input and output of all observations. Retried; the first
// error ends the iteration.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces/{id}
func (c *Client) ReadTraces(ctx context.Context, caps Capabilities, ids []string,
	parts TraceParts) iter.Seq2[Trace, error] {
	if slices.Contains(ids, "") {
		return func(yield func(Trace, error) bool) { yield(Trace{}, usageError("reading a trace needs its id")) }
	}
	read, perRequest, concurrency := c.readLegacyTrace, 1, traceRequests
	if caps.NewReads {
		perRequest = maxQueryIDs
		read = func(ctx context.Context, ids []string) ([]Trace, error) { return c.readNewTraces(ctx, ids, parts) }
		if parts.IO && !parts.Roots {
			concurrency = 1
		}
	}
	chunks := slices.Collect(slices.Chunk(ids, perRequest))
	get := func(ctx context.Context, i int) ([]Trace, error) { return read(ctx, chunks[i]) }
	return elements(inOrder(ctx, len(chunks), concurrency, max(concurrency, tracesAhead/perRequest), get))
}

// readNewTraces reads traces from v2/observations. If the server does not support the filter
// for several traces (400), it reads them one by one.
func (c *Client) readNewTraces(ctx context.Context, ids []string, parts TraceParts) ([]Trace, error) {
	query := ObservationsQuery{TraceParts: parts, TraceIDs: ids, Limit: maxObservations}
	if parts.IO {
		query.Limit = defaultPageLimit
	}
	traces, err := c.collectTraces(ctx, query)
	api, ok := errors.AsType[*APIError](err)
	if !ok || api.Status != http.StatusBadRequest || len(ids) == 1 {
		if err != nil {
			err = fmt.Errorf("reading %s: %w", textutil.Counted(len(ids), "trace"), err)
		}
		return traces, err
	}
	traces = nil
	for _, id := range ids {
		one, err := c.readNewTraces(ctx, []string{id}, parts)
		if err != nil {
			return nil, err
		}
		traces = append(traces, one...)
	}
	return traces, nil
}

// collectTraces reads observations and groups them by trace, in the order of query.TraceIDs.
func (c *Client) collectTraces(ctx context.Context, query ObservationsQuery) ([]Trace, error) {
	byTrace := map[string][]Observation{}
	for o, err := range c.ListObservations(ctx, query) {
		if err != nil {
			return nil, err
		}
		byTrace[o.TraceID] = append(byTrace[o.TraceID], o)
	}
	var traces []Trace
	for _, id := range query.TraceIDs {
		if spans := byTrace[id]; spans != nil {
			traces = append(traces, newTrace(id, spans))
			delete(byTrace, id)
		}
	}
	return traces, nil
}

// newTrace builds a trace from observations of v4, which may be in any order. If several have
// the same id, it uses the first.
func newTrace(id string, observations []Observation) Trace {
	trace := Trace{ID: id, Observations: uniqueSpans(observations)}
	for _, o := range trace.Observations {
		trace.Name = cmp.Or(trace.Name, o.TraceName)
		if len(trace.Tags) == 0 {
			trace.Tags = o.Tags
		}
		trace.Release = cmp.Or(trace.Release, o.Release)
	}
	root, ok := trace.Root()
	if !ok && len(trace.Observations) > 0 {
		root.StartTime, root.Environment = trace.Observations[0].StartTime, trace.Observations[0].Environment
	}
	trace.Name = cmp.Or(trace.Name, root.Name)
	trace.Time, trace.Environment, trace.Version = root.StartTime, root.Environment, root.Version
	trace.UserID, trace.SessionID = root.UserID, root.SessionID
	trace.Input, trace.Output, trace.Metadata = root.Input, root.Output, root.Metadata
	return trace
}

// uniqueSpans returns the observations sorted by start time, each id once, with decoded input
// and output and their total cost.
func uniqueSpans(observations []Observation) []Observation {
	seen := make(map[string]bool, len(observations))
	unique := make([]Observation, 0, len(observations))
	for _, o := range observations {
		if seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		o.Input, o.Output = DecodeJSON(o.Input), DecodeJSON(o.Output)
		o.TotalCost = cmp.Or(o.TotalCost, o.CalculatedTotalCost, o.CostDetails["total"])
		unique = append(unique, o)
	}
	slices.SortStableFunc(unique, func(a, b Observation) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), cmp.Compare(len(a.ParentID), len(b.ParentID)), strings.Compare(a.ID, b.ID))
	})
	return unique
}

// listedTrace is a trace in a list of v3, which contains only the ids of observations and
// scores.
type listedTrace struct {
	Trace
	Observations, Scores json.RawMessage
}

// decoded returns the trace with decoded input and output.
func (t Trace) decoded() Trace {
	t.Input, t.Output = DecodeJSON(t.Input), DecodeJSON(t.Output)
	return t
}

// readLegacyTrace reads the trace of the only id from v3, with all parts. It returns no trace
// if the trace does not exist.
func (c *Client) readLegacyTrace(ctx context.Context, ids []string) ([]Trace, error) {
	id := ids[0]
	trace, err := call[Trace](ctx, c, get("traces/"+url.PathEscape(id), nil), nil, "trace %q", id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trace = trace.decoded()
	trace.Observations = uniqueSpans(trace.Observations)
	return []Trace{trace}, nil
}

// TraceQuery selects traces. Empty fields select all. Without From, the server has to search
// everything.
type TraceQuery struct {
	// Name is the name of the trace. On v4 it may also be the name of the root observation,
	// because many traces have no name of their own there.
	Name        string
	Tags        []string // the trace has all of them
	Environment string
	From, To    time.Time // range of the start time
}

// ListTraces yields the matching traces from whichever endpoint the server has, each id once,
// the newest first. For a Name on v4, it yields the traces with this name first and then those
// whose root has this name. Use ReadTraces to read their observations. Retried; the first error
// ends the iteration.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces
func (c *Client) ListTraces(ctx context.Context, caps Capabilities, q TraceQuery,
	parts TraceParts) iter.Seq2[Trace, error] {
	traces := c.listRootTraces(ctx, q, parts)
	if !caps.NewReads {
		traces = c.listLegacyTraces(ctx, q, parts)
	}
	return unique(traces, func(t Trace) string { return t.ID })
}

func (c *Client) listRootTraces(ctx context.Context, q TraceQuery, parts TraceParts) iter.Seq2[Trace, error] {
	parts.Roots = true
	query := ObservationsQuery{TraceParts: parts, Tags: q.Tags, Environment: q.Environment, From: q.From, To: q.To}
	byTrace, byRoot := query, query
	byTrace.TraceName, byRoot.Name = q.Name, q.Name
	queries := []ObservationsQuery{byTrace, byRoot}
	if q.Name == "" {
		queries = queries[:1]
	}
	trace := func(root Observation) (Trace, bool) { return newTrace(root.TraceID, []Observation{root}), true }
	return func(yield func(Trace, error) bool) {
		for _, query := range queries {
			for trace, err := range convert(c.ListObservations(ctx, query), trace, "listing traces") {
				if !yield(trace, err) || err != nil {
					return
				}
			}
		}
	}
}

func (c *Client) listLegacyTraces(ctx context.Context, q TraceQuery, parts TraceParts) iter.Seq2[Trace, error] {
	query := url.Values{"orderBy": {"timestamp.desc"}, "fields": {"core"}, "tags": q.Tags}
	// Without the parameter fields, the response contains inputs and outputs, which may be
	// large. Metadata belongs to the group io as well.
	if parts.IO || parts.Metadata {
		query.Set("fields", "core,io")
	}
	setText(query, "name", q.Name)
	setText(query, "environment", q.Environment)
	setTime(query, "fromTimestamp", q.From)
	setTime(query, "toTimestamp", q.To)
	trace := func(found listedTrace) (Trace, bool) { return found.Trace.decoded(), q.matches(found.Trace) }
	return convert(listPages[listedTrace](ctx, c, "traces", query, 0), trace, "listing traces")
}

// matches checks the conditions that old servers may ignore.
func (q TraceQuery) matches(t Trace) bool {
	missing := func(tag string) bool { return !slices.Contains(t.Tags, tag) }
	return !slices.ContainsFunc(q.Tags, missing) && (q.Name == "" || q.Name == t.Name) &&
		(q.Environment == "" || q.Environment == strings.ToLower(t.Environment))
}
