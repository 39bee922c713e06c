package tracking

import (
	"context"
	"errors"
	"net/http"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// traces sends the spans of the batch, those of many outcomes in one request.
// In memory are the spans of about one request.
func (p *Publisher) traces(ctx context.Context, batch []runstore.Pending) error {
	var some []runstore.Pending
	var spans []langfuse.Span
	bytes := 0
	flush := func() error {
		err := p.export(ctx, some, spans)
		some, spans, bytes = nil, nil, 0
		return err
	}
	for _, o := range batch {
		if o.Published.Has(runstore.Spans) {
			continue
		}
		item, err := p.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		more := p.builders[o.Trial].spans(item.Item, o.Outcome)
		size := len(item.Input) + len(item.Expected) + len(item.Metadata) + sizeOf(o.Outcome)
		if len(some) > 0 && (bytes+size > langfuse.DefaultBatchBytes || len(spans)+len(more) > langfuse.DefaultBatchSpans) {
			if err := flush(); err != nil {
				return err
			}
		}
		some, spans, bytes = append(some, o), append(spans, more...), bytes+size
	}
	return flush()
}

// sizeOf estimates the bytes of an outcome's spans, without the item's part:
// what every span carries, and the texts.
func sizeOf(o outcome.Outcome) int {
	const perSpan = 2 << 10
	size := perSpan + len(o.Output)
	for _, call := range o.Calls {
		size += perSpan + len(call.Input) + len(call.Output)
	}
	return size
}

// export sends the spans of some outcomes. If the server refuses the request,
// each outcome is sent alone, so that one bad one does not hold up the others.
func (p *Publisher) export(ctx context.Context, some []runstore.Pending, spans []langfuse.Span) error {
	if len(some) == 0 {
		return nil
	}
	err := p.send(ctx, spans)
	if err == nil {
		return p.ack(ctx, runstore.Spans, some)
	}
	if !isRefusal(err) {
		return err
	}
	if len(some) == 1 {
		p.refuse(some[0], runstore.Spans, err)
		return nil
	}
	for i, o := range some {
		item, err := p.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		if err := p.export(ctx, some[i:i+1], p.builders[o.Trial].spans(item.Item, o.Outcome)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) send(ctx context.Context, spans []langfuse.Span) error {
	for batch := range langfuse.SplitSpans(spans, 0, 0) {
		if err := p.cfg.Client.ExportSpans(ctx, p.cfg.Runner, batch); err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether the same request can never succeed.
func isRefusal(err error) bool {
	if errors.Is(err, langfuse.ErrTooLarge) {
		return true
	}
	var api *langfuse.APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusBadRequest
	}
	var connection *langfuse.ConnectionError
	return !errors.As(err, &connection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
