package tracking

import (
	"context"

	"extraction-experiment/runstore"
)

// progress is what a round did.
type progress struct {
	took     int // outcomes that it began with
	finished int // outcomes that are published or set aside now, also of rounds before
}

// round sends the next outcomes on their way. Where more are to follow soon it does
// not wait for them to arrive; see flight. What was acknowledged before an error stays
// acknowledged. Where it is not ready, as flights.clear says, nothing new is sent.
// Last says that the run has ended: its own scores go beside its last outcomes, also
// where those are on their way already.
func (p *Publisher) round(ctx context.Context, ready, last bool) (progress, error) {
	var done progress
	if !ready {
		return p.land(done, nil)
	}
	batch, err := p.next(ctx)
	if err != nil {
		return p.land(done, err)
	}
	if last && len(batch) == roundSize && !p.flights.clear(nil) {
		return p.land(done, nil)
	}
	if done.took = len(batch); done.took > 0 {
		if err := p.prepare(ctx, batch); err != nil {
			return p.land(done, err)
		}
		p.launch(ctx, batch)
	}
	if last && len(batch) < roundSize && len(p.flights) > 0 {
		return p.land(done, p.totals(ctx))
	}
	if len(batch) == 0 {
		p.flights.settle(p.finished)
	}
	if done.finished, err = p.arrive(); err != nil {
		return p.land(done, err)
	}
	return done, nil
}

// prepare makes sure that the batch may go to this server, and that its trials have
// an experiment id.
func (p *Publisher) prepare(ctx context.Context, batch []runstore.Pending) error {
	var err error
	if p.header, err = p.cfg.Run.Header(ctx); err != nil {
		return err
	}
	if err := p.place(ctx); err != nil {
		return err
	}
	if err := p.dataset(ctx); err != nil {
		return err
	}
	return p.open(ctx, batch)
}

// next returns outcomes that are not published, those set aside left out. As long
// as others are on their way, only those behind them: what failed before is taken
// up again when no others come.
func (p *Publisher) next(ctx context.Context) ([]runstore.Pending, error) {
	after := p.flights.last()
	for {
		page, err := p.cfg.Run.Unpublished(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].OID
		p.read = max(p.read, after)
		var batch []runstore.Pending
		for _, o := range page {
			if !p.refused.has(o.OID) {
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
