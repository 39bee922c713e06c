package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/workers"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

var errLost = errors.New("no answer from the coordinator")

// lossyConn is a connection to a server that delays and loses messages.
type lossyConn struct {
	server  *workers.PermitServer
	latency time.Duration // of a message

	mu       sync.Mutex
	random   *rand.Rand // if not nil, latency is the mean, so that messages overtake each other
	loss     float64    // share of lost messages, in each direction
	down     bool
	requests int // sent so far
}

// losesMessage reports whether the next message is lost.
func (c *lossyConn) losesMessage() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down || c.loss > 0 && c.random.Float64() < c.loss
}

func (c *lossyConn) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// travel waits for the latency of a message.
func (c *lossyConn) travel() {
	latency := c.latency
	if c.random != nil {
		c.mu.Lock()
		latency = time.Duration(2 * c.random.Float64() * float64(latency))
		c.mu.Unlock()
	}
	time.Sleep(latency)
}

// setLoss sets the share of lost messages.
func (c *lossyConn) setLoss(share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loss = share
}

// setDown interrupts or restores the connection, and returns the number of requests so far.
func (c *lossyConn) setDown(down bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	return c.requests
}

// exchange is a workers.Exchange.
func (c *lossyConn) exchange(ctx context.Context, request []byte) ([]byte, error) {
	c.mu.Lock()
	c.requests++
	c.mu.Unlock()
	c.travel()
	if c.losesMessage() {
		if !c.isDown() { // an interrupted connection fails at once
			<-ctx.Done()
		}
		return nil, errLost
	}
	answer := c.server.Answer(ctx, request)
	c.travel()
	if answer == nil || c.losesMessage() {
		<-ctx.Done()
		return nil, errLost
	}
	return answer, nil
}

// newLimiter returns a limiter without jitter.
func newLimiter(t rapid.TB, cfg limit.Config) *limit.Limiter {
	t.Helper()
	cfg.Jitter = func() float64 { return 0 }
	return limit.New(cfg)
}

// newPermitServer returns a server with one Admission for all groups.
func newPermitServer(ctx context.Context, admission pipeline.Admission) *workers.PermitServer {
	return workers.NewPermitServer(ctx, func(string) pipeline.Admission { return admission })
}

// refusingAdmission is an Admission that refuses every request with err.
type refusingAdmission struct{ err error }

func (s refusingAdmission) Admit(context.Context, pipeline.Estimate) (pipeline.Permit, error) {
	return nil, s.err
}
func (s refusingAdmission) State() limit.State { return limit.State{} }

// TestPermits_errors checks that errors of the server's Admission reach the caller with their type,
// content and exit code, and stop the run.
func TestPermits_errors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		is   func(error) bool
	}{
		"tripped": {&limit.TrippedError{Reason: "401: no", Why: "so", Unauthorised: true}, 69, func(err error) bool {
			var tripped *limit.TrippedError
			return errors.As(err, &tripped) && *tripped == limit.TrippedError{Reason: "401: no", Why: "so", Unauthorised: true}
		}},
		"budget": {&pipeline.BudgetError{Bound: "2.00 USD", Spent: "1.99 USD"}, 5, func(err error) bool {
			var used *pipeline.BudgetError
			return errors.As(err, &used) && used.Bound == "2.00 USD" && used.Spent == "1.99 USD"
		}},
		"stopped": {limit.ErrStopped, 5, func(err error) bool { return errors.Is(err, limit.ErrStopped) }},
		"usage":   {cli.Usage("no price"), 64, func(err error) bool { return strings.Contains(err.Error(), "no price") }},
		"another": {errors.New("odd"), 70, func(err error) bool { return strings.Contains(err.Error(), "odd") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newPermitServer(t.Context(), refusingAdmission{c.err})
			defer server.Close()
			permits := workers.NewPermits((&lossyConn{server: server}).exchange, "m", "w")
			defer permits.Close()
			_, err := permits.Admit(t.Context(), pipeline.Estimate{})
			if err == nil || !c.is(err) || !limit.StopsRun(err) || cli.ExitCode(err) != c.code {
				t.Errorf("%s: %v, exit code %d", name, err, cli.ExitCode(err))
			}
		})
	}
}

