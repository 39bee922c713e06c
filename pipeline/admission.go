package pipeline

import (
	"context"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// Admission decides when a request may be sent, within the limits of the provider and the
// budget. NewAdmission is that of one process. Implementations are safe for concurrent use.
type Admission interface {
	// Admit waits until a request may be sent, which must then end with Done. The
	// errors are those of limit.Limiter.Acquire, or a *BudgetError, or wrap
	// ctx.Err(). While it waits, the clock of limit.WithTimeout stands still.
	Admit(ctx context.Context, e Estimate) (Admitted, error)
	// State is what is known of the limits at this moment.
	State() limit.State
}

// Admitted is a request that may be sent.
type Admitted interface {
	// Done reports how the request ended; only the first call counts. It returns an error
	// that keeps all further requests from being sent, such as a *limit.TrippedError, or
	// nil.
	Done(ctx context.Context, e Ended) error
}

// Estimate is what a request may take, in tokens.
type Estimate struct {
	// Input is rather too much than too little, Output the largest recently or, where
	// there was none, as MaxOutput says.
	Input, Output int64
	// MaxOutput is the limit of the request; -1: it has none.
	MaxOutput int64
}

// estimate is what a request may take, given the largest output recently; 0 says that
// there was none. See inputTokens and outputTokens.
func estimate(req Request, largest int64) Estimate {
	e := Estimate{Input: inputTokens(req), MaxOutput: -1}
	if req.Parameters.MaxTokens != nil {
		e.MaxOutput = int64(*req.Parameters.MaxTokens)
	}
	e.Output = e.outputTokens(largest)
	return e
}

// usage is the estimate as usage.
func (e Estimate) usage() outcome.Usage { return outcome.Usage{Input: e.Input, Output: e.Output} }

// Ended is how a request ended, and what it took.
type Ended struct {
	limit.Result
	Usage   outcome.Usage
	CostUSD *float64 // nil: follows from the price
	Assumed outcome.Usage
	// Lost says that nothing is known of what it took: all that was put aside counts.
	Lost bool
}

// NewAdmission admits requests as a limiter and a budget allow, the limiter first; a
// nil budget has no bound. Both may be shared.
func NewAdmission(limiter *limit.Limiter, budget *Budget) Admission {
	return &admission{limiter, budget}
}

type admission struct {
	*limit.Limiter
	budget *Budget
}

// Admit waits for the limiter and then, its permit in hand, for the budget.
func (a *admission) Admit(ctx context.Context, e Estimate) (Admitted, error) {
	permit, err := a.Acquire(ctx, e.usage().Total())
	if err != nil {
		return nil, err
	}
	admitted := &admitted{Permit: permit, budget: a.budget}
	if a.budget != nil {
		if admitted.aside, err = a.budget.reserve(ctx, e); err != nil {
			_ = permit.Done(limit.Result{Kind: limit.Abandoned}) // the budget's error says more
			return nil, err
		}
		permit.Sent() // it waited
	}
	return admitted, nil
}

// admitted is a permit of the limiter with what the budget put aside.
type admitted struct {
	*limit.Permit
	budget *Budget // nil: without bound, or ended
	aside  amount
}

// Done books what the request took and gives the permit back.
func (a *admitted) Done(_ context.Context, e Ended) error {
	if b := a.budget; b != nil {
		a.budget = nil
		took := a.aside
		if !e.Lost {
			took = b.worth(e.CostUSD, e.Usage, e.Assumed)
			b.outputs.add(e.Usage.Output)
		}
		b.settle(a.aside, took)
	}
	return a.Permit.Done(e.Result)
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
