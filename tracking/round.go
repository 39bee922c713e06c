package tracking

import (
	"context"
	"errors"
	"slices"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/runstore"
)

// Bounds of the rounds of publishing; see Publish.
const (
	roundSize     = 200              // outcomes in a round at most
	roundMin      = 20               // waiting outcomes that start a round
	roundInterval = roundWaitMax / 5 // between the starts of two rounds at least
	roundWaitMax  = time.Second      // after the start of the last round, fewer than roundMin are enough
	retryDelayMin = time.Second      // after the first failure; doubles with each further one
	retryDelayMax = 30 * time.Second
	maxRounds     = 3 // rounds under way at most, until the run has ended
)

// round sends a batch of outcomes, in the stages links, spans and scores. Several rounds
// overlap: the links of one round, the spans of another and the scores of a third can be under
// way at the same time, which helps with a slow server.
type round struct {
	*publisher
	builders map[int]builder
	batch    []runstore.Pending // all outcomes of the round
	sendable []runstore.Pending // the outcomes whose trial has an experiment id
	// incomplete holds the outcomes whose scores Langfuse did not all accept. It is nil if
	// no scores were sent, because an earlier stage failed.
	incomplete map[int64]bool

	linked      chan struct{} // closed when the links are done
	linksFailed bool          // valid once linked is closed
	done        chan struct{} // closed when the round is over
	err         error         // valid once done is closed
}

// nextRound starts to send the next outcomes, and returns their number. If more will follow
// soon it does not wait until they are sent. Acknowledgements made before an error remain. ready
// is the result of waitReady: if it is false, nextRound only waits for the rounds under way. If
// last is true the run has ended: nextRound then sends the scores of the run concurrently with
// the last outcomes, even if an earlier round started those.
func (p *publisher) nextRound(ctx context.Context, ready, last bool) (started int, err error) {
	if !ready {
		return 0, p.waitAll(nil)
	}
	batch, err := p.nextBatch(ctx)
	if err == nil && last && len(batch) == roundSize { // more follow; the end of the run cut the first waitReady short
		ready = p.waitReady(nil)
	}
	if err != nil || !ready {
		return 0, p.waitAll(err)
	}
	if len(batch) > 0 {
		builders, err := p.openTrials(ctx, batch)
		if err != nil {
			return len(batch), p.waitAll(err)
		}
		p.start(ctx, batch, builders)
	}
	if last && len(batch) < roundSize && len(p.rounds) > 0 {
		return len(batch), p.waitAll(p.sendRunScores(ctx))
	}
	if r := p.newestRound(); len(batch) == 0 && r != nil { // nothing new: wait for what is under way
		select {
		case <-r.done:
		case <-p.finished:
		}
	}
	if err := p.collect(); err != nil {
		return len(batch), p.waitAll(err)
	}
	return len(batch), nil
}

// nextBatch returns up to roundSize outcomes that are neither published nor refused. While
// rounds are under way it returns only outcomes after theirs, so that failed outcomes are
// retried when no newer ones are left.
func (p *publisher) nextBatch(ctx context.Context) ([]runstore.Pending, error) {
	after := int64(0)
	if r := p.newestRound(); r != nil {
		after = r.batch[len(r.batch)-1].OID
	}
	for {
		page, err := p.cfg.Run.Unpublished(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].OID
		p.lastRead = max(p.lastRead, after)
		page = slices.DeleteFunc(page, func(o runstore.Pending) bool { return p.refusal(o.OID).part != 0 })
		if len(page) > 0 {
			return page, nil
		}
	}
}

// start begins a round in a goroutine of its own.
func (p *publisher) start(ctx context.Context, batch []runstore.Pending, builders map[int]builder) {
	r := &round{
		publisher: p, builders: builders, batch: batch, linked: make(chan struct{}), done: make(chan struct{}),
	}
	for _, o := range batch {
		if _, ok := r.builders[o.Trial]; ok {
			r.sendable = append(r.sendable, o)
		}
	}
	p.rounds = append(p.rounds, r)
	go r.run(ctx)
}

