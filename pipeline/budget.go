package pipeline

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// BudgetConfig bounds what a run may take. At least one of the bounds must be
// set, and none is negative.
type BudgetConfig struct {
	// USD is what may be spent, 0: without bound. It needs Prices.
	USD float64
	// Tokens is how many tokens, input and output, may be used; 0: without
	// bound.
	Tokens int64
	// Model is the name whose price Prices knows.
	Model  string
	Prices Prices
}

// BudgetError says that a call was not made because of the budget.
type BudgetError struct {
	// Bound and Spent are in words: "2.00 USD", "1.93 USD".
	Bound, Spent string
	// Tokens says that it is the bound on tokens, not that in USD.
	Tokens bool
}

// Error says what happened and what to do.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget of %s has less left than the next call may take (%s so far); raise it and resume the run", e.Bound, e.Spent)
}

// ExitCode is 5: stopped, can be resumed.
func (*BudgetError) ExitCode() int { return 5 }

// StopsRun marks errors that are not a failure of the item; see limit.TrippedError.
func (*BudgetError) StopsRun() {}

// Budget is what a run may still take. When a request is about to be sent, its estimated
// maximum is reserved; afterwards, what it really took is booked. No request is sent that
// could exceed the bound together with all those under way. So the bound is exceeded by no
// more than what requests under way take beyond their estimates. Requests that wait for
// anything else reserve nothing. See NewAdmission. Safe for concurrent use.
//
// The input is estimated at a token for every three bytes, the output is the
// largest of the last 32, or the limit of the request, or 1,024 tokens; the
// cost follows from the model's price. What a request took is its usage and its
// cost; what was not reported counts as it was estimated, unless nothing was
// sent or the request failed otherwise than by being given up. A request above
// the price's MaxInput has no known cost and counts at twice the price.
type Budget struct {
	cfg     BudgetConfig
	price   Price
	outputs recent
	*account
}

// account is what all that draw on a budget have in common.
type account struct {
	mu       sync.Mutex
	spent    amount
	aside    amount
	underWay int
	refused  *BudgetError  // once a call was refused, all are
	settled  chan struct{} // closed and replaced whenever a call ends
}

// amount is what calls take.
type amount struct {
	usd    float64
	tokens int64
}

func (a amount) plus(b amount) amount { return amount{a.usd + b.usd, a.tokens + b.tokens} }

// NewBudget makes a budget; a bound in USD for a model without a known price is an error of
// exit code 64.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	b := &Budget{cfg: cfg, account: &account{settled: make(chan struct{})}}
	if cfg.USD > 0 {
		var known bool
		if b.price, known = cfg.Prices(cfg.Model); !known {
			return nil, cli.Usage("the price of %q is not known, so that it cannot be held to a budget in USD: "+
				"add it to a file of prices, or bound the tokens", cfg.Model)
		}
	}
	return b, nil
}

// For returns the same budget for calls to another model, which have its price: of
// both together no more is spent. Errors are those of NewBudget.
func (b *Budget) For(model string) (*Budget, error) {
	cfg := b.cfg
	cfg.Model = model
	other, err := NewBudget(cfg)
	if err != nil {
		return nil, err
	}
	other.account = b.account
	return other, nil
}

// Book adds what was spent otherwise, such as by an earlier part of the run:
// what was used, and what it is assumed to have used where that was not
// reported. A cost that is not known, nil, follows from the price.
func (b *Budget) Book(usd *float64, used, assumed outcome.Usage) {
	a := b.worth(usd, used, assumed)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = b.spent.plus(a)
}

// Spent returns what was booked so far.
func (b *Budget) Spent() (usd float64, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent.usd, b.spent.tokens
}

