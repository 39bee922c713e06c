package workers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/internal/workers"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// provider is a model that accepts a number of requests a minute and answers 429 to others.
type provider struct {
	perMinute       float64
	burst           float64 // unused requests that it saves up; 0: it counts anew in each minute
	sendsRetryAfter bool    // with 429
	began           time.Time

	mu        sync.Mutex
	random    *rand.Rand
	available float64         // requests that it accepts now
	last      time.Duration   // the last arrival
	arrivals  []time.Duration // since began
}

// decide accepts or rejects a request, and returns the latency of the response and, for a
// rejection, its Retry-After.
func (p *provider) decide() (latency, retryAfter time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(p.began)
	p.arrivals = append(p.arrivals, at)
	switch {
	case p.burst > 0:
		p.available = min(p.burst, p.available+(at-p.last).Minutes()*p.perMinute)
		retryAfter = time.Duration((1 - p.available) / p.perMinute * float64(time.Minute))
	case len(p.arrivals) == 1 || at/time.Minute != p.last/time.Minute:
		p.available = p.perMinute
	}
	if p.burst == 0 {
		retryAfter = (at/time.Minute+1)*time.Minute - at
	}
	p.last = at
	if !p.sendsRetryAfter {
		retryAfter = 0
	}
	if p.available < 1 {
		return 100 * time.Millisecond, retryAfter, false
	}
	p.available--
	return time.Duration((1 + 2*p.random.Float64()) * float64(time.Second)), 0, true
}

func (p *provider) Generate(ctx context.Context, _ pipeline.Request) (pipeline.Response, error) {
	latency, retryAfter, ok := p.decide()
	time.Sleep(latency)
	if !ok {
		return pipeline.Response{Attempts: 1}, &pipeline.ModelError{Status: http.StatusTooManyRequests, Retry: true, RetryAfter: retryAfter,
			Failure: outcome.Failure{Class: outcome.RateLimited, Message: "slow down"}}
	}
	return pipeline.Response{Text: "{}", Attempts: 1, Finish: pipeline.FinishStop, Usage: outcome.Usage{Input: 100, Output: 20}}, nil
}

// maxPerMinute returns the largest number of requests that arrived within any minute.
func (p *provider) maxPerMinute() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most, first := 0, 0
	for i, at := range p.arrivals {
		for at-p.arrivals[first] >= time.Minute {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// fleet is a number of workers, each with its own connection to the server, that send one request
// for each item.
type fleet struct {
	workers, inFlight, items int // inFlight is the number of concurrent requests of a worker
	model                    pipeline.Model
	limiter                  *limit.Limiter
	budget                   *pipeline.Budget
}

// fleetResult is the result of fleet.run.
type fleetResult struct {
	took   time.Duration
	shares []int // number of answers of each worker among the first half of all answers
	failed []error
}

func (f fleet) run(t *testing.T) (r fleetResult) {
	t.Helper()
	server := newPermitServer(t.Context(), pipeline.NewAdmission(f.limiter, f.budget))
	defer server.Close()
	began := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	answered := 0
	r.shares = make([]int, f.workers)
	for w := range f.workers {
		conn := &lossyConn{server: server, latency: time.Duration(1+w%20) * time.Millisecond}
		permits := workers.NewPermits(conn.exchange, "m", "w")
		defer permits.Close()
		model := pipeline.Limited(pipeline.LimitedConfig{Model: f.model, Admission: permits})
		for range f.inFlight {
			all.Go(func() {
				for next.Add(1) <= int64(f.items) {
					_, err := model.Generate(t.Context(), testRequest)
					mu.Lock()
					if err != nil {
						r.failed = append(r.failed, err)
					} else if answered++; answered <= f.items/2 {
						r.shares[w]++
					}
					mu.Unlock()
					if limit.StopsRun(err) {
						return
					}
				}
			})
		}
	}
	all.Wait()
	r.took = time.Since(began)
	return r
}

// TestPermits_manyWorkers simulates 100 workers with 50 requests in flight each (25 with 20 without
// EXPERIMENT_TEST_FULL=1) and a provider that accepts 1,000 requests a minute, which the limiter
// does not know. A scheduler that knew it would send N requests in (N − burst)/1,000 min + L, or in
// ⌈N/1,000⌉ − 1 min + L if the provider counts anew in each minute; L, the mean latency, is 2 s.
// The test checks that the workers send at most 1.15·N requests and take at most 1.2 times as long,
// and that no worker starves: of the first half of the answers, each worker has from half to twice
// the mean share.
func TestPermits_manyWorkers(t *testing.T) {
	type rule struct {
		burst           float64
		sendsRetryAfter bool
	}
	size, items, inFlight, rules := 25, 2500, 20, []rule{{0, false}}
	if suite.Full() {
		size, items, inFlight, rules = 100, 10_000, 50, append(rules, rule{1000, true}, rule{1000, false}, rule{17, true}, rule{17, false}, rule{0, true})
	}
	for _, c := range rules {
		name := fmt.Sprintf("saves %v, header %v", c.burst, c.sendsRetryAfter)
		test := func(t *testing.T) {
			p := &provider{perMinute: 1000, burst: c.burst, available: c.burst, sendsRetryAfter: c.sendsRetryAfter, began: time.Now(), random: rand.New(rand.NewPCG(2, 3))}
			f := fleet{workers: size, inFlight: inFlight, items: items, model: p, limiter: newLimiter(t, limit.Config{MaxConcurrent: size * inFlight})}
			r := f.run(t)
			ideal := (float64(items)-c.burst)/1000*60 + 2
			if c.burst == 0 {
				ideal = float64((items-1)/1000*60) + 2
			}
			calls, took := float64(len(p.arrivals))/float64(items), r.took.Seconds()/ideal
			mean := float64(items/2) / float64(size)
			least, most := float64(slices.Min(r.shares))/mean, float64(slices.Max(r.shares))/mean
			t.Logf("| %s | calls %.3f × | time %.3f × | a worker's share %.2f to %.2f of the mean |", name, calls, took, least, most)
			if calls > 1.15 || took > 1.2 || least < 0.5 || most > 2 || len(r.failed) > 0 {
				t.Errorf("%s: %d failed: %v", name, len(r.failed), errors.Join(r.failed...))
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// TestPermits_rpm checks that four workers with a configured limit of 60 requests a minute send at
// most 61 in any minute, since different latencies can shift one, and lose no time: N requests
// begin within N − 1 s.
func TestPermits_rpm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{perMinute: 1e6, burst: 1e6, available: 1e6, began: time.Now(), random: rand.New(rand.NewPCG(2, 3))}
		f := fleet{workers: 4, inFlight: 50, items: 600, model: p, limiter: newLimiter(t, limit.Config{MaxConcurrent: 200, RequestsPerMinute: 60})}
		r := f.run(t)
		if n := p.maxPerMinute(); n > 61 || len(p.arrivals) != 600 || r.took > 605*time.Second || len(r.failed) > 0 {
			t.Errorf("%d in a minute, %d in all in %s, %v", n, len(p.arrivals), r.took, r.failed)
		}
	})
}

// TestPermits_pause checks that a pause that the provider asks of one worker holds for all workers
// after at most a second.
func TestPermits_pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const from, pause = 100, time.Minute
		var mu sync.Mutex
		var rejected time.Time
		var late, after int
		model := newFakeModel(func(n int) (pipeline.Response, error) {
			mu.Lock()
			if n == from {
				rejected = time.Now()
			} else if since := time.Since(rejected); n > from && since > time.Second && since < pause {
				late++
			} else if n > from && since >= pause {
				after++
			}
			mu.Unlock()
			if n == from {
				return pipeline.Response{Attempts: 1}, &pipeline.ModelError{Status: 429, Retry: true, RetryAfter: pause,
					Failure: outcome.Failure{Class: outcome.RateLimited, Message: "slow down"}}
			}
			time.Sleep(200 * time.Millisecond)
			return pipeline.Response{Text: "{}", Attempts: 1}, nil
		})
		f := fleet{workers: 20, inFlight: 10, items: 1000, model: model, limiter: newLimiter(t, limit.Config{MaxConcurrent: 200})}
		if r := f.run(t); late > 0 || after < 500 || len(r.failed) > 0 {
			t.Errorf("%d came more than a second into the pause, %d after it, %v", late, after, r.failed)
		}
	})
}

