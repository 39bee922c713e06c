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
func (h *hold) ended(response Response, err error) {
	if h == nil {
		return
	}
	h.took = h.budget.took(h.aside, response, err)
	h.budget.outputs.add(response.Usage.Output)
}

func (h *hold) release() {
	if h != nil {
		h.budget.settle(h.aside, h.took)
	}
}

// most is what a request may take.
func (b *Budget) most(req Request) amount {
	input, output := inputTokens(req), outputTokens(req, b.outputs.largest())
	usd := (float64(input)*b.price.Input + float64(output)*b.price.Output) / 1e6
	if b.price.MaxInput > 0 && input > b.price.MaxInput {
		usd *= 2
	}
	return amount{usd, input + output}
}

// took is what a request took, as far as it was reported.
func (b *Budget) took(aside amount, response Response, err error) amount {
	reported := response.Usage != (outcome.Usage{})
	switch {
	case response.Cached, err != nil && !reported && !mayCost(response, err):
		return amount{}
	case !reported:
		return aside
	}
	took := amount{aside.usd, response.Usage.Total()}
	if cost := b.price.Cost(response.Usage); cost != nil {
		took.usd = *cost
	}
	if response.CostUSD != nil {
		took.usd = *response.CostUSD
	}
	return took
}

// mayCost reports whether a provider may have worked on a request that was not
// answered: one that was sent and then given up.
func mayCost(response Response, err error) bool {
	if response.Attempts == 0 {
		return false
	}
	return outcome.FailureOf(err, outcome.Provider).Class == outcome.Timeout || errors.Is(err, context.Canceled)
}
