package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// asked is a model made of a function that is told how often it was asked.
type asked struct {
	times  int
	answer func(ctx context.Context, time int) (pipeline.Response, error)
}

func (a *asked) Generate(ctx context.Context, _ pipeline.Request) (pipeline.Response, error) {
	a.times++
	return a.answer(ctx, a.times)
}

var (
	request = pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "x"}}}
	fine    = pipeline.Response{Text: "{}", Finish: pipeline.FinishStop, Attempts: 1, Usage: outcome.Usage{Input: 10, Output: 2}}
)

func fault(class outcome.Class, status int, retry bool) *pipeline.ModelError {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: fmt.Sprintf("status %d", status)}, Status: status, Retry: retry}
}

func newLimited(t *testing.T, cfg pipeline.LimitedConfig) pipeline.Model {
	t.Helper()
	still := func() float64 { return 0 }
	if cfg.Admission == nil {
		limiter := limit.New(limit.Config{Jitter: still})
		cfg.Admission = pipeline.NewAdmission(limiter, nil)
	}
	cfg.Jitter = still
	return pipeline.Limited(cfg)
}

// Two failures of a second with pauses of 0.5 s and 1 s, then an answer of a
// second: 3.5 s of waiting. The first failure cost 5 tokens in and 1 out.
func TestLimited_waitingIsNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cents := func(n float64) *float64 { n /= 100; return &n }
		model := &asked{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			switch n {
			case 1:
				return pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 5, Output: 1}, CostUSD: cents(2)}, fault(outcome.Provider, 500, true)
			case 2:
				return pipeline.Response{Attempts: 1}, fault(outcome.Provider, 502, true)
			}
			response := fine
			response.CostUSD = cents(4)
			return response, nil
		}}
		began := time.Now()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model}).Generate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 4500*time.Millisecond || r.Waited != 3500*time.Millisecond {
			t.Errorf("took %s, waited %s", took, r.Waited)
		}
		if r.Attempts != 3 || r.Usage != (outcome.Usage{Input: 15, Output: 3}) || *r.CostUSD != 0.06 {
			t.Errorf("%+v, cost %v", r, *r.CostUSD)
		}
	})
}

func TestLimited_whatIsTriedAgain(t *testing.T) {
	for status, want := range map[int]int{
		400: 1, 401: 1, 403: 1, 404: 1, 422: 1, 501: 1,
		408: 6, 500: 6, 502: 6, 503: 6, 529: 6,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent++
				http.Error(w, `{"error":{"message":"no"}}`, status)
			}))
			defer server.Close()
			limited := newLimited(t, pipeline.LimitedConfig{Model: openModel(t, server.URL, nil), Pause: time.Microsecond})
			r, err := limited.Generate(t.Context(), request)
			if err == nil || sent != want || r.Attempts != want {
				t.Errorf("%d requests, %d attempts, want %d: %v", sent, r.Attempts, want, err)
			}
			if stops := limit.StopsRun(err); stops != (status == 401 || status == 403) {
				t.Errorf("the run stops: %v; %v", stops, err)
			}
		})
	}
}

// A request that is rejected time and again while others are answered, such as
// one that is larger than the limit, ends after 10 rejections and one more.
func TestLimited_rejectedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{Most: 2})
		large := &asked{answer: func(context.Context, int) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, fault(outcome.RateLimited, 429, true)
		}}
		others := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Model: &asked{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return fine, nil
		}}})
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Model: large}).Generate(t.Context(), request)
			if class := outcome.FailureOf(err, outcome.Provider).Class; class != outcome.RateLimited || r.Attempts < 11 || r.Attempts > 22 {
				t.Errorf("%v, %d attempts", err, r.Attempts)
			}
		}()
		for {
			if _, err := others.Generate(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
}

// A request that hangs is given up after the timeout and sent again; the item's
// own time does not run while it waits.
func TestLimited_hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &asked{answer: func(ctx context.Context, n int) (pipeline.Response, error) {
			<-ctx.Done()
			return pipeline.Response{Attempts: 1}, fmt.Errorf("hanging: %w", ctx.Err())
		}}
		began := time.Now()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model, Timeout: time.Minute, Tries: 3}).Generate(t.Context(), request)
		if class := outcome.FailureOf(err, outcome.Provider).Class; class != outcome.Timeout || r.Attempts != 3 {
			t.Errorf("%v, class %s, %d attempts", err, class, r.Attempts)
		}
		if took := time.Since(began); took != 3*time.Minute+1500*time.Millisecond || r.Waited != took-time.Minute {
			t.Errorf("took %s, waited %s", took, r.Waited)
		}
	})
}

