package tracking

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/runstore"
)

// refusal is why Langfuse will never take a part of an outcome.
type refusal struct {
	part runstore.Published
	err  error
}

// round publishes the next outcomes and returns how many it finished or set
// aside. What was acknowledged before an error stays acknowledged.
func (p *Publisher) round(ctx context.Context) (int, error) {
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
	if err := p.open(ctx, batch); err != nil {
		return 0, err
	}
	opened := batch[:0:0]
	for _, o := range batch {
		if _, ok := p.builders[o.Trial]; ok {
			opened = append(opened, o)
		}
	}
	for _, stage := range []func(context.Context, []runstore.Pending) error{p.links, p.traces, p.scores} {
		if err := stage(ctx, opened); err != nil {
			return 0, err
		}
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

// refuse sets an outcome aside for what Langfuse says to a part of it. The
// parts that follow a refused link are sent all the same.
func (p *Publisher) refuse(o runstore.Pending, part runstore.Published, err error) {
	if p.refused[o.OID].err != nil {
		return
	}
	err = fmt.Errorf("item %q: %w", o.Item, err)
	p.refused[o.OID] = refusal{part, err}
	p.cfg.Log.Error("Langfuse refuses a result for good", "error", err)
}

// refusals sums up what was set aside.
func (p *Publisher) refusals() error {
	const shown = 3
	var reasons []error
	for _, r := range p.refused {
		if len(reasons) == shown {
			reasons = append(reasons, fmt.Errorf("and %d more", len(p.refused)-shown))
			break
		}
		reasons = append(reasons, r.err)
	}
	return errors.Join(reasons...)
}
