package pipeline

import (
	"context"
	"errors"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// hold is what is put aside for one request while it is under way; nil where
// there is no budget.
type hold struct {
	budget *Budget
	aside  amount
	took   amount // as far as is known; all of it if the model panics
}

// hold puts aside what a request may take, at the moment at which it would be
// sent, so that all is taken into account that the requests before it took.
// Waiting for those under way does not count against a limit.WithTimeout.
func (b *Budget) hold(ctx context.Context, req Request) (*hold, error) {
	if b == nil {
		return nil, nil
	}
	defer limit.Waiting(ctx)()
	aside, err := b.reserve(ctx, func() amount { return b.most(req) })
	if err != nil {
		return nil, err
	}
	return &hold{b, aside, aside}, nil
}

// ended notes what the request took; release books it.
func (h *hold) ended(response Response) {
	if h != nil {
		h.took = h.budget.worth(response.CostUSD, response.Usage, response.Assumed)
		h.budget.outputs.add(response.Usage.Output)
	}
}

func (h *hold) release() {
	if h != nil {
		h.budget.settle(h.aside, h.took)
	}
}

// most is what a request may take.
func (b *Budget) most(req Request) amount {
	return b.worth(nil, outcome.Usage{}, estimate(req, b.outputs.largest()))
}

// worth is what a usage takes of the budget, with what was assumed beside it;
// its cost where that is not known follows from the price.
func (b *Budget) worth(usd *float64, used, assumed outcome.Usage) amount {
	a := amount{b.listed(assumed), used.Total() + assumed.Total()}
	if usd == nil {
		usd = new(b.listed(used))
	}
	a.usd += *usd
	return a
}

// listed is what a usage costs by the price of the model, twice that above the
// price's MaxInput.
func (b *Budget) listed(u outcome.Usage) float64 {
	price := b.price
	price.MaxInput = 0
	cost := price.Cost(u)
	switch {
	case cost == nil:
		return max(0, float64(u.Input)*price.Input+float64(u.Output)*price.Output) / 1e6
	case b.price.MaxInput > 0 && u.Input > b.price.MaxInput:
		return 2 * *cost
	}
	return *cost
}

// unreported is what a request is taken to have used that did not say: what was
// estimated for it, unless nothing was sent or it failed otherwise than by being
// given up.
func unreported(estimated outcome.Usage, response Response, err error) outcome.Usage {
	if response.Cached || response.Usage != (outcome.Usage{}) || err != nil && !mayCost(response, err) {
		return outcome.Usage{}
	}
	return estimated
}

// mayCost reports whether a provider may have worked on a request that was not
// answered: one that was sent and then given up.
func mayCost(response Response, err error) bool {
	if response.Attempts == 0 {
		return false
	}
	return outcome.FailureOf(err, outcome.Provider).Class == outcome.Timeout || errors.Is(err, context.Canceled)
}
