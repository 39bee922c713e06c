package langfuse

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"
)

// TraceQuery selects traces; empty fields select all. Give a time window, else
// the server reads everything.
type TraceQuery struct {
	// Name is that of the trace; on v4 also that of the root observation, as
	// many traces have no name of their own there.
	Name         string
	Tags         []string // every one
	Environments []string // any of
	UserID       string
	SessionID    string
	Version      string
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
	if !server.NewReads {
		return c.listLegacyTraces(ctx, q, want)
	}
	return func(yield func(Trace, error) bool) {
		seen := map[string]bool{}
		for _, query := range q.observations(want) {
			for root, err := range c.ListObservations(ctx, query) {
				if err != nil {
					yield(Trace{}, fmt.Errorf("listing traces: %w", err))
					return
				}
				if seen[root.TraceID] {
					continue
				}
				seen[root.TraceID] = true
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
		Roots: true, From: q.From, To: q.To, UserID: q.UserID, SessionID: q.SessionID, Version: q.Version,
		Environments: q.Environments, AllTags: q.Tags, Fields: want.fields(), ExpandMetadata: want.ExpandMetadata, Limit: q.Limit,
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
	setText(query, "userId", q.UserID)
	setText(query, "sessionId", q.SessionID)
	setText(query, "version", q.Version)
	setTime(query, "fromTimestamp", q.From)
	setTime(query, "toTimestamp", q.To)
	query["tags"], query["environment"] = q.Tags, q.Environments
	return func(yield func(Trace, error) bool) {
		seen := map[string]bool{}
		for found, err := range listPages[legacyTrace](ctx, c, "traces", query, q.Limit) {
			if err != nil {
				yield(Trace{}, fmt.Errorf("listing traces: %w", err))
				return
			}
			if seen[found.ID] || !q.has(found) {
				continue
			}
			seen[found.ID] = true
			if !yield(found.trace(), nil) {
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
