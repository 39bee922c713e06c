package tracking

import (
	"context"
	"errors"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// The stages of a batch, in their order.
const (
	linked = iota
	traced
	scored
	stages
)

// inFlightBatch is a round on its way: its outcomes go through links, spans and scores, so
// that a slow server is asked for the links of one round, the spans of another and
// the scores of a third at the same time. Each stage goes after that of the round
// before, until the run has ended: then all go at once.
type inFlightBatch struct {
	*publisher
	header   outcome.Header
	builders map[int]builder
	batch    []runstore.Pending // the outcomes of the round
	opened   []runstore.Pending // those whose trial has an experiment id
	// incomplete names outcomes of which not all scores were taken.
	incomplete map[int64]bool

	left   [stages]chan struct{} // closed when it has left the stage
	errs   [stages]error         // to be read after it
	before *inFlightBatch        // nil for the first
}

// start sends a round on its way.
func (p *publisher) start(ctx context.Context, batch []runstore.Pending, builders map[int]builder) {
	f := &inFlightBatch{publisher: p, header: p.header, builders: builders, batch: batch, before: p.inFlight.newest()}
	for _, o := range batch {
		if _, ok := f.builders[o.Trial]; ok {
			f.opened = append(f.opened, o)
		}
	}
	for stage := range f.left {
		f.left[stage] = make(chan struct{})
	}
	p.inFlight = append(p.inFlight, f)
	go f.run(ctx)
}

// run goes through the stages. After one that failed the others are skipped. When
// links may start, round decides.
func (f *inFlightBatch) run(ctx context.Context) {
	failed := false
	for stage, send := range [stages]func(context.Context) error{f.links, f.traces, f.scores} {
		if f.before != nil && stage != linked {
			select {
			case <-f.before.left[stage]:
			case <-f.finished: // there is nothing more to keep apart
			}
		}
		if !failed {
			f.errs[stage] = send(ctx)
			failed = f.errs[stage] != nil
		}
		if stage == traced {
			f.release()
		}
		close(f.left[stage])
	}
	f.before = nil
}

// release lets go of what only spans are made of.
func (f *inFlightBatch) release() {
	for _, some := range [][]runstore.Pending{f.batch, f.opened} {
		for i := range some {
			some[i].Output, some[i].Calls, some[i].Explanation, some[i].Source = nil, nil, nil, nil
		}
	}
}

// inFlightBatches are the rounds on their way, in their order.
type inFlightBatches []*inFlightBatch

func (all inFlightBatches) newest() *inFlightBatch {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// ready waits until another may start, the links of the newest being there and no
// more than two of them on their way, or until the run finishes, and reports whether
// those links did not fail.
func (all inFlightBatches) ready(finished <-chan struct{}) bool {
	f := all.newest()
	if f == nil {
		return true
	}
	awaited := []chan struct{}{f.left[linked]}
	if n := len(all) - stages; n >= 0 {
		awaited = append(awaited, all[n].left[scored])
	}
	for _, left := range awaited {
		select {
		case <-left:
		case <-finished:
		}
	}
	return !limit.Closed(f.left[linked]) || f.errs[linked] == nil
}

// collect takes out those that have arrived: how many of their outcomes are
// published or set aside, and what went wrong.
func (p *publisher) collect() (finished int, err error) {
	var problems []error
	for len(p.inFlight) > 0 && limit.Closed(p.inFlight[0].left[scored]) {
		f := p.inFlight[0]
		p.inFlight = p.inFlight[1:]
		problems = append(problems, f.errs[:]...)
		if f.errs[linked] == nil && f.errs[traced] == nil {
			finished += p.count(f)
		}
	}
	return finished, errors.Join(problems...)
}

// waitAll waits until all have arrived, and adds them to what a round did.
func (p *publisher) waitAll(done progress, problem error) (progress, error) {
	for _, f := range p.inFlight {
		<-f.left[scored]
	}
	finished, err := p.collect()
	done.finished += finished
	return done, errors.Join(problem, err)
}

// count tells how many outcomes are published, and returns how many of a batch are
// published or set aside.
func (p *publisher) count(f *inFlightBatch) (finished int) {
	for _, o := range f.batch {
		switch {
		case p.refused.of(o.OID).part != 0:
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

// wait returns after d (0 is forever), on a commit, or when the run finishes.
func (p *publisher) wait(ctx context.Context, d time.Duration, more, finished <-chan struct{}) {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	select {
	case <-ctx.Done():
	case <-after:
	case <-more:
	case <-finished:
	}
}

// fill waits until another round is worth its requests, or the run finishes; began is
// when the last one did, or when something came after a pause. Where what waits takes much
// memory, a round does not wait for the one before.
func (p *publisher) fill(ctx context.Context, began time.Time) {
	open := func() bool { return ctx.Err() == nil && !limit.Closed(p.finished) }
	for open() && time.Since(began) < stride && !p.cfg.Run.Crowded() {
		p.wait(ctx, stride/40, nil, p.finished) // commits come far more often
	}
	for open() {
		more := p.cfg.Run.Changed()
		left := time.Until(began.Add(linger))
		if p.cfg.Run.Waiting(p.read, many) >= many || left <= 0 {
			return
		}
		p.wait(ctx, left, more, p.finished)
	}
}

func pause(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), maxPause)
}
