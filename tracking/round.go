package tracking

import (
	"context"
	"errors"
	"sync"

	"extraction-experiment/runstore"
)

// round publishes the next outcomes and returns how many it finished or set
// aside. What was acknowledged before an error stays acknowledged. Last says that
// the run has ended: beside the scores of its last outcomes go its own.
func (p *Publisher) round(ctx context.Context, last bool) (int, error) {
	batch, err := p.next(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	if p.header, err = p.cfg.Run.Header(ctx); err != nil {
		return 0, err
	}
	if err := p.place(ctx); err != nil {
		return 0, err
	}
	if err := p.dataset(ctx); err != nil {
		return 0, err
	}
	if err := p.open(ctx, batch); err != nil {
		return 0, err
	}
	opened := batch[:0:0]
	for _, o := range batch {
		if _, ok := p.builders[o.Trial]; ok {
			opened = append(opened, o)
		}
	}
	if err := p.links(ctx, opened); err != nil {
		return 0, err
	}
	if err := p.traces(ctx, opened); err != nil {
		return 0, err
	}
	var beside sync.WaitGroup
	var totals error
	if last && len(batch) < roundSize {
		beside.Go(func() { totals = p.totals(ctx) })
	}
	err = p.scores(ctx, opened)
	beside.Wait()
	if err := errors.Join(err, totals); err != nil {
		return 0, err
	}
	for _, o := range batch {
		if p.refused[o.OID].err == nil {
			p.sent++
		}
	}
	p.cfg.Published(p.sent)
	p.cfg.Log.Debug("published", "outcomes", len(batch), "in all", p.sent)
	return len(batch), nil
}

// next returns outcomes that are not published, those set aside left out.
func (p *Publisher) next(ctx context.Context) ([]runstore.Pending, error) {
	var after int64
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