// TestPermits_trips checks that a request that fails with status 401 or 403 returns the
// TrippedError of the server's limiter, and not the failure of the item.
func TestPermits_trips(t *testing.T) {
	for _, status := range []int{401, 403} {
		synctest.Test(t, func(t *testing.T) {
			server := newPermitServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
			defer server.Close()
			conn := &lossyConn{server: server, latency: 30 * time.Millisecond}
			permits := workers.NewPermits(conn.exchange, "m", "w")
			defer permits.Close()
			model := pipeline.Limited(pipeline.LimitedConfig{Admission: permits, Model: newFakeModel(func(int) (pipeline.Response, error) {
				return pipeline.Response{Attempts: 1}, &pipeline.ModelError{Status: status, Failure: outcome.Failure{Class: outcome.Provider, Message: "no"}}
			})})
			_, err := model.Generate(t.Context(), testRequest)
			var tripped *limit.TrippedError
			if !errors.As(err, &tripped) || !tripped.Unauthorised {
				t.Errorf("%d: %v", status, err)
			}
		})
	}
}

// testRequest is a request to a model that does not read it.
var testRequest = pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "x"}}}

// newFakeModel returns a model that calls answer with the number of the request, counted from 1.
func newFakeModel(answer func(n int) (pipeline.Response, error)) pipeline.Model {
	return &fakeModel{answer: answer}
}

type fakeModel struct {
	mu     sync.Mutex
	n      int
	answer func(n int) (pipeline.Response, error)
}

func (a *fakeModel) Generate(context.Context, pipeline.Request) (pipeline.Response, error) {
	a.mu.Lock()
	a.n++
	n := a.n
	a.mu.Unlock()
	return a.answer(n)
}

// TestPermits_lostCoordinator checks that while the server cannot be reached, Done does not wait,
// Admit waits, and each of them sends a request about once a second, and that the server gets the
// results when it is back.
func TestPermits_lostCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		conn := &lossyConn{server: server, latency: time.Millisecond}
		permits := workers.NewPermits(conn.exchange, "m", "w")
		defer permits.Close()
		first, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		before := conn.setDown(true)
		ctx, cancel := limit.WithTimeout(t.Context(), time.Second) // does not expire while Admit waits
		defer cancel()
		var second pipeline.Permit
		var all sync.WaitGroup
		all.Go(func() { second, err = permits.Admit(ctx, pipeline.Estimate{}) })
		if stop := first.Done(t.Context(), pipeline.RequestResult{}); stop != nil {
			t.Error(stop)
		}
		time.Sleep(20 * time.Second)
		// After the first request of both, the pauses are 0.1, 0.2, 0.4, 0.8 s, then 1 s: 22 more. There
		// are 12 heartbeats after 8 s.
		back := time.Now()
		if n := conn.setDown(false) - before; n < 54 || n > 62 || limiter.State().UnderWay != 1 {
			t.Errorf("asked %d times in 20 s, %+v", n, limiter.State())
		}
		all.Wait()
		if err != nil || limiter.State().Answers != 1 || time.Since(back) > 4*time.Second {
			t.Fatalf("%v, %+v, after %s", err, limiter.State(), time.Since(back))
		}
		second.Done(t.Context(), pipeline.RequestResult{})
		second.Done(t.Context(), pipeline.RequestResult{})
		permits.Close()
		if s := limiter.State(); s.Answers != 2 || s.UnderWay != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPermits_giveUp checks that the server stops waiting for the permit of a caller that gives up.
func TestPermits_giveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		permits := workers.NewPermits((&lossyConn{server: server}).exchange, "m", "w")
		defer permits.Close()
		first, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := permits.Admit(ended, pipeline.Estimate{}); !errors.Is(err, context.Canceled) {
				t.Errorf("waiting: %v", err)
			}
		})
		time.Sleep(time.Second)
		end()
		all.Wait()
		time.Sleep(100 * time.Millisecond)
		if s := limiter.State(); s.Waiting != 0 {
			t.Errorf("who gave up is waited for: %+v", s)
		}
		first.Done(t.Context(), pipeline.RequestResult{})
		time.Sleep(time.Second)
		if s := limiter.State(); s.UnderWay != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPermitServer_stop checks that callers that wait when the stop occurs get limit.ErrStopped,