// With one place, a call that pauses after a failure leaves it to another.
func TestLimited_noPlaceHeldWhilePausing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{Most: 1})
		failing := &asked{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				return pipeline.Response{Attempts: 1}, fault(outcome.Provider, 500, true)
			}
			return fine, nil
		}}
		quick := &asked{answer: func(context.Context, int) (pipeline.Response, error) { return fine, nil }}
		done := make(chan error)
		go func() {
			_, err := newLimited(t, pipeline.LimitedConfig{Model: failing, Admission: pipeline.NewAdmission(limiter, nil), Pause: time.Hour}).Generate(t.Context(), request)
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		if r, err := newLimited(t, pipeline.LimitedConfig{Model: quick, Admission: pipeline.NewAdmission(limiter, nil)}).Generate(t.Context(), request); err != nil || r.Waited != 0 || !time.Now().Equal(began) {
			t.Errorf("%v, waited %s", err, r.Waited)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Ten minutes that the provider asks for do not use up the minute of an item.
func TestLimited_waitingIsNotTheItemsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &asked{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				busy := fault(outcome.RateLimited, 429, true)
				busy.RetryAfter = 10 * time.Minute
				return pipeline.Response{Attempts: 1}, busy
			}
			return fine, nil
		}}
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model}).Generate(ctx, request)
		if err != nil || r.Waited != 10*time.Minute || r.Attempts != 2 {
			t.Errorf("%v, waited %s", err, r.Waited)
		}
	})
}

// A key that is not accepted is found with one request, however many items wait.
func TestLimited_wrongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &asked{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return pipeline.Response{Attempts: 1}, fault(outcome.Provider, 401, false)
		}}
		limited := newLimited(t, pipeline.LimitedConfig{Model: model})
		results := make(chan error)
		for range 100 {
			go func() {
				_, err := limited.Generate(t.Context(), request)
				results <- err
			}()
		}
		for range 100 {
			if err := <-results; !limit.StopsRun(err) || !strings.Contains(err.Error(), "status 401") {
				t.Errorf("%v", err)
			}
		}
		if model.times != 1 {
			t.Errorf("%d requests", model.times)
		}
	})
}

func TestLimited_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &asked{answer: func(context.Context, int) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, fault(outcome.Provider, 500, true)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := newLimited(t, pipeline.LimitedConfig{Model: model, Pause: time.Hour}).Generate(ctx, request)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// When the run is stopped, what waits is given up with nothing sent, whether
// the provider asked for the pause or a request is to be sent again; a request
// under way is finished.
func TestLimited_stopped(t *testing.T) {
	for name, first := range map[string]*pipeline.ModelError{
		"pause":       {Failure: outcome.Failure{Class: outcome.RateLimited, Message: "busy"}, Status: 429, Retry: true, RetryAfter: 10 * time.Minute},
		"asked again": fault(outcome.Provider, 500, true),
	} {
		synctest.Test(t, func(t *testing.T) {
			model := &asked{answer: func(context.Context, int) (pipeline.Response, error) { return pipeline.Response{Attempts: 1}, first }}
			var told []pipeline.Wait
			limited := newLimited(t, pipeline.LimitedConfig{Model: model, Pause: time.Hour, Waits: func(w pipeline.Wait) { told = append(told, w) }})
			stop := make(chan struct{})
			results := make(chan error)
			for range 3 {
				go func() {
					_, err := limited.Generate(limit.WithStop(t.Context(), stop), request)
					results <- err
				}()
				synctest.Wait()
			}
			began, sent := time.Now(), model.times
			close(stop)
			for range 3 {
				if err := <-results; !errors.Is(err, limit.ErrStopped) || !limit.StopsRun(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if !time.Now().Equal(began) || model.times != sent {
				t.Errorf("%s: took %s, %d more requests", name, time.Since(began), model.times-sent)
			}
			if len(told) == 0 || told[0].Asked != first.RetryAfter || told[0].Until.Sub(began) < 10*time.Minute || !strings.Contains(told[0].Reason, first.Failure.Message) {
				t.Errorf("%s: told %+v", name, told)
			}
		})
	}
}

func TestLimited_stoppedWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &asked{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return fine, nil
		}}
		stop := make(chan struct{})
		time.AfterFunc(time.Second/2, func() { close(stop) })
		limited := newLimited(t, pipeline.LimitedConfig{Model: model})
		for range 2 { // the second is a repair of the first, say
			if r, err := limited.Generate(limit.WithStop(t.Context(), stop), request); err != nil || r.Text == "" {
				t.Errorf("%v", err)
			}
		}
	})
}

// A model that panics gives its place back: with one place, the next call has
// its turn.
func TestLimited_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{Most: 1})
		model := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Model: &asked{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				panic("a fault of the provider's library")
			}
			return fine, nil
		}}})
		func() {
			defer func() { _ = recover() }()
			_, _ = model.Generate(t.Context(), request)
			t.Error("the panic was swallowed")
		}()
		if s := limiter.State(); s.UnderWay != 0 {
			t.Errorf("%d calls are under way", s.UnderWay)
		}
		if _, err := model.Generate(t.Context(), request); err != nil {
			t.Error(err)
		}
	})
}

