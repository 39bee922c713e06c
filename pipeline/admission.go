package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"extraction-experiment/internal/cli"
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

// defaultOutput is the estimated output before the first answer if the request has no limit.
const defaultOutput = 1024

// inputTokens estimates the input of a request, rather too high: one token for every three
// bytes of messages and schema, and eight for each message. English text has four or more bytes
// per token.
func inputTokens(req Request) int64 {
	bytes := 0
	for _, m := range req.Messages {
		bytes += len(m.Content)
	}
	if req.Schema != nil {
		bytes += len(req.Schema.JSON)
	}
	return int64(bytes/3 + 8*len(req.Messages))
}

// outputTokens returns the largest recent output, else the limit of the request, else 1,024;
// never more than that limit.
func (e Estimate) outputTokens(largest int64) int64 {
	switch {
	case e.MaxOutput >= 0 && (largest <= 0 || largest > e.MaxOutput):
		return e.MaxOutput
	case largest <= 0:
		return defaultOutput
	}
	return largest
}

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

// BudgetConfig holds the bounds of a run. At least one of them must be set, and none may be
// negative.
type BudgetConfig struct {
	// USD is the most that may be spent, 0 for no bound. It needs Prices.
	USD float64
	// Tokens is the most input and output tokens that may be used, 0 for no bound.
	Tokens int64
	// Model is the name to look up in Prices.
	Model  string
	Prices Prices
}

// BudgetError means that a call was not made because of the budget.
type BudgetError struct {
	// Bound and Spent are amounts in words: "2.00 USD", "1.93 USD".
	Bound, Spent string
	// Tokens tells the bound in tokens from the one in USD.
	Tokens bool
}

// Error describes the bound, what was spent, and what to do.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget of %s has less left than the next call may take (%s so far); raise it and resume the run", e.Bound, e.Spent)
}

// ExitCode is 5: stopped, can be resumed.
func (*BudgetError) ExitCode() int { return cli.ExitInterrupted }

// StopsRun marks the error as one that stops the run. If the error of a task has a method
// StopsRun() in its chain, experiment.Run stops instead of failing the item, and runs the item
// again when the run is resumed.
func (*BudgetError) StopsRun() {}

// Budget tracks what a run may still use. Just before a request is sent, its estimated maximum
// is reserved; afterwards, what it used is charged instead. A request is sent only if it fits
// the bound together with all requests in flight. So the bound is exceeded at most by what the
// requests in flight use beyond their estimates. Requests that wait for anything else reserve
// nothing. See NewAdmission. Safe for concurrent use.
//
// The input is estimated as one token for every three bytes. The output is estimated as the
// largest of the last 32 outputs, else the limit of the request, else 1,024 tokens. The cost
// follows from the price of the model. A request is charged its usage and cost. If it reported
// none, it is charged its estimate, unless it was not sent or failed for another reason than a
// timeout or cancellation. A request above the MaxInput of the price has no known cost and is
// charged twice the price.
type Budget struct {
	cfg     BudgetConfig
	price   Price
	outputs recentMax
	*account
}

// account is the state that all budgets made by For share.
type account struct {
	mu        sync.Mutex
	spent     amount
	reserved  amount
	inFlight  int
	exhausted *BudgetError  // if set, every call is refused
	callEnded chan struct{} // closed and replaced whenever a call ends
}

// amount is a cost and a number of tokens.
type amount struct {
	usd    float64
	tokens int64
}

func (a amount) add(b amount) amount { return amount{a.usd + b.usd, a.tokens + b.tokens} }

// NewBudget makes a budget of which nothing is spent yet: what earlier sessions of a run spent must be
// booked, see experiment.System.Spent. A bound in USD for a model without a known price is an error of
// exit code 64, and so are bounds that BudgetConfig does not allow.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	if !(cfg.USD >= 0 && cfg.USD <= math.MaxFloat64) || cfg.Tokens < 0 || cfg.USD == 0 && cfg.Tokens == 0 {
		return nil, cli.Usage("a budget of %g USD and %d tokens: one must be above 0, none below or infinite", cfg.USD, cfg.Tokens)
	}
	b := &Budget{cfg: cfg, account: &account{callEnded: make(chan struct{})}}
	if cfg.USD > 0 {
		var known bool
		if cfg.Prices != nil {
			b.price, known = cfg.Prices(cfg.Model)
		}
		if !known {
			return nil, cli.Usage("the price of %q is not known, so that it cannot be held to a budget in USD: "+
				"add it to a file of prices (EXPERIMENT_PRICES_FILE), or bound the tokens (--budget-tokens)", cfg.Model)
		}
	}
	return b, nil
}

