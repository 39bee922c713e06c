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

// Trace is a trace with its observations, whichever endpoint it came from.
type Trace struct {
	ID          string
	Name        string    // as given to the trace, else that of the root
	Time        time.Time `json:"timestamp"`
	Environment string
	UserID      string
	SessionID   string
	Release     string
	Version     string
	Tags        []string
	// Input, Output and Metadata are those of the trace; v4 has only the root
	// observation's. A text that holds JSON is that JSON.
	Input, Output, Metadata json.RawMessage
	// Observations are sorted by start, each id once. ListTraces gives none on
	// servers with the tables of v3, and the root alone on others.
	Observations []Observation
	// Scores are those of the trace and its observations, where the answer
	// brings them along: on servers with the tables of v3 only. ReadScores works
	// everywhere.
	Scores []Score
}

// Root returns the observation without a parent, and whether it is there; a
// trace whose root has not arrived, or was cut off, has none.
func (t Trace) Root() (Observation, bool) {
	for _, o := range t.Observations {
		if o.ParentID == "" {
			return o, true
		}
	}
	return Observation{}, false
}

// TraceParts says what of a trace is read beside ids, times, names, levels,
// models, prompts, usage and cost. Servers with the tables of v3 send all of it
// whatever is asked for.
type TraceParts struct {
	// IO: input and output, which may be large.
	IO bool
	// Metadata: values over 200 characters are cut on v4 unless their key is in
	// ExpandMetadata.
	Metadata       bool
	ExpandMetadata []string
	// Roots leaves all observations but the root out, on v4.
	Roots bool
}

// GetTrace returns a trace with its observations. Retried; errors: ErrNotFound
// (not there, not there yet, or of another project), *APIError,
// *ConnectionError.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces/{id}
func (c *Client) GetTrace(ctx context.Context, server Capabilities, id string, parts TraceParts) (Trace, error) {
	for trace, err := range c.ReadTraces(ctx, server, []string{id}, parts) {
		return trace, err
	}
	return Trace{}, fmt.Errorf("trace %q: %w in this project", id, ErrNotFound)
}

// tracesAtOnce is how many requests for traces are under way at once, where none of the
// answers is large. Asked for one by one, up to tracesAhead are read while one is slow.
const (
	tracesAtOnce = 8
	tracesAhead  = 64
)

// ReadTraces yields the traces of the ids with their observations, in the order
// of the ids; those that the server does not have are left out. v4 is asked for
// 50 traces with a request, v3 for one. Eight requests are under way at once, or one
// for 50 traces with input and output. Retried; the first error ends the iteration.
//
// API: GET /api/public/v2/observations, or GET /api/public/traces/{id}
func (c *Client) ReadTraces(ctx context.Context, server Capabilities, ids []string, want TraceParts) iter.Seq2[Trace, error] {
	read, each, atOnce := c.readLegacyTrace, 1, tracesAtOnce
	if server.NewReads {
		each = maxListed
		read = func(ctx context.Context, ids []string) ([]Trace, error) { return c.readNewTraces(ctx, ids, want) }
		if want.IO && !want.Roots {
			atOnce = 1
		}
	}
	return func(yield func(Trace, error) bool) {
		parts := slices.Collect(slices.Chunk(ids, each))
		get := func(ctx context.Context, i int) ([]Trace, error) { return read(ctx, parts[i]) }
		for traces, err := range inTurn(ctx, len(parts), atOnce, max(atOnce, tracesAhead/each), get) {
			if err != nil {
				yield(Trace{}, err)
				return
			}
			for _, trace := range traces {
				if !yield(trace, nil) {
					return
				}
			}
		}
	}
}

// readNewTraces reads traces from observations. A server that does not know the
// filter for many traces (400) is asked for each.
func (c *Client) readNewTraces(ctx context.Context, ids []string, want TraceParts) ([]Trace, error) {
	query := ObservationsQuery{TraceParts: want, TraceIDs: ids, Limit: maxObservations}
	if want.IO {
		query.Limit = defaultPageLimit
	}
	found, err := c.collectTraces(ctx, query)
	refused, ok := errors.AsType[*APIError](err)
	if !ok || refused.Status != http.StatusBadRequest || len(ids) == 1 {
		if err != nil {
			err = fmt.Errorf("reading %s: %w", textutil.Counted(len(ids), "trace"), err)
		}
		return found, err
	}
	found = nil
	for _, id := range ids {
		one, err := c.readNewTraces(ctx, []string{id}, want)
		if err != nil {
			return nil, err
		}
		found = append(found, one...)
	}
	return found, nil
}