// and that later callers, which belong to calls in progress, get permits unless there is a pause.
func TestPermitServer_stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no caller waits
		stop := make(chan struct{})
		server := newPermitServer(limit.WithStop(t.Context(), stop), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
		defer server.Close()
		permits := workers.NewPermits((&lossyConn{server: server}).exchange, "m", "w")
		defer permits.Close()
		close(stop)
		if _, err := permits.Admit(t.Context(), pipeline.Estimate{}); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newPermitServer(limit.WithStop(t.Context(), stop), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		permits := workers.NewPermits((&lossyConn{server: server}).exchange, "m", "w")
		defer permits.Close()
		first, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := permits.Admit(t.Context(), pipeline.Estimate{}); !errors.Is(err, limit.ErrStopped) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		close(stop)
		all.Wait()
		first.Done(t.Context(), pipeline.RequestResult{})
		next, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		next.Done(t.Context(), pipeline.RequestResult{Result: limit.Result{Kind: limit.Rejected, RetryAfter: time.Minute}})
		time.Sleep(time.Second)
		if _, err := permits.Admit(t.Context(), pipeline.Estimate{}); !errors.Is(err, limit.ErrStopped) {
			t.Errorf("in a pause: %v", err)
		}
	})
}

// TestPermitServer_deadWorker checks that a worker that has been silent for 30 s loses its permits,
// and that their whole reservations count as spent. Another worker keeps a permit for ten minutes.
func TestPermitServer_deadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 8, Start: 8})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		livingConn, deadConn := &lossyConn{server: server}, &lossyConn{server: server}
		living, dead := workers.NewPermits(livingConn.exchange, "m", "w"), workers.NewPermits(deadConn.exchange, "m", "w")
		defer living.Close()
		defer dead.Close()
		tenTokens := pipeline.Estimate{Input: 9, Output: 1, MaxOutput: 1}
		short, err := living.Admit(t.Context(), tenTokens)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(time.Second)
			short.Done(t.Context(), pipeline.RequestResult{Usage: outcome.Usage{Input: 1}})
		})
		long, err := living.Admit(t.Context(), tenTokens)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = dead.Admit(t.Context(), tenTokens); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		deadConn.setDown(true)
		time.Sleep(28 * time.Second) // the dead worker last sent something a second before
		if s := limiter.State(); s.UnderWay != 2 {
			t.Errorf("29 s: %+v", s)
		}
		time.Sleep(13 * time.Second)
		if _, tokens := budget.Spent(); limiter.State().UnderWay != 1 || tokens != 1+10 {
			t.Errorf("41 s: %+v, %d tokens", limiter.State(), tokens)
		}
		time.Sleep(10 * time.Minute)
		long.Done(t.Context(), pipeline.RequestResult{Usage: outcome.Usage{Input: 2}})
		time.Sleep(time.Second)
		if _, tokens := budget.Spent(); limiter.State().UnderWay != 0 || tokens != 1+10+2 {
			t.Errorf("at the end: %+v, %d tokens", limiter.State(), tokens)
		}
	})
}

// TestPermitServer_deadWaits checks that a worker that dies while its callers wait is granted
// nothing from two seconds later on. At 6 requests a minute, the second permit would be granted
// after 10 s.
func TestPermitServer_deadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 8, Start: 8, RequestsPerMinute: 6})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		conn := &lossyConn{server: server}
		permits := workers.NewPermits(conn.exchange, "m", "w")
		first, err := permits.Admit(t.Context(), pipeline.Estimate{Input: 10})
		if err != nil {
			t.Fatal(err)
		}
		first.Done(t.Context(), pipeline.RequestResult{Usage: outcome.Usage{Input: 1}})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := permits.Admit(t.Context(), pipeline.Estimate{Input: 10}); !errors.Is(err, limit.ErrStopped) {
					t.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		conn.setDown(true)
		time.Sleep(18 * time.Second)
		if s := limiter.State(); s.UnderWay != 0 || s.Waiting != 0 {
			t.Errorf("20 s: %+v", s)
		}
		permits.Close()
		all.Wait()
		time.Sleep(time.Minute)
		if _, tokens := budget.Spent(); tokens != 1 {
			t.Errorf("%d tokens are booked", tokens)
		}
	})
}