// TestPermits_budget checks that four workers, one of which dies, exceed a budget by at most 2 USD
// for each request in flight. A request is estimated at 9 + 1 tokens, reserves 10 USD and costs
// 12 USD.
func TestPermits_budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, atOnce = 3000.0, 16
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{USD: bound, Model: "m", Prices: func(string) (pipeline.Price, bool) {
			return pipeline.Price{Input: 1e6, CachedInput: 1e6, Output: 1e6}, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		server := newPermitServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{MaxConcurrent: atOnce}), budget))
		defer server.Close()
		var paid, atDeath atomic.Int64
		var all, dying sync.WaitGroup
		for w := range 4 {
			conn := &lossyConn{server: server, latency: 5 * time.Millisecond}
			permits := workers.NewPermits(conn.exchange, "m", "w")
			var underWay atomic.Int64
			model := pipeline.Limited(pipeline.LimitedConfig{Admission: permits, Model: newFakeModel(func(int) (pipeline.Response, error) {
				underWay.Add(1)
				paid.Add(12)
				time.Sleep(2 * time.Second)
				underWay.Add(-1)
				return pipeline.Response{Text: "{}", Attempts: 1, Usage: outcome.Usage{Input: 11, Output: 1}}, nil
			})})
			for range 10 {
				all.Go(func() {
					maxTokens := 1
					for {
						_, err := model.Generate(t.Context(), pipeline.Request{
							Messages: []pipeline.Message{{Role: "user", Content: "abc"}}, Parameters: pipeline.Parameters{MaxTokens: &maxTokens}})
						var used *pipeline.BudgetError
						if errors.As(err, &used) || w == 0 && err != nil {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			if w > 0 {
				defer permits.Close()
				continue
			}
			dying.Go(func() {
				time.Sleep(9 * time.Second)
				atDeath.Store(underWay.Load())
				conn.setDown(true)
				permits.Close()
			})
		}
		all.Wait()
		dying.Wait()
		most := bound + (12-10)*float64(atOnce+atDeath.Load())
		if usd := float64(paid.Load()); atDeath.Load() == 0 || usd > most || usd < bound-12*float64(atOnce) {
			t.Errorf("%v USD were paid of %v, at most %v; %d requests were in the hands of the dead worker", usd, bound, most, atDeath.Load())
		}
		time.Sleep(time.Minute)
		if usd, _ := budget.Spent(); usd > bound+2*atOnce || usd < bound-12 {
			t.Errorf("%v USD are booked", usd)
		}
	})
}