// A provider to which there never was a connection ends all calls within 20 s,
// however many there are, whatever they may repeat; once it gave anything, it
// does not.
func TestLimited_neverConnected(t *testing.T) {
	refused := &pipeline.ModelError{Failure: outcome.Failure{Class: outcome.Provider, Message: "connection refused"}, Retry: true, Unreached: true}
	for name, c := range map[string]struct {
		first error // what the first request gets
		takes time.Duration
		tries int
		stops bool // within 20 s
	}{
		"refused":                    {first: refused, stops: true},
		"refused, a hundred tries":   {first: refused, tries: 100, stops: true},
		"refused, one try":           {first: refused, tries: 1, stops: true},
		"a 503 first":                {first: fault(outcome.Provider, 503, true), tries: 100},
		"a slow first answer, cut":   {first: fault(outcome.Provider, 0, true), takes: 19 * time.Second, tries: 100},
		"no answer in time at first": {first: fault(outcome.Timeout, 0, true), takes: 30 * time.Second, tries: 100},
		"a key that is not good yet": {first: fault(outcome.RateLimited, 429, true), tries: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := limit.New(limit.Config{Most: 8})
				var sent, told atomic.Int64
				model := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Tries: c.tries,
					Waits: func(w pipeline.Wait) {
						if !w.GivesUp.IsZero() {
							told.Add(1)
						}
					},
					Model: generate(func(context.Context) (pipeline.Response, error) {
						if sent.Add(1) == 1 {
							time.Sleep(c.takes)
							return pipeline.Response{Attempts: 1}, c.first
						}
						return pipeline.Response{Attempts: 1}, refused
					})})
				began := time.Now()
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() {
						if _, err := model.Generate(t.Context(), request); !limit.StopsRun(err) || outcome.FailureOf(err, outcome.Provider).Message == "" {
							t.Errorf("%v", err)
						}
					})
				}
				calls.Wait()
				if took := time.Since(began); (took <= 20*time.Second) != c.stops {
					t.Errorf("took %s, with %d requests", took, sent.Load())
				}
				if said := told.Load() > 0; said != (c.stops && c.tries != 1) {
					t.Errorf("said that it gives up: %v", said)
				}
			})
		})
	}
}

// generate is a model made of a function.
type generate func(context.Context) (pipeline.Response, error)

func (g generate) Generate(ctx context.Context, _ pipeline.Request) (pipeline.Response, error) {
	return g(ctx)
}

// openModel opens a model of a server that speaks OpenAI's protocol.
func openModel(t *testing.T, address string, client *http.Client) pipeline.Model {
	t.Helper()
	opened, err := provider.Open("openai/m", provider.Config{HTTPClient: client, Getenv: func(name string) string {
		return map[string]string{provider.EnvOpenAIBaseURL: address}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	return opened.Model
}

// TestLimited_cost: what was refused costs nothing, and says nothing of the other requests of the
// call: one that was given up, or an answer without usage, leaves the cost unknown.
func TestLimited_cost(t *testing.T) {
	type reply func() (pipeline.Response, error)
	prices := func(string) (pipeline.Price, bool) { return pipeline.Price{Input: 1e6}, true }
	answer := func(input int64) reply {
		return func() (pipeline.Response, error) { return pipeline.Response{Usage: outcome.Usage{Input: input}}, nil }
	}
	fails := func(class outcome.Class, status int) reply {
		return func() (pipeline.Response, error) { return pipeline.Response{}, fault(class, status, true) }
	}
	paid := func() (pipeline.Response, error) {
		return pipeline.Response{Usage: outcome.Usage{Input: 2}}, fault(outcome.Provider, 500, true)
	}
	refused, givenUp := fails(outcome.Provider, 500), fails(outcome.Timeout, 0)
	for name, tt := range map[string]struct {
		requests []reply
		want     float64 // below 0: unknown
	}{
		"refused":                     {[]reply{refused, refused}, 0},
		"refused, then given up":      {[]reply{refused, givenUp}, -1},
		"given up, then refused":      {[]reply{givenUp, refused}, -1},
		"refused, then answered":      {[]reply{refused, answer(3)}, 3},
		"refused, then without usage": {[]reply{refused, answer(0)}, -1},
		"given up, then answered":     {[]reply{givenUp, answer(3)}, 3},
		"refused, given up, then not": {[]reply{refused, givenUp, answer(3)}, 3},
		"paid for with an error, too": {[]reply{paid, refused}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := &asked{answer: func(_ context.Context, n int) (pipeline.Response, error) { return tt.requests[n-1]() }}
				limited := newLimited(t, pipeline.LimitedConfig{Model: pipeline.Priced(model, "m", prices), Tries: len(tt.requests)})
				r, _ := limited.Generate(t.Context(), request)
				if (r.CostUSD == nil) != (tt.want < 0) || r.CostUSD != nil && *r.CostUSD != tt.want {
					t.Errorf("cost %v, want %v", r.CostUSD, tt.want)
				}
			})
		})
	}
}