// TestPermitServer_bad checks that a request that breaks one rule is answered with an error, that the
// ends of unknown permits are ignored, and that neither grants a permit.
func TestPermitServer_bad(t *testing.T) {
	long := strings.Repeat("w", 1001)
	for name, members := range map[string]string{
		"no worker":       `"Worker":""`,
		"long worker":     `"Worker":"` + long + `"`,
		"long group":      `"Group":"` + long + `"`,
		"large":           `"Unknown":"` + strings.Repeat("w", 1<<20) + `"`,
		"other JSON":      `"ID":[1]`,
		"huge count":      `"Estimate":{"Input":1e99}`,
		"huge estimate":   `"Estimate":{"Input":5000000000000}`,
		"negative limit":  `"Estimate":{"Input":1,"Output":1,"MaxOutput":-2}`,
		"negative tokens": `"Ended":{"Tokens":-1}`,
		"negative use":    `"Ended":{"Usage":{"input":-5}}`,
		"negative guess":  `"Ended":{"Assumed":{"output":-5}}`,
		"negative cost":   `"Ended":{"CostUSD":-1}`,
		"huge cost":       `"Ended":{"CostUSD":2e9}`,
		"negative pause":  `"Ended":{"RetryAfter":-1}`,
		"long pause":      `"Ended":{"RetryAfter":86400000000001}`, // 24 h and 1 ns
		"no end":          `"Ended":{"Kind":-1}`,
		"another end":     `"Ended":{"Kind":5}`,
		"long reason":     `"Ended":{"Reason":"` + long + `"}`,
		"unknown":         `"Ended":{"Usage":{"input":5}}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newPermitServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
			defer server.Close()
			// Of a member that is there twice, the last one counts.
			raw := server.Answer(t.Context(), []byte(`{"Group":"m","Worker":"w","ID":1,"Estimate":{},`+members+`}`))
			var reply struct {
				Granted bool
				Error   struct{ Text string }
			}
			if json.Unmarshal(raw, &reply) != nil || reply.Granted ||
				strings.Contains(reply.Error.Text, "not of this protocol") != (name != "unknown") {
				t.Errorf("%s: %.300s", name, raw)
			}
		})
	}
}

// TestPermitServer_repeated checks that each permit is granted once and each result counts once if
// requests arrive twice or late and results are reported twice.
func TestPermitServer_repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		for i, c := range []struct {
			request  string
			granted  bool
			underWay int
		}{
			{`"ID":1,"Estimate":{}`, true, 1},
			{`"ID":1,"Estimate":{}`, true, 1}, // it arrives twice, or the reply was lost
			{`"ID":2,"Estimate":{}`, false, 1},
			{`"ID":1,"Ended":{"Usage":{"input":5}}`, false, 1}, // the second is granted
			{`"ID":1,"Ended":{"Usage":{"input":5}}`, false, 1},
			{`"ID":2,"Estimate":{}`, true, 1},
			{`"ID":2,"Ended":{}`, false, 0},
			{`"ID":1,"Estimate":{}`, false, 0}, // late
			{`"ID":1,"Ended":{"Usage":{"input":5}}`, false, 0},
			{`"ID":2,"Estimate":{}`, false, 0}, // late
			{`"ID":3,"Ended":{}`, false, 0},    // the worker gave up, and this overtakes its first request
			{`"ID":3,"Estimate":{}`, false, 0},
			{`"ID":0`, false, 0}, // a heartbeat
			{`"ID":5,"Estimate":{}`, true, 1},
			{`"ID":6,"Estimate":{}`, false, 1},
			{`"ID":6,"Ended":{}`, false, 1}, // the worker gave up
			{`"ID":5,"Ended":{}`, false, 0},
			{`"ID":6,"Estimate":{}`, false, 0}, // late
		} {
			raw := server.Answer(t.Context(), []byte(`{"Group":"m","Worker":"w",`+c.request+`}`))
			var reply struct{ Granted bool }
			if err := json.Unmarshal(raw, &reply); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until a permit for a withdrawn request is returned
			underWay := limiter.State().UnderWay
			if reply.Granted != c.granted || underWay != c.underWay {
				t.Errorf("%d: granted %v, %d under way; want %v, %d", i, reply.Granted, underWay, c.granted, c.underWay)
			}
		}
		if _, tokens := budget.Spent(); tokens != 5 {
			t.Errorf("%d tokens", tokens)
		}
	})
}

// FuzzPermitServer checks that the server answers any two messages with valid JSON, that it never
// has more permits than the limiter allows, and that Close returns all of them.
func FuzzPermitServer(f *testing.F) {
	f.Add([]byte(`{"Group":"m","Worker":"w","ID":1,"Estimate":{"Input":5}}`), []byte(`{"Group":"m","Worker":"w","ID":1,"Ended":{"Kind":1,"RetryAfter":9,"CostUSD":1e9}}`))
	f.Add([]byte(`{"Worker":"w","ID":-1,"Estimate":{"Input":-1,"MaxOutput":-9}}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		synctest.Test(t, func(t *testing.T) {
			limiter := newLimiter(t, limit.Config{MaxConcurrent: 2})
			budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, budget))
			for _, raw := range [][]byte{first, second, first} {
				answer := server.Answer(t.Context(), raw)
				if !json.Valid(answer) || limiter.State().UnderWay > 2 {
					t.Fatalf("%s, %+v", answer, limiter.State())
				}
			}
			server.Close()
			if _, tokens := budget.Spent(); limiter.State().UnderWay != 0 || tokens < 0 {
				t.Errorf("%+v, %d tokens", limiter.State(), tokens)
			}
		})
	})
}

