package pipeline_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// dollarPrice returns a price of one USD per token of either kind for the model "known".
func dollarPrice(model string) (pipeline.Price, bool) {
	return pipeline.Price{Input: 1e6, CachedInput: 1e6, Output: 1e6}, model == "known"
}

func newBudget(t interface{ Fatal(...any) }, cfg pipeline.BudgetConfig) *pipeline.Budget {
	budget, err := pipeline.NewBudget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return budget
}

func newBudgetModel(t interface{ Fatal(...any) }, model pipeline.Model, cfg pipeline.BudgetConfig) (pipeline.Model, *pipeline.Budget) {
	cfg.Model, cfg.Prices = "known", dollarPrice
	budget := newBudget(t, cfg)
	limiter := limit.New(limit.Config{MaxConcurrent: 64})
	return pipeline.Limited(pipeline.LimitedConfig{Model: model, Admission: pipeline.NewAdmission(limiter, budget), Tries: 1}), budget
}

func TestNewBudget_refused(t *testing.T) {
	_, err := pipeline.NewBudget(pipeline.BudgetConfig{USD: 1, Model: "other", Prices: dollarPrice})
	if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), `"other" is not known`) ||
		!strings.Contains(err.Error(), "EXPERIMENT_PRICES_FILE") {
		t.Errorf("%v", err)
	}
	if _, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1, Model: "other", Prices: dollarPrice}); err != nil {
		t.Errorf("tokens need no price: %v", err)
	}
	for _, cfg := range []pipeline.BudgetConfig{ // no bound admits everything, a negative one nothing
		{}, {USD: -1, Prices: dollarPrice}, {Tokens: -1}, {USD: 1, Tokens: -1, Prices: dollarPrice},
		{USD: math.NaN(), Prices: dollarPrice}, {USD: math.Inf(1), Prices: dollarPrice}, {USD: 1, Model: "m"},
	} {
		cfg.Model = cmp.Or(cfg.Model, "known")
		if _, err := pipeline.NewBudget(cfg); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// tenTokenRequest returns a request for which 10 tokens are reserved: 1 for its 3 bytes, 8 for
// the message, and an output limit of 1.
func tenTokenRequest() pipeline.Request {
	one := 1
	return pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "abc"}}, Parameters: pipeline.Parameters{MaxTokens: &one}}
}

func TestBudget_stops(t *testing.T) {
	cost := 4.0
	model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
		return pipeline.Response{Text: "{}", Attempts: 1, Usage: outcome.Usage{Input: 3, Output: 1}, CostUSD: &cost}, nil
	}}
	for name, c := range map[string]struct {
		cfg   pipeline.BudgetConfig
		calls int
	}{
		// A call is sent if 10 fit beside what was spent: at 0, 4, 8, 12.
		"dollars":           {pipeline.BudgetConfig{USD: 22}, 4},
		"exactly":           {pipeline.BudgetConfig{USD: 26}, 5},
		"tokens":            {pipeline.BudgetConfig{Tokens: 22}, 4},
		"the smaller bound": {pipeline.BudgetConfig{Tokens: 22, USD: 100}, 4},
		"resumed":           {pipeline.BudgetConfig{USD: 22}, 2},
		"too small":         {pipeline.BudgetConfig{Tokens: 9}, 0},
	} {
		model.calls = 0
		budgeted, budget := newBudgetModel(t, model, c.cfg)
		if name == "resumed" {
			eight := 8.0
			budget.Book(&eight, outcome.Usage{}, outcome.Usage{})
		}
		var err error
		for i := 0; i < 10 && err == nil; i++ {
			_, err = budgeted.Generate(t.Context(), tenTokenRequest())
		}
		var stop *pipeline.BudgetError
		if model.calls != c.calls || !errors.As(err, &stop) || stop.ExitCode() != 5 || !limit.StopsRun(err) {
			t.Errorf("%s: %d calls, want %d; %v", name, model.calls, c.calls, err)
		}
	}
}

