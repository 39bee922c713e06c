package tracking

import (
	"context"
	"errors"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/runstore"
)

// The stages of a batch, in order.
const (
	stageLinks = iota
	stageSpans
	stageScores
	stageCount
)

// inFlightBatch is a round under way. Its outcomes pass through the stages links, spans and
// scores. Several rounds overlap: the links of one round, the spans of another and the
// scores of a third can be under way at the same time, which helps with a slow server. A
// stage waits for the same stage of the previous round until the run has ended; after that
// it does not wait.
type inFlightBatch struct {
	*publisher
	builders map[int]builder
	batch    []runstore.Pending // all outcomes of the round
	sendable []runstore.Pending // the outcomes whose trial has an experiment id
	// incomplete holds the outcomes whose scores Langfuse did not all accept.
	incomplete map[int64]bool

	done     [stageCount]chan struct{} // closed when the stage is over
	errs     [stageCount]error         // valid once done is closed
	previous *inFlightBatch            // nil for the first round
}

// start begins a round in a goroutine of its own.
func (p *publisher) start(ctx context.Context, batch []runstore.Pending, builders map[int]builder) {
	f := &inFlightBatch{publisher: p, builders: builders, batch: batch, previous: p.inFlight.newest()}
	for _, o := range batch {
		if _, ok := f.builders[o.Trial]; ok {
			f.sendable = append(f.sendable, o)
		}
	}
	for stage := range f.done {
		f.done[stage] = make(chan struct{})
	}
	p.inFlight = append(p.inFlight, f)
	go f.run(ctx)
}

// run carries out the stages. It skips the stages after a failed one. The stage of links
// starts at once, because publisher.follow waits for the previous round before it starts one.
func (f *inFlightBatch) run(ctx context.Context) {
	failed := false
	for stage, send := range [stageCount]func(context.Context) error{f.sendLinks, f.sendSpans, f.sendScores} {
		if f.previous != nil && stage != stageLinks {
			select {
			case <-f.previous.done[stage]:
			case <-f.finished: // no further rounds will overlap
			}
		}
		if !failed {
			f.errs[stage] = send(ctx)
			failed = f.errs[stage] != nil
		}
		if stage == stageSpans {
			f.release()
		}
		close(f.done[stage])
	}
	f.previous = nil
}

// release drops the parts of the outcomes that only spans need, so that they can be freed.
func (f *inFlightBatch) release() {
	for _, outcomes := range [][]runstore.Pending{f.batch, f.sendable} {
		for i := range outcomes {
			outcomes[i].Output, outcomes[i].Calls, outcomes[i].Explanation, outcomes[i].Source = nil, nil, nil, nil
		}
	}
}

// inFlightBatches are the rounds under way, oldest first.
type inFlightBatches []*inFlightBatch

func (rounds inFlightBatches) newest() *inFlightBatch {
	if len(rounds) == 0 {
		return nil
	}
	return rounds[len(rounds)-1]
}

// waitReady waits until another round may start: the links of the newest round are done and
// at most two rounds are under way, or the run has finished. It returns false if the links of
// the newest round failed.
func (rounds inFlightBatches) waitReady(finished <-chan struct{}) bool {
	f := rounds.newest()
	if f == nil {
		return true
	}
	awaited := []chan struct{}{f.done[stageLinks]}
	if oldest := len(rounds) - stageCount; oldest >= 0 {
		awaited = append(awaited, rounds[oldest].done[stageScores])
	}
	for _, done := range awaited {
		select {
		case <-done:
		case <-finished:
		}
	}
	return !limit.Closed(f.done[stageLinks]) || f.errs[stageLinks] == nil
}

// collect removes the rounds that are complete. It returns how many of their outcomes are
// published or refused, and their errors.
func (p *publisher) collect() (finished int, err error) {
	var problems []error
	for len(p.inFlight) > 0 && limit.Closed(p.inFlight[0].done[stageScores]) {
		f := p.inFlight[0]
		p.inFlight = p.inFlight[1:]
		problems = append(problems, f.errs[:]...)
		if f.errs[stageLinks] == nil && f.errs[stageSpans] == nil {
			finished += p.countPublished(f)
		}
	}
	return finished, errors.Join(problems...)
}

// waitAll waits until all rounds are complete, and adds their results to those of a round.
func (p *publisher) waitAll(done progress, problem error) (progress, error) {
	for _, f := range p.inFlight {
		<-f.done[stageScores]
	}
	finished, err := p.collect()
	done.finished += finished
	return done, errors.Join(problem, err)
}

// countPublished updates and reports the number of published outcomes, and returns how many
// outcomes of a batch are published or refused.
func (p *publisher) countPublished(f *inFlightBatch) (finished int) {
	for _, o := range f.batch {
		switch {
		case p.refused.get(o.OID).part != 0:
			finished++
		case !f.incomplete[o.OID]:
			finished++
			p.sent++
		}
	}
	p.cfg.Published(p.sent)
	p.cfg.Log.Debug("published", "outcomes", len(f.batch), "in all", p.sent)
	return finished
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
