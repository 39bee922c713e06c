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

// scriptedModel answers with a function that gets the number of the call, from 1.
type scriptedModel struct {
	calls  int
	answer func(ctx context.Context, call int) (pipeline.Response, error)
}

func (a *scriptedModel) Generate(ctx context.Context, _ pipeline.Request) (pipeline.Response, error) {
	a.calls++
	return a.answer(ctx, a.calls)
}

var (
	request    = pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "x"}}}
	okResponse = pipeline.Response{Text: "{}", Finish: pipeline.FinishStop, Attempts: 1, Usage: outcome.Usage{Input: 10, Output: 2}}
)

func modelError(class outcome.Class, status int, retry bool) *pipeline.ModelError {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: fmt.Sprintf("status %d", status)}, Status: status, Retry: retry}
}

func newLimited(t *testing.T, cfg pipeline.LimitedConfig) pipeline.Model {
	t.Helper()
	noJitter := func() float64 { return 0 }
	if cfg.Admission == nil {
		limiter := limit.New(limit.Config{Jitter: noJitter})
		cfg.Admission = pipeline.NewAdmission(limiter, nil)
	}
	cfg.Jitter = noJitter
	return pipeline.Limited(cfg)
}

// TestLimited_ownLimits checks that a request that fails once is sent again with each Admission
// that a program outside of this module can have: none, one without parts, and its own.
func TestLimited_ownLimits(t *testing.T) {
	own := &countingAdmission{Admission: pipeline.NewAdmission(pipeline.NewLimiter(1, 6000, 0), nil)}
	for name, admission := range map[string]pipeline.Admission{"none": nil, "empty": pipeline.NewAdmission(nil, nil), "own": own} {
		model := &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				return pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 503, true)
			}
			return okResponse, nil
		}}
		limited := pipeline.Limited(pipeline.LimitedConfig{Model: model, Admission: admission, Pause: time.Microsecond})
		if r, err := limited.Generate(t.Context(), request); err != nil || r.Attempts != 2 {
			t.Errorf("%s: %d attempts, %v", name, r.Attempts, err)
		}
	}
	if own.admitted != 2 || own.State().Answers != 1 {
		t.Errorf("admitted %d requests, %+v", own.admitted, own.State())
	}
}

// countingAdmission counts the requests that it admits.
type countingAdmission struct {
	pipeline.Admission
	admitted int
}

func (a *countingAdmission) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Permit, error) {
	a.admitted++
	return a.Admission.Admit(ctx, e)
}

func (a *countingAdmission) State() pipeline.LimiterState { return a.Admission.State() }

// TestLimited_waitingIsNoLatency checks the durations and the usage of a call with three requests
// of a second each: two that fail, with pauses of 0.5 s and 1 s after them, then an answer. So 3.5
// s of the call are waiting. The first failure cost 5 tokens of input and 1 of output.
func TestLimited_waitingIsNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cents := func(n float64) *float64 { n /= 100; return &n }
		model := &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			switch n {
			case 1:
				return pipeline.Response{Attempts: 1, Usage: outcome.Usage{Input: 5, Output: 1}, CostUSD: cents(2)}, modelError(outcome.Provider, 500, true)
			case 2:
				return pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 502, true)
			}
			response := okResponse
			response.CostUSD = cents(4)
			return response, nil
		}}
		start := time.Now()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model}).Generate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(start); elapsed != 4500*time.Millisecond || r.Waited != 3500*time.Millisecond {
			t.Errorf("took %s, waited %s", elapsed, r.Waited)
		}
		if r.Attempts != 3 || r.Usage != (outcome.Usage{Input: 15, Output: 3}) || *r.CostUSD != 0.06 {
			t.Errorf("%+v, cost %v", r, *r.CostUSD)
		}
	})
}

func TestLimited_whatIsTriedAgain(t *testing.T) {
	const wrongKey = 444 // stands for 400 with the code of a wrong key
	for status, want := range map[int]int{
		400: 1, wrongKey: 1, 401: 1, 402: 1, 403: 1, 404: 1, 422: 1, 501: 1,
		408: 6, 500: 6, 502: 6, 503: 6, 529: 6,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent++
				if status == wrongKey {
					http.Error(w, `{"error":{"message":"no","code":"invalid_api_key"}}`, http.StatusBadRequest)
					return
				}
				http.Error(w, `{"error":{"message":"no"}}`, status)
			}))
			defer server.Close()
			limited := newLimited(t, pipeline.LimitedConfig{Model: openModel(t, server.URL, nil), Pause: time.Microsecond})
			r, err := limited.Generate(t.Context(), request)
			if err == nil || sent != want || r.Attempts != want {
				t.Errorf("%d requests, %d attempts, want %d: %v", sent, r.Attempts, want, err)
			}
			if stops := limit.StopsRun(err); stops != (status == 401 || status == 402 || status == 403 || status == wrongKey) {
				t.Errorf("the run stops: %v; %v", stops, err)
			}
		})
	}
}