// TestPermits_property checks, with connections that lose messages and callers that give up, that
// every call of Admit returns, that the limit of concurrent calls holds, that all permits are
// returned, and that each usage is charged once.
func TestPermits_property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			most := rapid.IntRange(1, 8).Draw(rt, "most")
			limiter := newLimiter(rt, limit.Config{MaxConcurrent: most, Start: most})
			budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1 << 40})
			if err != nil {
				rt.Fatal(err)
			}
			server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, budget))
			seed := rapid.Uint64().Draw(rt, "seed")
			var mu sync.Mutex
			var all sync.WaitGroup
			var used int64
			underWay, peak := 0, 0
			var allPermits []*workers.Permits
			var conns []*lossyConn
			for w := range rapid.IntRange(1, 3).Draw(rt, "workers") {
				conn := &lossyConn{server: server, latency: time.Duration(rapid.IntRange(0, 100).Draw(rt, "latency")) * time.Millisecond,
					loss: rapid.Float64Range(0, 0.3).Draw(rt, "loss"), random: rand.New(rand.NewPCG(seed, uint64(w)))}
				permits := workers.NewPermits(conn.exchange, "m", "w")
				allPermits, conns = append(allPermits, permits), append(conns, conn)
				for range rapid.IntRange(1, 20).Draw(rt, "callers") {
					patience := time.Duration(rapid.IntRange(0, 60).Draw(rt, "patience")) * time.Second
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						permit, err := permits.Admit(ctx, pipeline.Estimate{Input: 1, MaxOutput: 1})
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								rt.Error(err)
							}
							return
						}
						mu.Lock()
						underWay++
						peak = max(peak, underWay)
						used += 3
						mu.Unlock()
						time.Sleep(time.Second)
						mu.Lock()
						underWay--
						mu.Unlock()
						permit.Done(ctx, pipeline.RequestResult{Usage: outcome.Usage{Input: 3}})
					})
				}
			}
			all.Wait()
			for range 100 { // until all results are reported in spite of lost messages
				if limiter.State().UnderWay > 0 {
					time.Sleep(time.Second)
				}
			}
			for _, conn := range conns { // otherwise Close may fail to report a result, and the whole reservation counts
				conn.setLoss(0)
			}
			for _, p := range allPermits {
				p.Close()
			}
			synctest.Wait() // until the server returns permits of callers that gave up
			_, tokens := budget.Spent()
			if s := limiter.State(); s.UnderWay != 0 || s.Waiting != 0 || peak > most || tokens != used {
				rt.Errorf("%+v, %d at once of %d, %d tokens booked of %d", s, peak, most, tokens, used)
			}
			server.Close()
		})
	})
}