// reserve puts aside what a request may take, at the moment at which it would be
// sent, so that all is taken into account that the requests before it took. While
// calls are under way that may turn out cheaper than was put aside for them, it waits
// for them before it refuses, and estimates again when one has ended. That does not
// count against a limit.WithTimeout.
func (b *Budget) reserve(ctx context.Context, e Estimate) (amount, error) {
	defer limit.Waiting(ctx)()
	for {
		b.mu.Lock()
		a := b.worth(nil, outcome.Usage{}, outcome.Usage{Input: e.Input, Output: e.outputTokens(b.outputs.largest())})
		fits := b.fits(a)
		switch {
		case b.refused == nil && fits == nil:
			b.aside = b.aside.plus(a)
			b.underWay++
			b.mu.Unlock()
			return a, nil
		case b.refused == nil && b.underWay == 0:
			b.refused = fits
		}
		refused, settled := b.refused, b.settled
		b.mu.Unlock()
		if refused != nil {
			return amount{}, refused
		}
		select {
		case <-settled:
		case <-limit.Stop(ctx):
			return amount{}, limit.ErrStopped
		case <-ctx.Done():
			return amount{}, fmt.Errorf("waiting for the budget: %w", ctx.Err())
		}
	}
}

// fits returns why an amount more would pass a bound, or nil.
func (b *Budget) fits(a amount) *BudgetError {
	if b.cfg.USD > 0 && b.spent.usd+b.aside.usd+a.usd > b.cfg.USD {
		return &BudgetError{Bound: dollars(b.cfg.USD), Spent: dollars(b.spent.usd)}
	}
	if b.cfg.Tokens > 0 && b.spent.tokens+b.aside.tokens+a.tokens > b.cfg.Tokens {
		return &BudgetError{Bound: fmt.Sprintf("%d tokens", b.cfg.Tokens), Spent: fmt.Sprintf("%d tokens", b.spent.tokens), Tokens: true}
	}
	return nil
}

// dollars shows money with two decimals, less than a dollar with as many as two
// digits need.
func dollars(v float64) string {
	decimals := 2
	if v > 0 && v < 0.995 {
		decimals = min(max(2, 1-int(math.Floor(math.Log10(v)))), 12)
	}
	return fmt.Sprintf("%.*f USD", decimals, v)
}

// settle books what a call took in place of what was put aside.
func (b *Budget) settle(aside, took amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay--
	b.aside = b.aside.plus(amount{-aside.usd, -aside.tokens})
	if b.underWay == 0 {
		b.aside.usd = 0 // no rounding left over
	}
	b.spent = b.spent.plus(took)
	close(b.settled)
	b.settled = make(chan struct{})
}

// unknownOutput is taken for the tokens of an answer before there was one and
// where no limit of tokens is set.
const unknownOutput = 1024

// inputTokens is rather too much than too little: one token for every three
// bytes of the messages and the schema, and eight for each message. English has
// four bytes and more for one token.
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

// outputTokens is the largest output recently, or else what the request limits
// it to, or else 1,024; never more than the request's limit.
func (e Estimate) outputTokens(largest int64) int64 {
	switch {
	case e.MaxOutput >= 0 && (largest <= 0 || largest > e.MaxOutput):
		return e.MaxOutput
	case largest <= 0:
		return unknownOutput
	}
	return largest
}

// recent remembers the last numbers that were added to it; the zero value is
// ready. Safe for concurrent use.
type recent struct {
	mu     sync.Mutex
	values [32]int64
	next   int
}

func (r *recent) add(value int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[r.next] = value
	r.next = (r.next + 1) % len(r.values)
}

// largest returns the largest of them, 0 if there is none.
func (r *recent) largest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var most int64
	for _, value := range r.values {
		most = max(most, value)
	}
	return most
}

// Estimator is a Model that makes no requests: it adds up what they would take, and answers
// each with an empty extraction. Under a Pipeline it estimates what a dataset would cost,
// with prompts, schemas and parts of long documents as they would be sent. It does not see
// what comes later, such as the second of two stages, repairs and retries. Safe for
// concurrent use; the zero value is ready to use.
type Estimator struct{ requests, input atomic.Int64 }

// Generate counts the request.
func (e *Estimator) Generate(_ context.Context, req Request) (Response, error) {
	e.requests.Add(1)
	e.input.Add(inputTokens(req))
	return Response{Text: `{"entities":[],"relationships":[]}`, Finish: FinishStop, Attempts: 1}, nil
}

// Sum returns how many requests were counted, and their input in tokens: one for
// every three bytes of messages and schema and eight for each message, which is
// rather too much than too little.
func (e *Estimator) Sum() (requests, inputTokens int64) {
	return e.requests.Load(), e.input.Load()
}
