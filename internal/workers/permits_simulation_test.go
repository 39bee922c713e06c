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

// provider is a model that takes so many requests a minute.
type provider struct {
	perMinute float64
	burst     float64 // how many it saves up; 0: it counts anew in every minute
	header    bool    // 429 says when to come back
	began     time.Time

	mu       sync.Mutex
	random   *rand.Rand
	level    float64
	last     time.Duration
	arrivals []time.Duration
}

// takes decides about a request.
func (p *provider) takes() (latency, retryAfter time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(p.began)
	p.arrivals = append(p.arrivals, at)
	switch {
	case p.burst > 0:
		p.level = min(p.burst, p.level+(at-p.last).Minutes()*p.perMinute)
		retryAfter = time.Duration((1 - p.level) / p.perMinute * float64(time.Minute))
	case len(p.arrivals) == 1 || at/time.Minute != p.last/time.Minute:
		p.level = p.perMinute
	}
	if p.burst == 0 {
		retryAfter = (at/time.Minute+1)*time.Minute - at
	}
	p.last = at
	if !p.header {
		retryAfter = 0
	}
	if p.level < 1 {
		return 100 * time.Millisecond, retryAfter, false
	}
	p.level--
	return time.Duration((1 + 2*p.random.Float64()) * float64(time.Second)), 0, true
}

func (p *provider) Generate(ctx context.Context, _ pipeline.Request) (pipeline.Response, error) {
	latency, retryAfter, ok := p.takes()
	time.Sleep(latency)
	if !ok {
		return pipeline.Response{Attempts: 1}, &pipeline.ModelError{Status: http.StatusTooManyRequests, Retry: true, RetryAfter: retryAfter,
			Failure: outcome.Failure{Class: outcome.RateLimited, Message: "slow down"}}
	}
	return pipeline.Response{Text: "{}", Attempts: 1, Finish: pipeline.FinishStop, Usage: outcome.Usage{Input: 100, Output: 20}}, nil
}

// inAnyMinute is the most requests that came within a minute.
func (p *provider) inAnyMinute() int {
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

// fleet takes items through workers, each over a line of its own.
type fleet struct {
	workers, inFlight, items int
	model                    pipeline.Model
	limiter                  *limit.Limiter
	budget                   *pipeline.Budget
}

// ran is what came of it.
type ran struct {
	took   time.Duration
	shares []int // answers of each worker, when half of the items were answered
	failed []error
}

func (f fleet) run(t *testing.T) (r ran) {
	t.Helper()
	server := newServer(t.Context(), pipeline.NewAdmission(f.limiter, f.budget))
	defer server.Close()
	began := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	answered := 0
	r.shares = make([]int, f.workers)
	for w := range f.workers {
		l := &line{server: server, latency: time.Duration(1+w%20) * time.Millisecond}
		permits := workers.NewPermits(l.exchange, "m", "w")
		defer permits.Close()
		model := pipeline.Limited(pipeline.LimitedConfig{Model: f.model, Admission: permits})
		for range f.inFlight {
			all.Go(func() {
				for next.Add(1) <= int64(f.items) {
					_, err := model.Generate(t.Context(), one)
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

// 100 workers with 50 requests in flight each (20 in the sample that is taken without
// EXPERIMENT_TEST_FULL=1), at a provider of 1,000 a minute that
// answers 429 above that and of which nothing is known. A scheduler that knows sends N
// requests in (N − saved up)/1,000 min + L, where it counts by the minute in
// ⌈N/1,000⌉ − 1 min + L; L is 2 s. No worker starves:
// when half of the items are answered, each worker has at least half of the mean share of
// answers, and none has more than twice of it.
func TestPermits_manyWorkers(t *testing.T) {
	type rule struct {
		burst  float64
		header bool
	}
	size, items, inFlight, rules := 25, 2500, 20, []rule{{0, false}}
	if suite.Full() {
		size, items, inFlight, rules = 100, 10_000, 50, append(rules, rule{1000, true}, rule{1000, false}, rule{17, true}, rule{17, false}, rule{0, true})
	}
	for _, c := range rules {
		name := fmt.Sprintf("saves %v, header %v", c.burst, c.header)
		test := func(t *testing.T) {
			p := &provider{perMinute: 1000, burst: c.burst, level: c.burst, header: c.header, began: time.Now(), random: rand.New(rand.NewPCG(2, 3))}
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

// Four workers, 60 a minute known: no minute of the provider has more but for the one
// call by which lines of different length shift it, and no time is lost: N requests take
// N − 1 s.
func TestPermits_rpm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{perMinute: 1e6, burst: 1e6, level: 1e6, began: time.Now(), random: rand.New(rand.NewPCG(2, 3))}
		f := fleet{workers: 4, inFlight: 50, items: 600, model: p, limiter: newLimiter(t, limit.Config{MaxConcurrent: 200, RequestsPerMinute: 60})}
		r := f.run(t)
		if n := p.inAnyMinute(); n > 61 || len(p.arrivals) != 600 || r.took > 605*time.Second || len(r.failed) > 0 {
			t.Errorf("%d in a minute, %d in all in %s, %v", n, len(p.arrivals), r.took, r.failed)
		}
	})
}

// A pause that one worker is asked for holds for all within a second: from then until
// its end nothing comes.
func TestPermits_pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const from, pause = 100, time.Minute
		var mu sync.Mutex
		var rejected time.Time
		var late, after int
		model := answering(func(n int) (pipeline.Response, error) {
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

// A request is estimated at 9 + 1 tokens, put aside as 10 USD, and takes 12. Over four
// workers, one of which dies with requests in hand, all that was paid passes the bound
// by no more than 2 USD for each request that was in flight.
func TestPermits_budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, atOnce = 3000.0, 16
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{USD: bound, Model: "m", Prices: func(string) (pipeline.Price, bool) {
			return pipeline.Price{Input: 1e6, CachedInput: 1e6, Output: 1e6}, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		server := newServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{MaxConcurrent: atOnce}), budget))
		defer server.Close()
		var paid, atDeath atomic.Int64
		var all, dying sync.WaitGroup
		for w := range 4 {
			l := &line{server: server, latency: 5 * time.Millisecond}
			permits := workers.NewPermits(l.exchange, "m", "w")
			var underWay atomic.Int64
			model := pipeline.Limited(pipeline.LimitedConfig{Admission: permits, Model: answering(func(int) (pipeline.Response, error) {
				underWay.Add(1)
				paid.Add(12)
				time.Sleep(2 * time.Second)
				underWay.Add(-1)
				return pipeline.Response{Text: "{}", Attempts: 1, Usage: outcome.Usage{Input: 11, Output: 1}}, nil
			})})
			for range 10 {
				all.Go(func() {
					limit := 1
					for {
						_, err := model.Generate(t.Context(), pipeline.Request{
							Messages: []pipeline.Message{{Role: "user", Content: "abc"}}, Parameters: pipeline.Parameters{MaxTokens: &limit}})
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
				l.cut(true)
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