// TestBudget_whatCounts checks that a request that reports no usage is charged its estimate, and
// that one that was cached, refused or never sent is charged nothing.
func TestBudget_whatCounts(t *testing.T) {
	half := 0.5
	for name, c := range map[string]struct {
		response pipeline.Response
		err      error
		usd      float64
		tokens   int64
	}{
		"reported":           {pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 2, Output: 1}, CostUSD: &half}, nil, 0.5, 3},
		"cost not reported":  {pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 2, Output: 1}}, nil, 3, 3},
		"nothing reported":   {pipeline.Response{Attempts: 1, Text: "{}"}, nil, 10, 10},
		"input not reported": {pipeline.Response{Attempts: 1, Usage: outcome.Usage{Output: 1}}, nil, 10, 10}, // 9 + 1
		"from a cache":       {pipeline.Response{Cached: true, Text: "{}"}, nil, 0, 0},
		"refused":            {pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 400, false), 0, 0},
		"failed but paid":    {pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 2, Output: 1}, CostUSD: &half}, modelError(outcome.InvalidOutput, 200, true), 0.5, 3},
		"given up":           {pipeline.Response{Attempts: 1}, modelError(outcome.Timeout, 0, true), 10, 10},
		"cancelled":          {pipeline.Response{Attempts: 1}, context.Canceled, 10, 10},
		"never sent":         {pipeline.Response{}, context.Canceled, 0, 0},
	} {
		model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) { return c.response, c.err }}
		budgeted, budget := newBudgetModel(t, model, pipeline.BudgetConfig{USD: 100})
		if _, err := budgeted.Generate(t.Context(), tenTokenRequest()); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if usd, tokens := budget.Spent(); usd != c.usd || tokens != c.tokens {
			t.Errorf("%s: booked %v USD and %d tokens, want %v and %d", name, usd, tokens, c.usd, c.tokens)
		}
	}
}

// TestEstimator checks that the schema of a request counts as input.
func TestEstimator(t *testing.T) {
	var estimator pipeline.Estimator
	messages := []pipeline.Message{{Role: pipeline.RoleUser, Content: strings.Repeat("a", 30)}}
	for _, schema := range []*pipeline.Schema{nil, {JSON: json.RawMessage(`{"description":"sixty bytes of a schema, which are 20 tokens"}`)}} {
		if _, err := estimator.Generate(t.Context(), pipeline.Request{Messages: messages, Schema: schema}); err != nil {
			t.Fatal(err)
		}
	}
	if requests, tokens := estimator.Sum(); requests != 2 || tokens != 18+38 { // 30/3 + 8, and (30 + 62)/3 + 8 rounded down
		t.Errorf("%d requests with %d tokens", requests, tokens)
	}
}

// TestLimited_inputNotReported checks that a rate in tokens counts the estimated input in place of
// one that was not reported: at one token a second, the second request waits for 9 + 1 of the first.
func TestLimited_inputNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1, Usage: outcome.Usage{Output: 1}}, nil
		}}
		limited := newLimited(t, pipeline.LimitedConfig{Model: model, Admission: pipeline.NewAdmission(pipeline.NewLimiter(1, 0, 60), nil)})
		start := time.Now()
		for range 2 {
			if _, err := limited.Generate(t.Context(), tenTokenRequest()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start).Round(time.Second); took != 10*time.Second {
			t.Errorf("the second request was sent after %s", took)
		}
	})
}

// TestBudget_longContext checks that a usage above MaxInput is charged twice the price, unless a
// cost was reported, and that its tokens are charged once.
func TestBudget_longContext(t *testing.T) {
	price := func(string) (pipeline.Price, bool) {
		return pipeline.Price{Input: 1e6, CachedInput: 1e6, Output: 1e6, MaxInput: 20}, true
	}
	half := 0.5
	for name, c := range map[string]struct {
		usage outcome.Usage
		cost  *float64
		usd   float64
	}{
		"at the limit":       {outcome.Usage{Input: 20, Output: 2}, nil, 22},
		"beyond":             {outcome.Usage{Input: 21, Output: 2}, nil, 46},
		"beyond, but stated": {outcome.Usage{Input: 21, Output: 2}, &half, 0.5},
	} {
		budget := newBudget(t, pipeline.BudgetConfig{USD: 100, Model: "m", Prices: price})
		budget.Book(c.cost, c.usage, outcome.Usage{})
		if usd, tokens := budget.Spent(); usd != c.usd || tokens != c.usage.Total() {
			t.Errorf("%s: %v USD, %d tokens, want %v, %d", name, usd, tokens, c.usd, c.usage.Total())
		}
	}
}