// For returns a budget for calls to another model at its price, which shares the bounds and
// charges of b. Errors are those of NewBudget.
func (b *Budget) For(model string) (*Budget, error) {
	cfg := b.cfg
	cfg.Model = model
	other, err := NewBudget(cfg)
	if err == nil {
		other.account = b.account
	}
	return other, err
}

// Book charges what was spent elsewhere, for example by an earlier part of the run: the
// reported usage, and the usage assumed if none was reported. A cost of nil follows from the
// price.
func (b *Budget) Book(usd *float64, used, assumed outcome.Usage) {
	a := b.amountOf(usd, used, assumed)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = b.spent.add(a)
}

// Spent returns what was charged so far.
func (b *Budget) Spent() (usd float64, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent.usd, b.spent.tokens
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

// reserve reserves what a request may use. It is called just before the request is sent, so
// that it accounts for all earlier requests. If the request does not fit while calls are in
// flight, which may use less than they reserved, reserve waits until one ends and estimates
// again. This waiting does not count against the time limit of the item.
func (b *Budget) reserve(ctx context.Context, e Estimate) (amount, error) {
	defer limit.PauseTimeout(ctx)()
	for {
		b.mu.Lock()
		a := b.amountOf(nil, outcome.Usage{}, outcome.Usage{Input: e.Input, Output: e.outputTokens(b.outputs.largest())})
		exceeded := b.check(a)
		switch {
		case b.exhausted == nil && exceeded == nil:
			b.reserved = b.reserved.add(a)
			b.inFlight++
			b.mu.Unlock()
			return a, nil
		case b.exhausted == nil && b.inFlight == 0:
			b.exhausted = exceeded
		}
		exhausted, callEnded := b.exhausted, b.callEnded
		b.mu.Unlock()
		if exhausted != nil {
			return amount{}, exhausted
		}
		select {
		case <-callEnded:
		case <-limit.Stop(ctx):
			return amount{}, limit.ErrStopped
		case <-ctx.Done():
			return amount{}, fmt.Errorf("waiting for the budget: %w", ctx.Err())
		}
	}
}

// check returns why another amount would exceed a bound, or nil.
func (b *Budget) check(a amount) *BudgetError {
	if b.cfg.USD > 0 && b.spent.usd+b.reserved.usd+a.usd > b.cfg.USD {
		return &BudgetError{Bound: formatUSD(b.cfg.USD), Spent: formatUSD(b.spent.usd)}
	}
	if b.cfg.Tokens > 0 && b.spent.tokens+b.reserved.tokens+a.tokens > b.cfg.Tokens {
		return &BudgetError{Bound: fmt.Sprintf("%d tokens", b.cfg.Tokens), Spent: fmt.Sprintf("%d tokens", b.spent.tokens), Tokens: true}
	}
	return nil
}

// formatUSD formats money with two decimals, and with two significant digits below a dollar.
func formatUSD(v float64) string {
	decimals := 2
	if v > 0 && v < 0.995 {
		decimals = min(max(2, 1-int(math.Floor(math.Log10(v)))), 12)
	}
	return fmt.Sprintf("%.*f USD", decimals, v)
}

// settle replaces a reservation by what the call used.
func (b *Budget) settle(reserved, used amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.reserved = b.reserved.add(amount{-reserved.usd, -reserved.tokens})
	if b.inFlight == 0 {
		b.reserved.usd = 0 // no rounding left over
	}
	b.spent = b.spent.add(used)
	close(b.callEnded)
	b.callEnded = make(chan struct{})
}

// recentMax remembers the last 32 values added to it. The zero value is ready to use. Safe for
// concurrent use.
type recentMax struct {
	mu     sync.Mutex
	values [32]int64
	next   int
}

func (r *recentMax) add(value int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[r.next] = value
	r.next = (r.next + 1) % len(r.values)
}

// largest returns the largest remembered value, or 0.
func (r *recentMax) largest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Max(r.values[:])
}

// Estimator is a Model that sends no requests: it adds up their estimated input and answers
// each with an empty extraction. A Pipeline over it estimates the cost of a dataset with the
// real prompts, schemas and chunks. It does not see requests that depend on answers: the second
// of two stages, repairs and retries. Safe for concurrent use; the zero value is ready to use.
type Estimator struct{ requests, input atomic.Int64 }

// Generate counts the request.
func (e *Estimator) Generate(_ context.Context, req Request) (Response, error) {
	e.requests.Add(1)
	e.input.Add(inputTokens(req))
	return Response{Text: `{"entities":[],"relationships":[]}`, Finish: FinishStop, Attempts: 1}, nil
}

// Sum returns the number of requests and their input in tokens, estimated as one token for
// every three bytes of messages and schema and eight for each message, which tends to be too
// high.
func (e *Estimator) Sum() (requests, inputTokens int64) {
	return e.requests.Load(), e.input.Load()
}
