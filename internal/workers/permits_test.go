package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// line is a way to a server that takes time and loses messages.
type line struct {
	server  *workers.PermitServer
	latency time.Duration

	mu     sync.Mutex
	random *rand.Rand
	loss   float64 // share of the messages, there and back
	down   bool
	asked  int
}

func (l *line) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down || l.loss > 0 && l.random.Float64() < l.loss
}

func (l *line) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// lose changes the share of messages that are lost.
func (l *line) lose(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = share
}

// cut interrupts the line or mends it, and returns how many requests it was given.
func (l *line) cut(down bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	return l.asked
}

func (l *line) exchange(ctx context.Context, request []byte) ([]byte, error) {
	l.mu.Lock()
	l.asked++
	l.mu.Unlock()
	time.Sleep(l.latency)
	if l.loses() {
		if !l.isDown() { // else nobody is there, which is known at once
			<-ctx.Done()
		}
		return nil, errLost
	}
	answer := l.server.Answer(ctx, request)
	time.Sleep(l.latency)
	if answer == nil || l.loses() {
		<-ctx.Done()
		return nil, errLost
	}
	return answer, nil
}

func newLimiter(t rapid.TB, cfg limit.Config) *limit.Limiter {
	t.Helper()
	cfg.Jitter = func() float64 { return 0 }
	return limit.New(cfg)
}

func newServer(ctx context.Context, admission pipeline.Admission) *workers.PermitServer {
	return workers.NewPermitServer(ctx, func(string) pipeline.Admission { return admission })
}

// refusing is an admission that only ever says no.
type refusing struct{ err error }

func (s refusing) Admit(context.Context, pipeline.Estimate) (pipeline.Permit, error) {
	return nil, s.err
}
func (s refusing) State() limit.State { return limit.State{} }

// Errors of the coordinator's admission arrive as those of one process.
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
			server := newServer(t.Context(), refusing{c.err})
			defer server.Close()
			permits := workers.NewPermits((&line{server: server}).exchange, "m", "w")
			defer permits.Close()
			_, err := permits.Admit(t.Context(), pipeline.Estimate{})
			if err == nil || !c.is(err) || !limit.StopsRun(err) || cli.ExitCode(err) != c.code {
				t.Errorf("%s: %v, exit code %d", name, err, cli.ExitCode(err))
			}
		})
	}
}

// A key that is not accepted stops the run and is not a failure of the item, as locally:
// the worker waits for what the server says.
func TestPermits_trips(t *testing.T) {
	for _, status := range []int{401, 403} {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t.Context(), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
			defer server.Close()
			l := &line{server: server, latency: 30 * time.Millisecond}
			permits := workers.NewPermits(l.exchange, "m", "w")
			defer permits.Close()
			model := pipeline.Limited(pipeline.LimitedConfig{Admission: permits, Model: answering(func(int) (pipeline.Response, error) {
				return pipeline.Response{Attempts: 1}, &pipeline.ModelError{Status: status, Failure: outcome.Failure{Class: outcome.Provider, Message: "no"}}
			})})
			_, err := model.Generate(t.Context(), one)
			var tripped *limit.TrippedError
			if !errors.As(err, &tripped) || !tripped.Unauthorised {
				t.Errorf("%d: %v", status, err)
			}
		})
	}
}

var one = pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "x"}}}

// answering is a model; its requests are numbered from 1.
func answering(answer func(n int) (pipeline.Response, error)) pipeline.Model {
	return &answers{answer: answer}
}

type answers struct {
	mu     sync.Mutex
	n      int
	answer func(n int) (pipeline.Response, error)
}

func (a *answers) Generate(context.Context, pipeline.Request) (pipeline.Response, error) {
	a.mu.Lock()
	a.n++
	n := a.n
	a.mu.Unlock()
	return a.answer(n)
}

