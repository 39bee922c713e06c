package pipeline

import (
	"context"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// Admission decides when a request may be sent, within the limits of the provider and the
// budget. NewAdmission makes the Admission of one process. One of your own best wraps it, because
// Limited relies on it to pause after a rejection for limits, and to give up in the end.
// Implementations are safe for concurrent use.
type Admission interface {
	// Admit waits until a request may be sent. The caller must end that request with Done. The
	// error wraps ctx.Err() or stops the run (see BudgetError.StopsRun): the budget is used up
	// (a *BudgetError), the run was stopped while Admit waited, or no request can succeed, as Done
	// reports it. Waiting does not count against the time limit of the item.
	Admit(ctx context.Context, e Estimate) (Permit, error)
	// State returns the present state of the limits.
	State() LimiterState
}

// Permit is a request that may be sent.
type Permit interface {
	// Done reports how the request ended; only the first call counts. It returns nil, or an
	// error that keeps all further requests from being sent and stops the run: the provider
	// refused the key, was never reached, or all requests have failed alike or for too long.
	Done(ctx context.Context, e RequestResult) error
}

// Estimate is an upper estimate of the tokens of a request.
type Estimate struct {
	// Input tends to be too high. Output is the largest recent output, or follows from
	// MaxOutput if there is no answer yet.
	Input, Output int64
	// MaxOutput is the output limit of the request, or -1 if it has none.
	MaxOutput int64
}

// estimateRequest estimates a request. largest is the largest recent output, or 0 if there is
// none. See inputTokens and outputTokens.
func estimateRequest(req Request, largest int64) Estimate {
	e := Estimate{Input: inputTokens(req), MaxOutput: -1}
	if req.Parameters.MaxTokens != nil {
		e.MaxOutput = int64(*req.Parameters.MaxTokens)
	}
	e.Output = e.outputTokens(largest)
	return e
}

// usage returns the estimate as an outcome.Usage.
func (e Estimate) usage() outcome.Usage { return outcome.Usage{Input: e.Input, Output: e.Output} }

// RequestResult describes how a request ended and what it used.
type RequestResult struct {
	limit.Result
	Usage   outcome.Usage
	CostUSD *float64 // nil if it follows from the price
	Assumed outcome.Usage
	// Lost means that the usage is unknown: the whole reservation counts.
	Lost bool
}

// Limiter finds out how many concurrent requests a provider accepts, pauses when it asks for
// that, and grants no more requests when none can succeed. It belongs to one model of one provider.
type Limiter = limit.Limiter

// LimiterState is a snapshot of a Limiter.
type LimiterState = limit.State

// NewLimiter returns a limiter with a maximum of concurrent requests, 0 means 4, and with the known
// limits of the provider, 0 means unknown. The numbers must not be negative.
func NewLimiter(concurrent int, requestsPerMinute, tokensPerMinute int64) *Limiter {
	return limit.New(limit.Config{
		MaxConcurrent: concurrent, RequestsPerMinute: requestsPerMinute, TokensPerMinute: tokensPerMinute,
	})
}

// NewAdmission returns an Admission that waits for the limiter first and then for the budget. A
// nil limiter is NewLimiter(0, 0, 0), a nil budget has no bound. Limiter and budget may be shared.
func NewAdmission(limiter *Limiter, budget *Budget) Admission {
	if limiter == nil {
		limiter = NewLimiter(0, 0, 0)
	}
	return &admission{limiter, budget}
}

type admission struct {
	*limit.Limiter
	budget *Budget
}

// Admit waits for a permit of the limiter and then, holding it, for the budget.
func (a *admission) Admit(ctx context.Context, e Estimate) (Permit, error) {
	permit, err := a.Acquire(ctx, e.usage().Total())
	if err != nil {
		return nil, err
	}
	admitted := &admitted{Permit: permit, budget: a.budget}
	if a.budget != nil {
		if admitted.reserved, err = a.budget.reserve(ctx, e); err != nil {
			_ = permit.Done(limit.Result{Kind: limit.Abandoned}) // the budget's error is the one to return
			return nil, err
		}
		permit.Sent() // the budget may have made it wait
	}
	return admitted, nil
}

// admitted is a permit of the limiter with its reservation in the budget.
type admitted struct {
	*limit.Permit
	budget   *Budget // nil without a bound, or after Done
	reserved amount
}

// Done charges the usage to the budget and returns the permit.
func (a *admitted) Done(_ context.Context, e RequestResult) error {
	if b := a.budget; b != nil {
		a.budget = nil
		used := a.reserved
		if !e.Lost {
			used = b.amountOf(e.CostUSD, e.Usage, e.Assumed)
			if e.Usage.Output > 0 { // not of requests without an answer
				b.outputs.add(e.Usage.Output)
			}
		}
		b.settle(a.reserved, used)
	}
	return a.Permit.Done(e.Result)
}

// amountOf returns the amount that a usage and the assumed usage take from the budget. A cost
// of nil follows from the price.
func (b *Budget) amountOf(usd *float64, used, assumed outcome.Usage) amount {
	a := amount{b.listCost(assumed), used.Total() + assumed.Total()}
	if usd == nil {
		usd = new(b.listCost(used))
	}
	a.usd += *usd
	return a
}

// listCost returns the cost of a usage by the price of the model, doubled above the MaxInput of
// the price.
func (b *Budget) listCost(u outcome.Usage) float64 {
	if u.Cached < 0 || u.Cached > u.Input {
		u.Cached = 0
	}
	cost := max(0, b.price.sum(u))
	if b.price.MaxInput > 0 && u.Input > b.price.MaxInput {
		cost *= 2
	}
	return cost
}
