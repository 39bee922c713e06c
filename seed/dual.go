package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/langfuse"
)

// older returns what a server that writes its tables both ways can do in the
// older way, and whether it is one. What programs send the older way has its
// name, tags, input and output on the trace; the newer reads know observations
// only, and find none of that.
func (r *reader) older() (langfuse.Capabilities, bool) {
	older := r.server
	older.NewReads = false
	return older, r.server.NewReads && r.server.LegacyReads
}

// listed returns the traces of a query that are wanted (nil: all), the newest
// first, at most limit (0: all); from both tables where there are both.
func (r *reader) listed(ctx context.Context, query langfuse.TraceQuery, wanted map[string]bool, limit int) ([]candidate, error) {
	list, err := r.listedIn(ctx, r.server, query, wanted, limit)
	older, both := r.older()
	if err != nil || !both {
		return list, err
	}
	more, err := r.listedIn(ctx, older, query, wanted, limit)
	if err != nil && !errors.Is(err, langfuse.ErrEndpointGone) {
		return nil, err
	}
	known := map[string]bool{}
	for _, c := range list {
		known[c.id] = true
	}
	for _, c := range more {
		if !known[c.id] {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return b.began.Compare(a.began) })
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, nil
}

func (r *reader) listedIn(ctx context.Context, server langfuse.Capabilities, query langfuse.TraceQuery, wanted map[string]bool, limit int) ([]candidate, error) {
	var list []candidate
	for trace, err := range r.client.ListTraces(ctx, server, query, langfuse.TraceParts{}) {
		if err != nil {
			return nil, err
		}
		if wanted != nil && !wanted[trace.ID] {
			continue
		}
		if list = append(list, candidate{id: trace.ID, began: trace.Time}); len(list) == limit {
			break
		}
	}
	return list, nil
}

// oneTrace reads one trace. found, if not nil, is what the newer reads gave of
// it; where something may be missing there, the older ones are asked.
func (r *reader) oneTrace(ctx context.Context, id string, found *langfuse.Trace) (langfuse.Trace, error) {
	var trace langfuse.Trace
	var err error
	if found != nil {
		trace = *found
	} else {
		trace, err = r.client.GetTrace(ctx, r.server, id, r.parts)
	}
	older, both := r.older()
	if !both || err != nil && !errors.Is(err, langfuse.ErrNotFound) || err == nil && !r.lacks(trace) {
		return trace, err
	}
	other, otherErr := r.client.GetTrace(ctx, older, id, r.parts)
	switch {
	case errors.Is(otherErr, langfuse.ErrNotFound), errors.Is(otherErr, langfuse.ErrEndpointGone):
		return trace, err
	case otherErr != nil:
		return trace, otherErr
	case err != nil, isNothing(trace.Input) && !isNothing(other.Input), isNothing(trace.Output) && !isNothing(other.Output), len(trace.Tags) < len(other.Tags):
		return other, nil
	}
	return trace, nil
}

// lacks reports whether a trace has nothing where the older tables may have it.
func (r *reader) lacks(t langfuse.Trace) bool {
	return isNothing(t.Input) || isNothing(t.Output) || r.tagged && len(t.Tags) == 0
}

// observation finds an observation of which only the id is known.
func (r *reader) observation(ctx context.Context, id string) (langfuse.Observation, error) {
	found, err := r.client.FindObservation(ctx, r.server, id)
	older, both := r.older()
	if !both || !errors.Is(err, langfuse.ErrNotFound) {
		return found, err
	}
	if found, err = r.client.FindObservation(ctx, older, id); errors.Is(err, langfuse.ErrEndpointGone) {
		err = fmt.Errorf("observation %q: %w", id, langfuse.ErrNotFound)
	}
	return found, err
}

// metadata gives the metadata of traces; those that are not there are left out.
func (r *reader) metadata(ctx context.Context, ids []string, key string, give func(langfuse.Trace)) error {
	want := langfuse.TraceParts{Metadata: true, ExpandMetadata: []string{key}}
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	servers := []langfuse.Capabilities{r.server}
	if older, both := r.older(); both {
		servers = append(servers, older)
	}
	for _, server := range servers {
		rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !missing[id] })
		for trace, err := range r.client.ReadTraces(ctx, server, rest, want) {
			if errors.Is(err, langfuse.ErrEndpointGone) && !server.NewReads && r.server.NewReads {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading the metadata of %d traces: %w", len(rest), err)
			}
			if missing[trace.ID] = isNothing(trace.Metadata); !missing[trace.ID] {
				give(trace)
			}
		}
	}
	return nil
}