// collectTraces reads observations and puts those of one trace together, in the order in
// which the traces are asked for.
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

// newTrace puts a trace together from observations of v4, in any order, doubles
// included: of two with one id the first counts.
func newTrace(id string, observations []Observation) Trace {
	trace := Trace{ID: id, Observations: uniqueSpans(observations)}
	for _, o := range trace.Observations {
		trace.Name = cmp.Or(trace.Name, o.TraceName)
		if len(trace.Tags) == 0 {
			trace.Tags = o.Tags
		}
		trace.Release = cmp.Or(trace.Release, o.Release)
	}
	head, ok := trace.Root()
	if !ok && len(trace.Observations) > 0 {
		trace.Time, trace.Environment = trace.Observations[0].StartTime, trace.Observations[0].Environment
		return trace
	}
	trace.Name = cmp.Or(trace.Name, head.Name)
	trace.Time, trace.Environment, trace.Version = head.StartTime, head.Environment, head.Version
	trace.UserID, trace.SessionID = head.UserID, head.SessionID
	trace.Input, trace.Output, trace.Metadata = head.Input, head.Output, head.Metadata
	return trace
}

// uniqueSpans returns the observations by start, each id once, with their texts
// that hold JSON as that JSON.
func uniqueSpans(observations []Observation) []Observation {
	seen := make(map[string]bool, len(observations))
	unique := make([]Observation, 0, len(observations))
	for _, o := range observations {
		if seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		o.Input, o.Output = DecodeIO(o.Input), DecodeIO(o.Output)
		unique = append(unique, o)
	}
	slices.SortStableFunc(unique, func(a, b Observation) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), cmp.Compare(len(a.ParentID), len(b.ParentID)), strings.Compare(a.ID, b.ID))
	})
	return unique
}

// legacyTrace is a trace as v3 writes it.
type legacyTrace struct {
	Trace
	Observations []legacyObservation `json:"observations"`
}

// listedTrace is a trace in a list of v3, where the observations and scores are ids only.
type listedTrace struct {
	Trace
	Observations, Scores json.RawMessage
}

// legacyObservation has the names by which v3 calls usage and cost as well.
type legacyObservation struct {
	Observation
	CalculatedTotalCost Number `json:"calculatedTotalCost"`
	Usage               struct {
		Input  Number `json:"input"`
		Output Number `json:"output"`
		Total  Number `json:"total"`
	} `json:"usage"`
}

func (o legacyObservation) observation() Observation {
	out := o.Observation
	out.TotalCost = cmp.Or(out.TotalCost, cmp.Or(o.CalculatedTotalCost, o.CostDetails["total"]))
	if len(out.UsageDetails) == 0 && o.Usage.Total+o.Usage.Input+o.Usage.Output > 0 {
		out.UsageDetails = map[string]Number{"input": o.Usage.Input, "output": o.Usage.Output, "total": o.Usage.Total}
	}
	return out
}

// decoded returns the trace with texts that hold JSON as that JSON.
func (t Trace) decoded() Trace {
	t.Input, t.Output = DecodeIO(t.Input), DecodeIO(t.Output)
	return t
}

// readLegacyTrace reads one trace from the tables of v3, with everything; none where it
// is not there.
func (c *Client) readLegacyTrace(ctx context.Context, ids []string) ([]Trace, error) {
	id := ids[0]
	if id == "" {
		return nil, errors.New("langfuse: reading a trace needs its id")
	}
	found, err := call[legacyTrace](ctx, c, get("traces/"+url.PathEscape(id), nil), nil, "trace %q", id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trace := found.Trace.decoded()
	spans := make([]Observation, len(found.Observations))
	for i, o := range found.Observations {
		spans[i] = o.observation()
		spans[i].TraceID = cmp.Or(spans[i].TraceID, id)
	}
	trace.Observations = uniqueSpans(spans)
	for i, score := range trace.Scores {
		if score.Subject.Kind == "observation" {
			trace.Scores[i].Subject.TraceID = cmp.Or(score.Subject.TraceID, id)
		}
	}
	return []Trace{trace}, nil
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
