package tracking

import (
	"context"
	"errors"

	"extraction-experiment/runstore"
)

// progress is what a round did.
type progress struct {
	took     int // outcomes that it began with
	finished int // outcomes that are published or set aside now, also of the round before
}

// round sends links and spans of the next outcomes while the scores of the round
// before are on their way, and then their scores. Those of a round that others are
// to follow soon are left on their way. What was acknowledged before an error stays
// acknowledged. Last says that the run has ended: beside the scores of its last
// outcomes go its own.
func (p *Publisher) round(ctx context.Context, last bool) (progress, error) {
	batch, err := p.next(ctx)
	if err != nil || len(batch) == 0 {
		finished, failure := p.settle(ctx)
		return progress{0, finished}, errors.Join(err, failure)
	}
	opened, err := p.begin(ctx, batch)
	finished, failure := p.settle(ctx)
	done := progress{len(batch), finished}
	if err := errors.Join(err, failure); err != nil {
		return done, err
	}
	p.dispatch(ctx, batch, opened)
	ending := last && len(batch) < roundSize
	if len(batch) >= many && !ending {
		return done, nil
	}
	var totals error
	if ending {
		totals = p.totals(ctx)
	}
	finished, failure = p.settle(ctx)
	done.finished += finished
	return done, errors.Join(failure, totals)
}

// begin sends links and spans of a batch, and returns the outcomes that have them.
func (p *Publisher) begin(ctx context.Context, batch []runstore.Pending) ([]runstore.Pending, error) {
	var err error
	if p.header, err = p.cfg.Run.Header(ctx); err != nil {
		return nil, err
	}
	if err := p.place(ctx); err != nil {
		return nil, err
	}
	if err := p.dataset(ctx); err != nil {
		return nil, err
	}
	if err := p.open(ctx, batch); err != nil {
		return nil, err
	}
	var opened []runstore.Pending
	for _, o := range batch {
		if _, ok := p.builders[o.Trial]; ok {
			opened = append(opened, o)
		}
	}
	if err := p.links(ctx, opened); err != nil {
		return nil, err
	}
	return opened, p.traces(ctx, opened)
}

// next returns outcomes that are not published, those set aside left out. As long
// as scores are on their way, only those behind their outcomes: what failed before
// is taken up again when no others come.
func (p *Publisher) next(ctx context.Context) ([]runstore.Pending, error) {
	after := p.dispatched.last()
	for {
		page, err := p.cfg.Run.Unpublished(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].OID
		var batch []runstore.Pending
		for _, o := range page {
			if p.refused[o.OID].err == nil {
				batch = append(batch, o)
			}
		}
		if len(batch) > 0 {
			return batch, nil
		}
	}
}

func (p *Publisher) ack(ctx context.Context, stage runstore.Published, some []runstore.Pending) error {
	if len(some) == 0 {
		return nil
	}
	acks := make([]runstore.Ack, len(some))
	for i, o := range some {
		acks[i] = runstore.Ack{OID: o.OID, Bits: stage}
	}
	return p.cfg.Run.Ack(context.WithoutCancel(ctx), acks...)
}
