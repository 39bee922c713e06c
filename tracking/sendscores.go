package tracking

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

const (
	scoreBatch = 100 // scores in one request
	// scoreTries is how often scores of which the server says that it failed on
	// them alone are sent again at once.
	scoreTries = 3
)

// scores sends the scores of the flight. An outcome whose scores were not all
// taken is not acknowledged: another round sends them again, unchanged.
func (f *flight) scores(ctx context.Context) error {
	var todo []runstore.Pending
	var scores []langfuse.ScoreCreate
	owner := map[string]int{}
	for _, o := range f.opened {
		if o.Published.Has(runstore.Scores) || f.refused.is(o.OID, runstore.Spans) {
			continue
		}
		for _, s := range f.builders[o.Trial].scores(o) {
			owner[s.ID] = len(todo)
			scores = append(scores, s)
		}
		todo = append(todo, o)
	}
	results, failure := f.createScores(ctx, scores)
	f.incomplete = map[int64]bool{}
	for _, r := range results {
		o := todo[owner[r.ID]]
		if r.State != langfuse.ScoreAccepted {
			f.incomplete[o.OID] = true
		}
		if r.State == langfuse.ScoreRefused {
			f.refuse(o, runstore.Scores, r.Err)
		} else if r.Err != nil && failure == nil {
			failure = r.Err
		}
	}
	var done []runstore.Pending
	for _, o := range todo {
		if !f.incomplete[o.OID] {
			done = append(done, o)
		}
	}
	return errors.Join(f.ack(ctx, runstore.Scores, done), failure)
}

// createScores sends scores in requests of a hundred, several at once, and those
// that the server failed on alone once more. The results stand in the order of
// the scores.
func (p *Publisher) createScores(ctx context.Context, scores []langfuse.ScoreCreate) ([]langfuse.ScoreResult, error) {
	results := make([]langfuse.ScoreResult, len(scores))
	todo := make([]int, len(scores))
	for i := range todo {
		todo[i] = i
	}
	for try := 1; ; try++ {
		if err := p.sendScores(ctx, scores, todo, results); err != nil {
			return results, err
		}
		var again []int
		for _, i := range todo {
			if results[i].State == langfuse.ScoreUnknown {
				again = append(again, i)
			}
		}
		if len(again) == 0 || try == scoreTries {
			return results, nil
		}
		todo = again
		p.wait(ctx, pause(1)/10, nil, nil)
	}
}

// sendScores sends those scores that todo names.
func (p *Publisher) sendScores(ctx context.Context, scores []langfuse.ScoreCreate, todo []int, results []langfuse.ScoreResult) error {
	var mu sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(p.cfg.Requests)
	for len(todo) > 0 {
		n := min(scoreBatch, len(todo))
		part := todo[:n]
		todo = todo[n:]
		group.Go(func() error {
			some := make([]langfuse.ScoreCreate, len(part))
			for k, i := range part {
				some[k] = scores[i]
			}
			answers, err := p.cfg.Client.CreateScores(inner, some)
			mu.Lock()
			defer mu.Unlock()
			for k, i := range part {
				results[i] = answers[k]
			}
			return err
		})
	}
	return group.Wait()
}