// TestBudgetError checks that amounts below a dollar are written with two significant digits.
func TestBudgetError(t *testing.T) {
	for usd, want := range map[float64]string{2: "2.00 USD", 0.5: "0.50 USD", 0.0123: "0.012 USD", 0.000456: "0.00046 USD"} {
		budget := newBudget(t, pipeline.BudgetConfig{USD: usd, Model: "known", Prices: dollarPrice})
		model := pipeline.Limited(pipeline.LimitedConfig{Model: pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) { panic("asked") }), Admission: pipeline.NewAdmission(limit.New(limit.Config{}), budget)})
		_, err := model.Generate(t.Context(), tenTokenRequest())
		if err == nil || !strings.Contains(err.Error(), "the budget of "+want+" has less left than the next call may take (0.00 USD so far)") {
			t.Errorf("%v: %v, want %s", usd, err, want)
		}
	}
}

// TestBudget_waitsForWhatIsUnderWay checks that ten calls that are estimated at 10 USD and cost 1
// USD fit into 20 USD, because later calls wait for those in flight.
func TestBudget_waitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := 1.0
		var mu sync.Mutex
		calls := 0
		budgeted, _ := newBudgetModel(t, pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			mu.Lock()
			calls++
			mu.Unlock()
			time.Sleep(time.Second)
			return pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 1}, CostUSD: &one}, nil
		}), pipeline.BudgetConfig{USD: 20})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := budgeted.Generate(t.Context(), tenTokenRequest()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if calls != 10 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestBudget_neverPassed checks that the bound is exceeded only by what the calls in flight cost
// beyond the estimate of 10 USD, whatever calls cost and however many run at once.
func TestBudget_neverPassed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bound := rapid.Float64Range(1, 200).Draw(rt, "bound")
		costs := rapid.SliceOfN(rapid.Float64Range(0, 30), 1, 60).Draw(rt, "costs")
		workers := rapid.IntRange(1, 8).Draw(rt, "workers")
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			next, inFlight, maxInFlight := 0, 0, 0
			budgeted, budget := newBudgetModel(t, pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
				mu.Lock()
				cost := costs[next%len(costs)]
				next++
				inFlight++
				maxInFlight = max(maxInFlight, inFlight)
				mu.Unlock()
				time.Sleep(time.Duration(cost * float64(time.Second)))
				mu.Lock()
				inFlight--
				mu.Unlock()
				return pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 1}, CostUSD: &cost}, nil
			}), pipeline.BudgetConfig{USD: bound})
			var workersDone sync.WaitGroup
			for range workers {
				workersDone.Go(func() {
					for range 200 {
						if _, err := budgeted.Generate(t.Context(), tenTokenRequest()); err != nil {
							return
						}
					}
				})
			}
			workersDone.Wait()
			if usd, _ := budget.Spent(); usd > bound+float64(maxInFlight)*(30-10)+1e-9 {
				rt.Errorf("spent %v of %v with at most %d calls under way", usd, bound, maxInFlight)
			}
		})
	})
}

// TestBudget_waitingCallsAreCheckedWhenSent checks that calls that wait for the limiter are
// compared with the budget only when they are sent: 64 calls, one at a time, use 8,000 tokens each
// instead of the estimated 1,032, and exceed the budget only by the one call in flight.
func TestBudget_waitingCallsAreCheckedWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{MaxConcurrent: 1, RequestsPerMinute: 300})
		budget := newBudget(t, pipeline.BudgetConfig{Tokens: 150_000})
		model := pipeline.Limited(pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, budget), Model: pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return pipeline.Response{Attempts: 1, Text: "{}", Usage: outcome.Usage{Input: 3000, Output: 5000}}, nil
		})})
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { model.Generate(t.Context(), request) })
		}
		all.Wait()
		if _, tokens := budget.Spent(); tokens < 150_000-8_000 || tokens > 150_000+8_000 {
			t.Errorf("%d tokens of 150,000", tokens)
		}
	})
}