// TestLimitGroup checks that the name depends on the key but does not contain it.
func TestLimitGroup(t *testing.T) {
	a := workers.LimitGroup("m", "h", "sk-secret")
	if b := workers.LimitGroup("m", "h", "sk-other"); a == b || strings.Contains(a, "secret") || a != workers.LimitGroup("m", "h", "sk-secret") {
		t.Error(a, b)
	}
}

// grantAtStop is an Admission that grants permits only after stop is closed.
type grantAtStop struct {
	refusingAdmission
	stop chan struct{}
}

func (a grantAtStop) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Permit, error) {
	<-a.stop
	return pipeline.NewAdmission(limit.New(limit.Config{}), nil).Admit(ctx, e)
}

// TestPermits_stopBesideGrant checks that if a stop occurs together with a grant, all other callers
// that wait get limit.ErrStopped.
func TestPermits_stopBesideGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := grantAtStop{stop: make(chan struct{})}
		server := newPermitServer(limit.WithStop(t.Context(), admission.stop), admission)
		permits := workers.NewPermits((&lossyConn{server: server}).exchange, "m", "a")
		var granted, stopped atomic.Int64
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				switch _, err := permits.Admit(t.Context(), pipeline.Estimate{}); {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, limit.ErrStopped):
					stopped.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		close(admission.stop)
		calls.Wait()
		if granted.Load() != 1 || stopped.Load() != 9 {
			t.Errorf("%d were granted and %d stopped, of 10 that waited", granted.Load(), stopped.Load())
		}
		permits.Close()
		server.Close()
	})
}

// TestPermits_anotherCoordinator checks that what stopped a coordinator does not stop the next one, to
// which the same worker reports a failure.
func TestPermits_anotherCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server atomic.Pointer[workers.PermitServer]
		exchange := func(ctx context.Context, request []byte) ([]byte, error) {
			return server.Load().Answer(ctx, request), nil
		}
		permits := workers.NewPermits(exchange, "m", "w")
		defer permits.Close()
		fail := func(r limit.Result) error {
			s := newPermitServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
			server.Store(s)
			defer s.Close()
			permit, err := permits.Admit(t.Context(), pipeline.Estimate{})
			if err != nil {
				t.Fatal(err)
			}
			return permit.Done(t.Context(), pipeline.RequestResult{Result: r})
		}
		var tripped *limit.TrippedError
		if err := fail(limit.Result{Kind: limit.Refused, Fatal: true, Reason: "401"}); !errors.As(err, &tripped) {
			t.Error(err)
		}
		if err := fail(limit.Result{Kind: limit.Failed, Reason: "500"}); err != nil {
			t.Errorf("at the next coordinator: %v", err)
		}
	})
}

// TestPermitServer_late checks that a request that arrives a minute late, when its permit has ended and
// is forgotten, gets no permit: its worker does not wait for one and would never return it.
func TestPermitServer_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{})
		server := newPermitServer(t.Context(), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		requests := make(chan []byte, 1) // the first one
		permits := workers.NewPermits(func(ctx context.Context, request []byte) ([]byte, error) {
			select {
			case requests <- request:
			default:
			}
			return server.Answer(ctx, request), nil
		}, "m", "w")
		defer permits.Close()
		permit, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		permit.Done(t.Context(), pipeline.RequestResult{})
		time.Sleep(time.Minute)
		server.Answer(t.Context(), <-requests)
		time.Sleep(time.Minute)
		if s := limiter.State(); s.UnderWay != 0 {
			t.Errorf("%+v", s)
		}
	})
}