// While the server is away a request under way ends, the next one waits, the server is
// asked about once a second, and all is told when it is back.
func TestPermits_lostCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newServer(t.Context(), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		l := &line{server: server, latency: time.Millisecond}
		permits := workers.NewPermits(l.exchange, "m", "w")
		defer permits.Close()
		first, err := permits.Admit(t.Context(), pipeline.Estimate{})
		if err != nil {
			t.Fatal(err)
		}
		asked := l.cut(true)
		ctx, cancel := limit.WithTimeout(t.Context(), time.Second) // its clock stands still
		defer cancel()
		var second pipeline.Permit
		var all sync.WaitGroup
		all.Go(func() { second, err = permits.Admit(ctx, pipeline.Estimate{}) })
		if stop := first.Done(t.Context(), pipeline.RequestResult{}); stop != nil {
			t.Error(stop)
		}
		time.Sleep(20 * time.Second)
		// After 0.1, 0.2, 0.4, 0.8 s, then every second: 22.
		back := time.Now()
		if n := l.cut(false) - asked; n < 18 || n > 26 || limiter.State().UnderWay != 1 {
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

// Who gives up is waited for no longer.
func TestPermits_giveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newServer(t.Context(), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		permits := workers.NewPermits((&line{server: server}).exchange, "m", "w")
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

// When the coordinator is stopped, who waits gets that; calls begun before may go on, but wait
// for no pause.
func TestPermitServer_stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // nobody waited
		stop := make(chan struct{})
		server := newServer(limit.WithStop(t.Context(), stop), pipeline.NewAdmission(newLimiter(t, limit.Config{}), nil))
		defer server.Close()
		permits := workers.NewPermits((&line{server: server}).exchange, "m", "w")
		defer permits.Close()
		close(stop)
		if _, err := permits.Admit(t.Context(), pipeline.Estimate{}); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		server := newServer(limit.WithStop(t.Context(), stop), pipeline.NewAdmission(limiter, nil))
		defer server.Close()
		permits := workers.NewPermits((&line{server: server}).exchange, "m", "w")
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

// A worker that dies loses its permits after 30 s; what was put aside counts as taken.
// One that lives keeps them, however long its requests take.
func TestPermitServer_deadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 8, Start: 8})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		server := newServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		alive, dies := &line{server: server}, &line{server: server}
		living, dead := workers.NewPermits(alive.exchange, "m", "w"), workers.NewPermits(dies.exchange, "m", "w")
		defer living.Close()
		defer dead.Close()
		ten := pipeline.Estimate{Input: 9, Output: 1, MaxOutput: 1}
		open, err := living.Admit(t.Context(), ten) // the first goes alone
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(time.Second)
			open.Done(t.Context(), pipeline.RequestResult{Usage: outcome.Usage{Input: 1}})
		})
		long, err := living.Admit(t.Context(), ten)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = dead.Admit(t.Context(), ten); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		dies.cut(true)
		time.Sleep(29 * time.Second)
		if s := limiter.State(); s.UnderWay != 2 {
			t.Errorf("29 s: %+v", s)
		}
		time.Sleep(12 * time.Second)
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

// A worker that dies while its requests wait is granted nothing two seconds later: at 6 a
// minute the second would be granted after 10 s.
func TestPermitServer_deadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 8, Start: 8, RequestsPerMinute: 6})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		server := newServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		l := &line{server: server}
		permits := workers.NewPermits(l.exchange, "m", "w")
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
		l.cut(true)
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

// Bytes that no worker sends are answered with the reason, and grant nothing.
func TestPermitServer_bad(t *testing.T) {
	ended := func(s string) string {
		return `{"Group":"m","Worker":"w","Seq":1,"Ended":[` + s + `]}`
	}
	for name, request := range map[string]string{
		"no JSON":       "\x00\xff",
		"other JSON":    `[1]`,
		"nothing":       `{}`,
		"no number":     `{"Worker":"w"}`,
		"long name":     `{"Seq":1,"Worker":"` + strings.Repeat("w", 2000) + `"}`,
		"many":          `{"Seq":1,"Worker":"w","Wants":[[]` + strings.Repeat(",[]", 4000) + `]}`,
		"large":         `{"Worker":"` + strings.Repeat("w", 1<<20) + `"}`,
		"huge count":    `{"Seq":1,"Worker":"w","Wants":[[1,1e99]]}`,
		"huge estimate": `{"Seq":1,"Worker":"w","Wants":[[1,5000000000000]]}`,
		"negative cost": ended(`{"ID":7,"CostUSD":-1}`),
		"negative use":  ended(`{"ID":7,"Usage":{"input":-5}}`),
		"another end":   ended(`{"ID":7,"Kind":99}`),
		"unknown":       ended(`{"ID":7,"Usage":{"input":5}},{"ID":7}`),
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := newLimiter(t, limit.Config{})
			server := newServer(t.Context(), pipeline.NewAdmission(limiter, nil))
			defer server.Close()
			raw := server.Answer(t.Context(), []byte(request))
			var reply struct {
				Granted []int64
				Error   struct{ Text string }
			}
			if json.Unmarshal(raw, &reply) != nil || len(reply.Granted) > 0 ||
				strings.Contains(reply.Error.Text, "not of this protocol") != (name != "unknown") {
				t.Errorf("%s: %s", name, raw)
			}
		})
	}
}