// run carries out the stages, up to the first that fails. The stage of links starts at once,
// because publisher.follow waits for the links of the previous round before it starts one.
func (r *round) run(ctx context.Context) {
	defer close(r.done)
	r.err = r.sendLinks(ctx)
	r.linksFailed = r.err != nil
	close(r.linked)
	if r.err == nil {
		r.err = r.inTurn(ctx, r.spansTurn, r.sendSpans)
	}
	r.release()
	if r.err == nil {
		r.err = r.inTurn(ctx, r.scoresTurn, r.sendScores)
	}
}

// inTurn carries out a stage when no other round is in it. Once the run has ended it does not
// wait: the rounds are then full, or the last.
func (p *publisher) inTurn(ctx context.Context, turn chan struct{}, send func(context.Context) error) error {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-p.finished:
	}
	return send(ctx)
}

// release drops the parts of the outcomes that only spans need, so that they can be freed.
func (r *round) release() {
	for _, outcomes := range [][]runstore.Pending{r.batch, r.sendable} {
		for i := range outcomes {
			outcomes[i].Output, outcomes[i].Calls, outcomes[i].Explanation, outcomes[i].Source = nil, nil, nil, nil
		}
	}
}

// newestRound returns the newest round under way, or nil.
func (p *publisher) newestRound() *round {
	if len(p.rounds) == 0 {
		return nil
	}
	return p.rounds[len(p.rounds)-1]
}

// waitReady waits until another round may start: the links of the newest round are done and
// fewer than maxRounds are under way, or the run has finished. It returns false if the links
// of the newest round failed.
func (p *publisher) waitReady(finished <-chan struct{}) bool {
	r := p.newestRound()
	if r == nil {
		return true
	}
	awaited := []chan struct{}{r.linked}
	if oldest := len(p.rounds) - maxRounds; oldest >= 0 {
		awaited = append(awaited, p.rounds[oldest].done)
	}
	for _, done := range awaited {
		select {
		case <-done:
		case <-finished:
		}
	}
	return !limit.Closed(r.linked) || !r.linksFailed
}

// collect removes the rounds that are complete, adds their outcomes to p.settled and p.sent,
// reports how many are published, and returns the errors of the rounds.
func (p *publisher) collect() error {
	var problems []error
	for len(p.rounds) > 0 && limit.Closed(p.rounds[0].done) {
		r := p.rounds[0]
		p.rounds = p.rounds[1:]
		problems = append(problems, r.err)
		if r.incomplete == nil {
			continue
		}
		for _, o := range r.batch {
			refused := p.refusal(o.OID).part != 0
			if refused || !r.incomplete[o.OID] {
				p.settled++
			}
			if !refused && !r.incomplete[o.OID] {
				p.sent++
			}
		}
		if p.cfg.Published != nil {
			p.cfg.Published(p.sent)
		}
		p.cfg.Log.Debug("published", "outcomes", len(r.batch), "in all", p.sent)
	}
	return errors.Join(problems...)
}

// waitAll waits until all rounds are complete, and returns their errors and problem.
func (p *publisher) waitAll(problem error) error {
	for _, r := range p.rounds {
		<-r.done
	}
	return errors.Join(problem, p.collect())
}

// waitChange returns after d, after a commit, or when the run finishes or ctx is done. A d
// of 0 sets no time limit.
func (p *publisher) waitChange(ctx context.Context, d time.Duration, changed, finished <-chan struct{}) {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	select {
	case <-ctx.Done():
	case <-after:
	case <-changed:
	case <-finished:
	}
}

// waitForRound waits until there are enough outcomes for another round, or the run finishes.
// began is the start of the last round, or the time of the first outcome after a pause. There is
// nothing to wait for if the waiting outcomes take much memory.
func (p *publisher) waitForRound(ctx context.Context, began time.Time) {
	running := func() bool { return ctx.Err() == nil && !limit.Closed(p.finished) }
	for running() && time.Since(began) < roundInterval && !p.cfg.Run.MemoryHalfFull() {
		p.waitChange(ctx, roundInterval/40, nil, p.finished) // commits are far more frequent than this
	}
	for running() {
		changed := p.cfg.Run.Changed()
		remaining := time.Until(began.Add(roundWaitMax))
		if p.cfg.Run.Waiting(p.lastRead, roundMin) >= roundMin || p.cfg.Run.MemoryHalfFull() || remaining <= 0 {
			return
		}
		p.waitChange(ctx, remaining, changed, p.finished)
	}
}