// TestLimited_rejectedAlone checks that a call ends after 10 rejections and one more if the
// provider always rejects it and answers other calls meanwhile, for example because its request is
// larger than the limit.
func TestLimited_rejectedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{MaxConcurrent: 2})
		large := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, modelError(outcome.RateLimited, 429, true)
		}}
		others := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Model: &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return okResponse, nil
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

// TestLimited_hanging checks that a request that hangs is given up after the timeout and sent
// again, and that all time but that of the last request is waiting.
func TestLimited_hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(ctx context.Context, n int) (pipeline.Response, error) {
			<-ctx.Done()
			return pipeline.Response{Attempts: 1}, fmt.Errorf("hanging: %w", ctx.Err())
		}}
		start := time.Now()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model, Timeout: time.Minute, Tries: 3}).Generate(t.Context(), request)
		if class := outcome.FailureOf(err, outcome.Provider).Class; class != outcome.Timeout || r.Attempts != 3 {
			t.Errorf("%v, class %s, %d attempts", err, class, r.Attempts)
		}
		if elapsed := time.Since(start); elapsed != 3*time.Minute+1500*time.Millisecond || r.Waited != elapsed-time.Minute {
			t.Errorf("took %s, waited %s", elapsed, r.Waited)
		}
	})
}

// TestLimited_noPlaceHeldWhilePausing checks that, with a limit of one call at once, another call
// can run while a call pauses after a failure.
func TestLimited_noPlaceHeldWhilePausing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{MaxConcurrent: 1})
		failing := &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				return pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 500, true)
			}
			return okResponse, nil
		}}
		quick := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) { return okResponse, nil }}
		done := make(chan error)
		go func() {
			_, err := newLimited(t, pipeline.LimitedConfig{Model: failing, Admission: pipeline.NewAdmission(limiter, nil), Pause: time.Hour}).Generate(t.Context(), request)
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		if r, err := newLimited(t, pipeline.LimitedConfig{Model: quick, Admission: pipeline.NewAdmission(limiter, nil)}).Generate(t.Context(), request); err != nil || r.Waited != 0 || !time.Now().Equal(start) {
			t.Errorf("%v, waited %s", err, r.Waited)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestLimited_waitingIsNotTheItemsTime checks that a pause of ten minutes that the provider asks
// for does not use up an item's timeout of a minute.
func TestLimited_waitingIsNotTheItemsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				busy := modelError(outcome.RateLimited, 429, true)
				busy.RetryAfter = 10 * time.Minute
				return pipeline.Response{Attempts: 1}, busy
			}
			return okResponse, nil
		}}
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := newLimited(t, pipeline.LimitedConfig{Model: model}).Generate(ctx, request)
		if err != nil || r.Waited != 10*time.Minute || r.Attempts != 2 {
			t.Errorf("%v, waited %s", err, r.Waited)
		}
	})
}

// TestLimited_wrongKey checks that one request is enough to find a wrong key, however many items
// wait.
func TestLimited_wrongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 401, false)
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
		if r, _ := limited.Generate(t.Context(), request); r.Attempts != 0 || r.CostUSD == nil || *r.CostUSD != 0 {
			t.Errorf("nothing was sent: %+v", r)
		}
		if model.calls != 1 {
			t.Errorf("%d requests", model.calls)
		}
	})
}

func TestLimited_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, modelError(outcome.Provider, 500, true)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := newLimited(t, pipeline.LimitedConfig{Model: model, Pause: time.Hour}).Generate(ctx, request)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestLimited_itemTimesOut checks that a request that is in progress when the item's time is up has timed
// out and was not cancelled: only then is it recorded.
func TestLimited_itemTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(ctx context.Context, _ int) (pipeline.Response, error) {
			<-ctx.Done()
			return pipeline.Response{Attempts: 1}, ctx.Err()
		}}
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := newLimited(t, pipeline.LimitedConfig{Model: model, Timeout: time.Hour}).Generate(ctx, request)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestLimited_stopped checks that waiting calls end without another request when the run is
// stopped, both in a pause of the provider and before a retry.
func TestLimited_stopped(t *testing.T) {
	for name, first := range map[string]*pipeline.ModelError{
		"pause":       {Failure: outcome.Failure{Class: outcome.RateLimited, Message: "busy"}, Status: 429, Retry: true, RetryAfter: 10 * time.Minute},
		"asked again": modelError(outcome.Provider, 500, true),
	} {
		synctest.Test(t, func(t *testing.T) {
			model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) { return pipeline.Response{Attempts: 1}, first }}
			var waits []pipeline.Wait
			limited := newLimited(t, pipeline.LimitedConfig{Model: model, Pause: time.Hour, OnWait: func(w pipeline.Wait) { waits = append(waits, w) }})
			stop := make(chan struct{})
			results := make(chan error)
			for range 3 {
				go func() {
					_, err := limited.Generate(limit.WithStop(t.Context(), stop), request)
					results <- err
				}()
				synctest.Wait()
			}
			start, sent := time.Now(), model.calls
			close(stop)
			for range 3 {
				if err := <-results; !errors.Is(err, limit.ErrStopped) || !limit.StopsRun(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if !time.Now().Equal(start) || model.calls != sent {
				t.Errorf("%s: took %s, %d more requests", name, time.Since(start), model.calls-sent)
			}
			if len(waits) == 0 || waits[0].Asked != first.RetryAfter || waits[0].Until.Sub(start) < 10*time.Minute || !strings.Contains(waits[0].Reason, first.Failure.Message) {
				t.Errorf("%s: told %+v", name, waits)
			}
		})
	}
}