// The same request twice, an older one, an end told twice: one
// permit each, and its result counts once.
func TestPermitServer_repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limit.Config{MaxConcurrent: 1})
		budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		server := newServer(t.Context(), pipeline.NewAdmission(limiter, budget))
		defer server.Close()
		for i, c := range []struct {
			says, granted string
			underWay      int
		}{
			{`"Seq":2,"Wants":[[1]]`, "[1]", 1},
			{`"Seq":2,"Wants":[[1]]`, "[1]", 1},     // there twice on the way
			{`"Seq":3,"Wants":[[1],[2]]`, "[1]", 1}, // the answer was lost
			{`"Seq":4,"Ended":[{"ID":1,"Usage":{"input":5}},{"ID":1,"Usage":{"input":5}}]`, "[]", 0},
			{`"Seq":3,"Wants":[[1],[2]]`, "[]", 0}, // overtaken
			{`"Seq":5,"Ended":[{"ID":1,"Usage":{"input":5}}],"Wants":[[2]]`, "[2]", 1},
			{`"Seq":6,"Ended":[{"ID":2}]`, "[]", 0},
			{`"Seq":7,"Wants":[[2],[2]]`, "[2 2]", 1}, // asked anew, and listed twice
		} {
			raw := server.Answer(t.Context(), []byte(`{"Group":"m","Worker":"w",`+c.says+`}`))
			var reply struct{ Granted []int64 }
			if err := json.Unmarshal(raw, &reply); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a permit that came for a want just withdrawn is given back
			under := limiter.State().UnderWay
			if got := fmt.Sprint(reply.Granted); got != c.granted || under != c.underWay {
				t.Errorf("%d: granted %s, %d under way; want %s, %d", i, got, under, c.granted, c.underWay)
			}
		}
		if _, tokens := budget.Spent(); tokens != 5 {
			t.Errorf("%d tokens", tokens)
		}
	})
}

// FuzzPermitServer: whatever bytes come, in two messages, nothing panics, no more is
// granted than the limiter has, and Close leaves nothing under way.
func FuzzPermitServer(f *testing.F) {
	f.Add([]byte(`{"Group":"m","Worker":"w","Seq":1,"Wants":[[1,5]]}`), []byte(`{"Group":"m","Worker":"w","Seq":2,"Ended":[{"ID":1,"Kind":1,"RetryAfter":9,"CostUSD":1e308}]}`))
	f.Add([]byte(`{"Seq":9223372036854775807,"Worker":"w","Wants":[[-1,-1,0,-9]]}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		synctest.Test(t, func(t *testing.T) {
			limiter := newLimiter(t, limit.Config{MaxConcurrent: 2})
			budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			server := newServer(t.Context(), pipeline.NewAdmission(limiter, budget))
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

// Over lines that lose messages, with callers that give up: every caller is answered,
// no more than the window are ever under way, all permits come back, and what the
// requests took is booked once.
func TestPermits_property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			most := rapid.IntRange(1, 8).Draw(rt, "most")
			limiter := newLimiter(rt, limit.Config{MaxConcurrent: most, Start: most})
			budget, err := pipeline.NewBudget(pipeline.BudgetConfig{Tokens: 1 << 40})
			if err != nil {
				rt.Fatal(err)
			}
			server := newServer(t.Context(), pipeline.NewAdmission(limiter, budget))
			seed := rapid.Uint64().Draw(rt, "seed")
			var mu sync.Mutex
			var all sync.WaitGroup
			var took int64
			underWay, atOnce := 0, 0
			var closing []*workers.Permits
			var lines []*line
			for w := range rapid.IntRange(1, 3).Draw(rt, "workers") {
				l := &line{server: server, latency: time.Duration(rapid.IntRange(0, 100).Draw(rt, "latency")) * time.Millisecond,
					loss: rapid.Float64Range(0, 0.3).Draw(rt, "loss"), random: rand.New(rand.NewPCG(seed, uint64(w)))}
				permits := workers.NewPermits(l.exchange, "m", "w")
				closing, lines = append(closing, permits), append(lines, l)
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
						atOnce = max(atOnce, underWay)
						took += 3
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
			for range 100 { // until all results are told, over lines that lose them
				if limiter.State().UnderWay > 0 {
					time.Sleep(time.Second)
				}
			}
			for _, l := range lines { // or the last word of a worker is lost, and what it did not tell counts as spent
				l.lose(0)
			}
			for _, p := range closing {
				p.Close()
			}
			synctest.Wait() // for what the server asks for a caller that gave up
			_, tokens := budget.Spent()
			if s := limiter.State(); s.UnderWay != 0 || s.Waiting != 0 || atOnce > most || tokens != took {
				rt.Errorf("%+v, %d at once of %d, %d tokens booked of %d", s, atOnce, most, tokens, took)
			}
			server.Close()
		})
	})
}

func TestLimitGroup(t *testing.T) {
	a := workers.LimitGroup("m", "h", "sk-secret")
	if b := workers.LimitGroup("m", "h", "sk-other"); a == b || strings.Contains(a, "secret") || a != workers.LimitGroup("m", "h", "sk-secret") {
		t.Error(a, b)
	}
}

// atStop is an admission that grants a permit when the run is stopped.
type atStop struct {
	refusing
	stop chan struct{}
}

func (a atStop) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Permit, error) {
	<-a.stop
	return pipeline.NewAdmission(limit.New(limit.Config{}), nil).Admit(ctx, e)
}

// A stop that comes beside a grant is heard by all others that wait.
func TestPermits_stopBesideGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := atStop{stop: make(chan struct{})}
		server := newServer(limit.WithStop(t.Context(), admission.stop), admission)
		permits := workers.NewPermits((&line{server: server}).exchange, "m", "a")
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
