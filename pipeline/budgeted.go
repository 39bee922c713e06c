package pipeline

import (
	"context"
	"errors"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// Budgeted returns a model that asks another as long as the budget allows. Put
// it over Priced and Limited, which fill in what a call cost, and under a
// cache, whose hits are free.
//
// Before a call it puts aside what that may take: the input is estimated at a
// token for every three bytes, the output is the largest of the last 32, or
// the limit of the request, or 1,024 tokens; the cost follows from the model's
// price. What a call took is its usage and its cost; what was not reported
// counts as it was estimated, unless nothing was sent or the request failed
// otherwise than by being given up. A request above the price's MaxInput has no known cost and counts at twice the
// price.
//
// An error for want of budget is a *BudgetError; from the first one on every
// call gets it. All other errors are those of the model. Waiting for calls
// under way does not count against a limit.WithTimeout. Safe for concurrent
// use.
func Budgeted(model Model, budget *Budget) (Model, error) {
	if model == nil || budget == nil {
		return nil, errors.New("pipeline: Budgeted needs a model and a budget")
	}
	return &budgeted{model: model, budget: budget}, nil
}

type budgeted struct {
	model   Model
	budget  *Budget
	outputs recent
}

// Generate asks the model if the budget allows it.
func (b *budgeted) Generate(ctx context.Context, req Request) (Response, error) {
	aside := b.most(req)
	goOn := limit.Waiting(ctx)
	err := b.budget.reserve(ctx, aside)
	goOn()
	if err != nil {
		return Response{}, err
	}
	took := aside // also if the model panics
	defer func() { b.budget.settle(aside, took) }()
	response, err := b.model.Generate(ctx, req)
	took = b.took(aside, response, err)
	b.outputs.add(response.Usage.Output)
	return response, err
}

// most is what a call may take.
func (b *budgeted) most(req Request) amount {
	input, output := inputTokens(req), outputTokens(req, b.outputs.largest())
	price := b.budget.price
	usd := (float64(input)*price.Input + float64(output)*price.Output) / 1e6
	if price.MaxInput > 0 && input > price.MaxInput {
		usd *= 2
	}
	return amount{usd, input + output}
}

// took is what a call took, as far as it was reported.
func (b *budgeted) took(aside amount, response Response, err error) amount {
	reported := response.Usage != (outcome.Usage{})
	switch {
	case response.Cached, err != nil && !reported && !mayCost(response, err):
		return amount{}
	case !reported:
		return aside
	}
	took := amount{aside.usd, response.Usage.Total()}
	if cost := b.budget.price.Cost(response.Usage); cost != nil {
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
