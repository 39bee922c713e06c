package tracking

import (
	"context"
	"errors"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/runstore"
)

// maxRounds is the number of rounds under way at most, until the run has ended.
const maxRounds = 3

// inFlightBatch is a round under way. Its outcomes pass through the stages links, spans and
// scores. Several rounds overlap: the links of one round, the spans of another and the
// scores of a third can be under way at the same time, which helps with a slow server.
type inFlightBatch struct {
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

// start begins a round in a goroutine of its own.
func (p *publisher) start(ctx context.Context, batch []runstore.Pending, builders map[int]builder) {
	f := &inFlightBatch{
		publisher: p, builders: builders, batch: batch, linked: make(chan struct{}), done: make(chan struct{}),
	}
	for _, o := range batch {
		if _, ok := f.builders[o.Trial]; ok {
			f.sendable = append(f.sendable, o)
		}
	}
	p.inFlight = append(p.inFlight, f)
	go f.run(ctx)
}

// run carries out the stages, up to the first that fails. The stage of links starts at once,
// because publisher.follow waits for the links of the previous round before it starts one.
func (f *inFlightBatch) run(ctx context.Context) {
	defer close(f.done)
	f.err = f.sendLinks(ctx)
	f.linksFailed = f.err != nil
	close(f.linked)
	if f.err == nil {
		f.err = f.inTurn(ctx, f.spansTurn, f.sendSpans)
	}
	f.release()
	if f.err == nil {
		f.err = f.inTurn(ctx, f.scoresTurn, f.sendScores)
	}
}

// inTurn carries out a stage when no other round is in it. It does not wait once the run has
// ended, because then no further rounds will overlap.
func (p *publisher) inTurn(ctx context.Context, turn chan struct{}, send func(context.Context) error) error {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-p.finished:
	}
	return send(ctx)
}

// release drops the parts of the outcomes that only spans need, so that they can be freed.
func (f *inFlightBatch) release() {
	for _, outcomes := range [][]runstore.Pending{f.batch, f.sendable} {
		for i := range outcomes {
			outcomes[i].Output, outcomes[i].Calls, outcomes[i].Explanation, outcomes[i].Source = nil, nil, nil, nil
		}
	}
}

// newest returns the newest round under way, or nil.
func (p *publisher) newest() *inFlightBatch {
	if len(p.inFlight) == 0 {
		return nil
	}
	return p.inFlight[len(p.inFlight)-1]
}

// waitReady waits until another round may start: the links of the newest round are done and
// fewer than maxRounds are under way, or the run has finished. It returns false if the links
// of the newest round failed.
func (p *publisher) waitReady(finished <-chan struct{}) bool {
	f := p.newest()
	if f == nil {
		return true
	}
	awaited := []chan struct{}{f.linked}
	if oldest := len(p.inFlight) - maxRounds; oldest >= 0 {
		awaited = append(awaited, p.inFlight[oldest].done)
	}
	for _, done := range awaited {
		select {
		case <-done:
		case <-finished:
		}
	}
	return !limit.Closed(f.linked) || !f.linksFailed
}

// collect removes the rounds that are complete, adds their outcomes to p.settled and p.sent,
// reports how many are published, and returns the errors of the rounds.
func (p *publisher) collect() error {
	var problems []error
	for len(p.inFlight) > 0 && limit.Closed(p.inFlight[0].done) {
		f := p.inFlight[0]
		p.inFlight = p.inFlight[1:]
		problems = append(problems, f.err)
		if f.incomplete == nil {
			continue
		}
		for _, o := range f.batch {
			refused := p.refusal(o.OID).part != 0
			if refused || !f.incomplete[o.OID] {
				p.settled++
			}
			if !refused && !f.incomplete[o.OID] {
				p.sent++
			}
		}
		if p.cfg.Published != nil {
			p.cfg.Published(p.sent)
		}
		p.cfg.Log.Debug("published", "outcomes", len(f.batch), "in all", p.sent)
	}
	return errors.Join(problems...)
}

// waitAll waits until all rounds are complete, and returns their errors and problem.
func (p *publisher) waitAll(problem error) error {
	for _, f := range p.inFlight {
		<-f.done
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
// began is the start of the last round, or the time of the first outcome after a pause. The
// minimum interval between rounds is skipped if the waiting outcomes take much memory.
func (p *publisher) waitForRound(ctx context.Context, began time.Time) {
	running := func() bool { return ctx.Err() == nil && !limit.Closed(p.finished) }
	for running() && time.Since(began) < roundInterval && !p.cfg.Run.MemoryHalfFull() {
		p.waitChange(ctx, roundInterval/40, nil, p.finished) // commits are far more frequent than this
	}
	for running() {
		changed := p.cfg.Run.Changed()
		remaining := time.Until(began.Add(roundWaitMax))
		if p.cfg.Run.Waiting(p.lastRead, roundMin) >= roundMin || remaining <= 0 {
			return
		}
		p.waitChange(ctx, remaining, changed, p.finished)
	}
}

func retryDelay(failures int) time.Duration {
	return min(retryDelayMin<<min(failures-1, 10), retryDelayMax)
}