// TestBudget_everyTry checks that each failed request is charged and the next try asks the budget
// again: two requests of 10 tokens that time out, or whose answers or connections break off, fit into 25
// tokens, a third does not. An error with a good status costs nothing, nor does a request that does not reach
// the provider, so that others are sent.
func TestBudget_everyTry(t *testing.T) {
	for name, fault := range map[string]error{
		"no answer in time":    modelError(outcome.Timeout, 0, true),
		"an answer broke off":  modelError(outcome.Provider, 200, true),
		"a connection broke":   modelError(outcome.Provider, 0, true),
		"no connection":        &pipeline.ModelError{Retry: true, Unreached: true, Failure: outcome.Failure{Class: outcome.Provider}},
		"an error in the body": &pipeline.ModelError{Status: 200, Retry: true, ErrorBody: true, Failure: outcome.Failure{Class: outcome.Provider}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := newBudget(t, pipeline.BudgetConfig{Tokens: 25})
				limiter := limit.New(limit.Config{})
				model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
					return pipeline.Response{Attempts: 1}, fault
				}}
				_, err := newLimited(t, pipeline.LimitedConfig{Model: model, Admission: pipeline.NewAdmission(limiter, budget)}).Generate(t.Context(), tenTokenRequest())
				calls, spent := 2, int64(20)
				switch failed := fault.(*pipeline.ModelError); {
				case failed.ErrorBody:
					calls, spent = 6, 0
				case failed.Unreached:
					calls, spent = 5, 0 // in 15 seconds
				}
				var stop *pipeline.BudgetError
				if _, tokens := budget.Spent(); model.calls != calls || tokens != spent || errors.As(err, &stop) != (spent > 0) {
					t.Errorf("%d requests, %d tokens: %v", model.calls, tokens, err)
				}
			})
		})
	}
}

// TestBudget_declinedForNothing checks that a prompt that was declined at no cost, before a model was asked, uses
// nothing of a budget.
func TestBudget_declinedForNothing(t *testing.T) {
	budget := newBudget(t, pipeline.BudgetConfig{Tokens: 25})
	declined := pipeline.Response{Attempts: 1, Text: "flagged", Finish: pipeline.FinishRefused, CostUSD: new(0.0)}
	model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) { return declined, nil }}
	got, err := newLimited(t, pipeline.LimitedConfig{Model: model, Admission: pipeline.NewAdmission(nil, budget)}).Generate(t.Context(), tenTokenRequest())
	if _, tokens := budget.Spent(); err != nil || tokens != 0 || got.Assumed.Total() != 0 {
		t.Errorf("%d tokens, %+v, %v", tokens, got, err)
	}
}

// TestBudget_failuresAreNoOutputs checks that requests without an answer do not make the budget forget what
// answers use. The first request reserves 10 and its limit of 4,096; with the answer's 20, the others reserve
// 30, which fit beside the 30 spent of 4,110.
func TestBudget_failuresAreNoOutputs(t *testing.T) {
	admission := pipeline.NewAdmission(nil, newBudget(t, pipeline.BudgetConfig{Tokens: 4110}))
	for n := range 40 {
		permit, err := admission.Admit(t.Context(), pipeline.Estimate{Input: 10, MaxOutput: 4096})
		if err != nil {
			t.Fatalf("request %d: %v", n+1, err)
		}
		result := pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}}
		if n == 0 {
			result.Kind, result.Usage = limit.Answered, outcome.Usage{Input: 10, Output: 20}
		}
		if err := permit.Done(t.Context(), result); err != nil {
			t.Fatal(err)
		}
	}
}

// reportsOddUsage answers as a model that reports an impossible usage.
func reportsOddUsage(context.Context, pipeline.Request) (pipeline.Response, error) {
	return pipeline.Response{Text: "x", Finish: pipeline.FinishStop, Attempts: 1, UsageProblem: "no usage"}, nil
}

// TestRecord_oddUsage checks that an impossible usage gives a warning, and that the usage of the
// request is estimated.
func TestRecord_oddUsage(t *testing.T) {
	model := newLimited(t, pipeline.LimitedConfig{Model: pipeline.ModelFunc(reportsOddUsage)})
	call := outcome.Call{Name: "extract"}
	_, err := pipeline.Record(t.Context(), model, tenTokenRequest(), &call)
	if err != nil || len(call.Warnings) != 1 || call.Warnings[0] != "extract: no usage" {
		t.Errorf("%q, %v", call.Warnings, err)
	}
	if call.Usage != (outcome.Usage{}) || call.Assumed.Total() == 0 || call.CostUSD != nil {
		t.Errorf("used %+v, assumed %+v, cost %v", call.Usage, call.Assumed, call.CostUSD)
	}
}

// TestRecord_again checks that a Call that is used again holds the latest input, also if the model
// does not set Request.Sent.
func TestRecord_again(t *testing.T) {
	call := outcome.Call{Name: "extract", Input: json.RawMessage(`[{"role":"user","content":"before"}]`)}
	if _, err := pipeline.Record(t.Context(), pipeline.ModelFunc(reportsOddUsage), tenTokenRequest(), &call); err != nil {
		t.Fatal(err)
	}
	if want := `[{"role":"user","content":"abc"}]`; string(call.Input) != want {
		t.Errorf("asked %s, want %s", call.Input, want)
	}
}
