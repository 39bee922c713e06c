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

// dispatch is the scores of a round, on their way. Until they are settled its
// outcomes are taken up by no other round; nil is none.
type dispatch struct {
	batch   []runstore.Pending // the outcomes of the round
	todo    []runstore.Pending // those whose scores are sent
	owner   map[string]int     // places in todo, by score id
	results []langfuse.ScoreResult
	err     error
	ended   chan struct{}
}

// last is the number of its last outcome.
func (d *dispatch) last() int64 {
	if d == nil {
		return 0
	}
	return d.batch[len(d.batch)-1].OID
}

// dispatch begins to send the scores of a round; opened are those of its outcomes
// that may have some.
func (p *Publisher) dispatch(ctx context.Context, batch, opened []runstore.Pending) {
	d := &dispatch{batch: batch, owner: map[string]int{}, ended: make(chan struct{})}
	var scores []langfuse.ScoreCreate
	for _, o := range opened {
		if o.Published.Has(runstore.Scores) || p.refused[o.OID].part == runstore.Spans {
			continue
		}
		for _, s := range p.builders[o.Trial].scores(o) {
			d.owner[s.ID] = len(d.todo)
			scores = append(scores, s)
		}
		d.todo = append(d.todo, o)
	}
	p.dispatched = d
	go func() {
		defer close(d.ended)
		d.results, d.err = p.createScores(ctx, scores)
	}()
}

// settle waits for the scores that are on their way, if any are, and returns how
// many outcomes are published or set aside now. An outcome whose scores were not
// all taken is not acknowledged: another round sends them again, unchanged.
func (p *Publisher) settle(ctx context.Context) (int, error) {
	d := p.dispatched
	if d == nil {
		return 0, nil
	}
	<-d.ended
	p.dispatched = nil
	failure := d.err
	incomplete := map[int64]bool{}
	for _, r := range d.results {
		o := d.todo[d.owner[r.ID]]
		if r.State != langfuse.ScoreAccepted {
			incomplete[o.OID] = true
		}
		if r.State == langfuse.ScoreRefused {
			p.refuse(o, runstore.Scores, r.Err)
		} else if r.Err != nil && failure == nil {
			failure = r.Err
		}
	}
	var done []runstore.Pending
	for _, o := range d.todo {
		if !incomplete[o.OID] {
			done = append(done, o)
		}
	}
	if err := p.ack(ctx, runstore.Scores, done); err != nil {
		return 0, errors.Join(err, failure)
	}
	finished := 0
	for _, o := range d.batch {
		switch {
		case p.refused[o.OID].err != nil:
			finished++
		case !incomplete[o.OID]:
			finished++
			p.sent++
		}
	}
	p.cfg.Published(p.sent)
	p.cfg.Log.Debug("published", "outcomes", len(d.batch), "in all", p.sent)
	return finished, failure
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
