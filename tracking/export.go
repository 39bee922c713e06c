package tracking

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// exports is how many requests of spans are under way at once.
const exports = 4

// parcel is the outcomes whose spans go in one request.
type parcel struct {
	some []runstore.Pending
	err  error
}

// traces sends the spans of the flight, those of many outcomes in one request and
// several requests at once. In memory are the spans of those requests. If the
// server refuses one for good, each outcome of it is sent alone.
func (f *flight) traces(ctx context.Context) error {
	var parcels []*parcel
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(exports)
	failure := f.pack(ctx, func(some []runstore.Pending, spans []langfuse.Span) {
		one := &parcel{some: some}
		parcels = append(parcels, one)
		group.Go(func() error {
			if one.err = f.send(inner, spans); isRefusal(one.err) {
				return nil
			}
			return one.err
		})
	})
	failure = errors.Join(failure, group.Wait())
	for _, one := range parcels {
		switch {
		case one.err == nil:
			failure = errors.Join(failure, f.ack(ctx, runstore.Spans, one.some))
		case isRefusal(one.err):
			failure = errors.Join(failure, f.singly(ctx, one))
		}
	}
	return failure
}

// pack makes the spans of the flight and hands them out in requests.
func (f *flight) pack(ctx context.Context, out func([]runstore.Pending, []langfuse.Span)) error {
	var some []runstore.Pending
	var spans []langfuse.Span
	bytes := 0
	for _, o := range f.opened {
		if o.Published.Has(runstore.Spans) {
			continue
		}
		item, err := f.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		more := f.builders[o.Trial].spans(item.Item, o.Outcome)
		size := len(item.Input) + len(item.Expected) + len(item.Metadata) + sizeOf(o.Outcome)
		if len(some) > 0 && (bytes+size > langfuse.DefaultBatchBytes || len(spans)+len(more) > langfuse.DefaultBatchSpans) {
			out(some, spans)
			some, spans, bytes = nil, nil, 0
		}
		some, spans, bytes = append(some, o), append(spans, more...), bytes+size
	}
	if len(some) > 0 {
		out(some, spans)
	}
	return nil
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

// singly sends the outcomes of a refused request one by one, so that a bad one
// does not hold up the others.
func (f *flight) singly(ctx context.Context, refused *parcel) error {
	if len(refused.some) == 1 {
		f.refuse(refused.some[0], runstore.Spans, refused.err)
		return nil
	}
	for i, o := range refused.some {
		item, err := f.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		err = f.send(ctx, f.builders[o.Trial].spans(item.Item, o.Outcome))
		switch {
		case err == nil:
			err = f.ack(ctx, runstore.Spans, refused.some[i:i+1])
		case isRefusal(err):
			f.refuse(o, runstore.Spans, err)
			err = nil
		}
		if err != nil {
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
	if err == nil {
		return false
	}
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