func TestLimited_stoppedWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &scriptedModel{answer: func(context.Context, int) (pipeline.Response, error) {
			time.Sleep(time.Second)
			return okResponse, nil
		}}
		stop := make(chan struct{})
		time.AfterFunc(time.Second/2, func() { close(stop) })
		limited := newLimited(t, pipeline.LimitedConfig{Model: model})
		for range 2 { // the second is like a repair of the first
			if r, err := limited.Generate(limit.WithStop(t.Context(), stop), request); err != nil || r.Text == "" {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestLimited_panic checks that a call whose model panics returns its permit: with a limit of one
// call at once, the next call is sent.
func TestLimited_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(limit.Config{MaxConcurrent: 1})
		model := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Model: &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) {
			if n == 1 {
				panic("a fault of the provider's library")
			}
			return okResponse, nil
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

// TestLimited_neverConnected checks that all calls end within 20 s if there never was a connection
// to the provider, however many there are and however often they may retry, and that they go on for
// longer if the first request reached it.
func TestLimited_neverConnected(t *testing.T) {
	refused := &pipeline.ModelError{Failure: outcome.Failure{Class: outcome.Provider, Message: "connection refused"}, Retry: true, Unreached: true}
	for name, c := range map[string]struct {
		first error // of the first request
		takes time.Duration
		tries int
		stops bool // within 20 s
	}{
		"refused":                    {first: refused, stops: true},
		"refused, a hundred tries":   {first: refused, tries: 100, stops: true},
		"refused, one try":           {first: refused, tries: 1, stops: true},
		"a 503 first":                {first: modelError(outcome.Provider, 503, true), tries: 100},
		"a slow first answer, cut":   {first: modelError(outcome.Provider, 0, true), takes: 19 * time.Second, tries: 100},
		"no answer in time at first": {first: modelError(outcome.Timeout, 0, true), takes: 30 * time.Second, tries: 100},
		"a key that is not good yet": {first: modelError(outcome.RateLimited, 429, true), tries: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := limit.New(limit.Config{MaxConcurrent: 8})
				var sent, announced atomic.Int64
				model := newLimited(t, pipeline.LimitedConfig{Admission: pipeline.NewAdmission(limiter, nil), Tries: c.tries,
					OnWait: func(w pipeline.Wait) {
						if !w.Deadline.IsZero() {
							announced.Add(1)
						}
					},
					Model: pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
						if sent.Add(1) == 1 {
							time.Sleep(c.takes)
							return pipeline.Response{Attempts: 1}, c.first
						}
						return pipeline.Response{Attempts: 1}, refused
					})})
				start := time.Now()
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() {
						if _, err := model.Generate(t.Context(), request); !limit.StopsRun(err) || outcome.FailureOf(err, outcome.Provider).Message == "" {
							t.Errorf("%v", err)
						}
					})
				}
				calls.Wait()
				if elapsed := time.Since(start); (elapsed <= 20*time.Second) != c.stops {
					t.Errorf("took %s, with %d requests", elapsed, sent.Load())
				}
				if gaveUp := announced.Load() > 0; gaveUp != (c.stops && c.tries != 1) {
					t.Errorf("said that it gives up: %v", gaveUp)
				}
			})
		})
	}
}

// openModel opens a model on a server that speaks the OpenAI protocol.
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

// TestLimited_cost checks that a refused request costs nothing, and that a request without usage
// leaves the cost of the call unknown unless a later request reports some.
func TestLimited_cost(t *testing.T) {
	type reply func() (pipeline.Response, error)
	prices := func(string) (pipeline.Price, bool) { return pipeline.Price{Input: 1e6}, true }
	answer := func(input int64) reply {
		return func() (pipeline.Response, error) { return pipeline.Response{Usage: outcome.Usage{Input: input}}, nil }
	}
	fails := func(class outcome.Class, status int) reply {
		return func() (pipeline.Response, error) { return pipeline.Response{}, modelError(class, status, true) }
	}
	paid := func() (pipeline.Response, error) {
		return pipeline.Response{Usage: outcome.Usage{Input: 2}}, modelError(outcome.Provider, 500, true)
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
				model := &scriptedModel{answer: func(_ context.Context, n int) (pipeline.Response, error) { return tt.requests[n-1]() }}
				limited := newLimited(t, pipeline.LimitedConfig{Model: pipeline.Priced(model, "m", prices), Tries: len(tt.requests)})
				r, _ := limited.Generate(t.Context(), request)
				if (r.CostUSD == nil) != (tt.want < 0) || r.CostUSD != nil && *r.CostUSD != tt.want {
					t.Errorf("cost %v, want %v", r.CostUSD, tt.want)
				}
			})
		})
	}
}
