package tracking

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
)

// scores reads the scores of traces.
func (v *verifier) scores(ctx context.Context, ids []string) (map[string][]langfuse.Score, error) {
	found := map[string][]langfuse.Score{}
	if len(ids) == 0 { // no list would be all scores of the project
		return found, nil
	}
	for s, err := range v.cfg.Client.ReadScores(ctx, v.cfg.Server.Capabilities, langfuse.ScoresQuery{TraceIDs: ids, Limit: 100}) {
		if err != nil {
			return nil, err
		}
		found[s.TraceID()] = append(found[s.TraceID()], s)
	}
	return found, nil
}

// traces reads traces for a verification.
func (v *verifier) traces(ctx context.Context, ids []string) (map[string]langfuse.Trace, error) {
	return readTraces(ctx, v.site(), v.cfg.Requests, ids, langfuse.TraceParts{})
}

// readTraces reads traces; v3 answers one with a request, so several are under way.
func readTraces(ctx context.Context, from site, requests int, ids []string, want langfuse.TraceParts) (map[string]langfuse.Trace, error) {
	atOnce := 50
	if !from.server.NewReads {
		atOnce = 1
	}
	var mu sync.Mutex
	found := map[string]langfuse.Trace{}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for part := range slices.Chunk(ids, atOnce) {
		group.Go(func() error {
			for trace, err := range from.client.ReadTraces(inner, from.server.Capabilities, part, want) {
				if err != nil {
					return err
				}
				mu.Lock()
				found[trace.ID] = trace
				mu.Unlock()
			}
			return nil
		})
	}
	return found, group.Wait()
}
