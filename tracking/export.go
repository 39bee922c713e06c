package tracking

import (
	"context"
	"errors"
	"net/http"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// chunk is how many outcomes have their spans in memory at once.
const chunk = 20

// traces sends the spans of the batch, a chunk of outcomes at a time.
func (p *Publisher) traces(ctx context.Context, batch []runstore.Pending) error {
	var todo []runstore.Pending
	for _, o := range batch {
		if !o.Published.Has(runstore.Spans) {
			todo = append(todo, o)
		}
	}
	for len(todo) > 0 {
		n := min(chunk, len(todo))
		if err := p.export(ctx, todo[:n]); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return nil
}

// export sends the spans of some outcomes. If the server refuses the request,
// each outcome is sent alone, so that one bad one does not hold up the others.
func (p *Publisher) export(ctx context.Context, some []runstore.Pending) error {
	var spans []langfuse.Span
	for _, o := range some {
		item, err := p.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		spans = append(spans, p.builders[o.Trial].spans(item.Item, o.Outcome)...)
	}
	err := p.send(ctx, spans)
	if err != nil && isRefusal(err) {
		if len(some) == 1 {
			p.refuse(some[0], err)
			return nil
		}
		for i := range some {
			if err := p.export(ctx, some[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return p.ack(ctx, runstore.Spans, some)
}

func (p *Publisher) send(ctx context.Context, spans []langfuse.Span) error {
	for batch := range langfuse.SplitSpans(spans, 0, 0) {
		if err := p.cfg.Client.ExportSpans(ctx, p.cfg.Runner, batch); err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether the same request can never succeed.
func isRefusal(err error) bool {
	if errors.Is(err, langfuse.ErrTooLarge) {
		return true
	}
	var api *langfuse.APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusBadRequest
	}
	var connection *langfuse.ConnectionError
	return !errors.As(err, &connection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// scores sends the scores of the batch. An outcome whose scores were not all
// taken is not acknowledged: the next round sends them again, unchanged.
func (p *Publisher) scores(ctx context.Context, batch []runstore.Pending) error {
	var todo []runstore.Pending
	var scores []langfuse.ScoreCreate
	owner := map[string]int{}
	for _, o := range batch {
		if o.Published.Has(runstore.Scores) || p.refused[o.OID] != nil {
			continue
		}
		for _, s := range p.builders[o.Trial].scores(o.Outcome) {
			owner[s.ID] = len(todo)
			scores = append(scores, s)
		}
		todo = append(todo, o)
	}
	results, failure := p.cfg.Client.CreateScores(ctx, scores)
	incomplete := make([]bool, len(todo))
	for _, r := range results {
		i := owner[r.ID]
		incomplete[i] = incomplete[i] || r.State != langfuse.ScoreAccepted
		if r.State == langfuse.ScoreRefused {
			p.refuse(todo[i], r.Err)
		} else if r.Err != nil && failure == nil {
			failure = r.Err
		}
	}
	var done []runstore.Pending
	for i, o := range todo {
		if !incomplete[i] {
			done = append(done, o)
		}
	}
	return errors.Join(p.ack(ctx, runstore.Scores, done), failure)
}
