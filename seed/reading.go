package seed

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
)

// reader reads traces and what people said about them, from every kind of
// server.
type reader struct {
	client  *langfuse.Client
	server  langfuse.Capabilities
	parts   langfuse.TraceParts
	workers int
}

// evidenceRead is a trace as it was read, or why it was not.
type evidenceRead struct {
	trace  langfuse.Trace
	scores []langfuse.Score
	err    error // a *refusal
}

// completedItems reads the completed items of all annotation queues, by the id
// of their object. A server without queues has none.
func (r *reader) completedItems(ctx context.Context) (map[string][]completed, error) {
	items := map[string][]completed{}
	for queue, err := range r.client.ListAnnotationQueues(ctx) {
		if errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound) {
			return items, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the annotation queues: %w", err)
		}
		for item, err := range r.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
			if err != nil {
				return nil, fmt.Errorf("reading the annotation queue %q: %w", queue.Name, err)
			}
			items[item.ObjectID] = append(items[item.ObjectID], completed{item, queue.Name})
		}
	}
	return items, nil
}

// refusalOf says whether an error is about one trace alone; any other ends the
// work.
func (r *reader) refusalOf(err error) error {
	var api *langfuse.APIError
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		return refuse(UnknownTrace, "", "there is no such trace in this project: the id is wrong, of another project, or has not arrived yet")
	case errors.Is(err, langfuse.ErrRateLimited):
		return refuse(NotRead, "", "could not be read: %v; the same command again goes on where this one stopped", err)
	case errors.Is(err, langfuse.ErrTooLarge):
		return refuse(TooLarge, "", "could not be read: %v", err)
	case errors.As(err, &api) && api.Status >= 400 && api.Status < 500 && !errors.Is(err, langfuse.ErrUnauthorized) && !errors.Is(err, langfuse.ErrEndpointGone):
		return refuse(NotRead, "", "could not be read: %v", err)
	}
	return nil
}

// read reads traces with their scores, in the order of the ids. The error is
// for what ends the work.
func (r *reader) read(ctx context.Context, ids []string) ([]evidenceRead, error) {
	found := make([]evidenceRead, len(ids))
	together := map[string]langfuse.Trace{}
	if r.server.NewReads {
		var err error
		together, err = r.readTogether(ctx, ids)
		if errors.Is(err, langfuse.ErrRateLimited) { // each would be, too
			for i := range found {
				found[i].err = r.refusalOf(err)
			}
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(r.workers)
	for i, id := range ids {
		if trace, ok := together[id]; ok {
			found[i].trace = trace
			continue
		}
		group.Go(func() error {
			var err error
			if found[i].trace, err = r.client.GetTrace(working, r.server, id, r.parts); err != nil {
				if found[i].err = r.refusalOf(err); found[i].err == nil {
					return fmt.Errorf("reading traces: %w", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return found, r.readScores(ctx, ids, found)
}

// readTogether reads what one request for all gives; the rest is asked for one
// by one, so that each can be named.
func (r *reader) readTogether(ctx context.Context, ids []string) (map[string]langfuse.Trace, error) {
	traces := map[string]langfuse.Trace{}
	for trace, err := range r.client.ReadTraces(ctx, r.server, ids, r.parts) {
		if err != nil && r.refusalOf(err) != nil && !errors.Is(err, langfuse.ErrRateLimited) {
			return map[string]langfuse.Trace{}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading traces: %w", err)
		}
		traces[trace.ID] = trace
	}
	return traces, nil
}

func (r *reader) readScores(ctx context.Context, ids []string, found []evidenceRead) error {
	byTrace := map[string][]langfuse.Score{}
	for score, err := range r.client.ReadScores(ctx, r.server, langfuse.ScoresQuery{TraceIDs: ids, Limit: 100}) {
		if err == nil {
			byTrace[score.TraceID()] = append(byTrace[score.TraceID()], score)
			continue
		}
		refused := r.refusalOf(err)
		if refused == nil {
			return fmt.Errorf("reading scores: %w", err)
		}
		for i := range found {
			if found[i].err == nil {
				found[i].err = refused
			}
		}
		return nil
	}
	for i, id := range ids {
		found[i].scores = byTrace[id]
	}
	return nil
}
