package limit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
)

// newLimiter returns a Limiter, without jitter unless cfg has one.
func newLimiter(t *testing.T, cfg limit.Config) *limit.Limiter {
	t.Helper()
	if cfg.Jitter == nil {
		cfg.Jitter = func() float64 { return 0 }
	}
	return limit.New(cfg)
}

func acquire(t *testing.T, l *limit.Limiter, tokens int64) *limit.Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func done(t *testing.T, p *limit.Permit, r limit.Result) {
	t.Helper()
	if err := p.Done(r); err != nil {
		t.Fatal(err)
	}
}

// TestLimiter_slowStart checks that the window is 1, then 4, then 8 calls of a second each, and not
// more than MaxConcurrent.
func TestLimiter_slowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 8})
		var mu sync.Mutex
		var working, most int
		var calls sync.WaitGroup
		began := time.Now()
		for range 39 {
			calls.Go(func() {
				p := acquire(t, l, 0)
				mu.Lock()
				working++
				most = max(most, working)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				working--
				mu.Unlock()
				done(t, p, limit.Result{})
			})
		}
		calls.Wait()
		// 5 calls begin in the first two seconds, then 8 per second. The gaps within bursts add
		// less than a second.
		if took := time.Since(began); most != 8 || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("39 calls took %s, %d at once", took, most)
		}
		if s := l.State(); s.UnderWay != 0 || s.Waiting != 0 || s.Window != 8 {
			t.Errorf("state %+v", s)
		}
	})
}

// TestLimiter_known checks that the limiter starts with the concurrency of an earlier run. The gaps
// depend on the latency: 8 calls of a second begin every 1/16 s.
func TestLimiter_known(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 10, Start: 8, Latency: time.Second})
		began := time.Now()
		var permits []*limit.Permit
		for range 8 {
			permits = append(permits, acquire(t, l, 0))
		}
		if took := time.Since(began); took != 7*time.Second/16 {
			t.Errorf("8 calls began within %s", took)
		}
		ninth := make(chan time.Time)
		go func() {
			acquire(t, l, 0)
			ninth <- time.Now()
		}()
		time.Sleep(time.Minute)
		answered := time.Now()
		done(t, permits[0], limit.Result{})
		if at := <-ninth; at.Before(answered) {
			t.Error("a ninth was let through before one was answered")
		}
		if size := l.State().Window; size != 10 {
			t.Errorf("the window is %v, not 8 + 2", size)
		}
	})
}

func TestLimiter_retryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		ask    time.Duration
		jitter float64
		want   time.Duration
	}{
		"as asked":                {600 * time.Second, 0, 600 * time.Second},
		"capped":                  {time.Hour, 0, 10 * time.Minute},
		"a tenth longer at most":  {10 * time.Second, 0.5, 10*time.Second + 500*time.Millisecond},
		"and five seconds":        {600 * time.Second, 1, 605 * time.Second},
		"nothing asked, at first": {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, limit.Config{Jitter: func() float64 { return c.jitter }})
				done(t, acquire(t, l, 0), limit.Result{Kind: limit.Rejected, RetryAfter: c.ask})
				began := time.Now()
				done(t, acquire(t, l, 0), limit.Result{})
				if waited := time.Since(began); waited != c.want {
					t.Errorf("waited %s, want %s", waited, c.want)
				}
			})
		})
	}
}

// TestLimiter_backoff checks that after rejections without a header, there is no pause at first,
// then 1 s, doubled up to 30 s, and none after an answer.
func TestLimiter_backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{Backoff: time.Second})
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 1, 3, 7, 15, 31, 61, 91} {
			p := acquire(t, l, 0)
			if at := time.Since(began); at != want*time.Second {
				t.Errorf("call %d began after %s, want %ds", i+1, at, want)
			}
			done(t, p, limit.Result{Kind: limit.Rejected})
		}
		done(t, acquire(t, l, 0), limit.Result{})
		began = time.Now()
		done(t, acquire(t, l, 0), limit.Result{})
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %s after an answer", waited)
		}
	})
}

func TestLimiter_rates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 100, RequestsPerMinute: 60})
		began := time.Now()
		for range 11 {
			done(t, acquire(t, l, 5), limit.Result{Tokens: 50})
		}
		if took := time.Since(began); took != 10*time.Second { // the first at once
			t.Errorf("11 calls at 60 a minute took %s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{TokensPerMinute: 6000}) // 100 in a second
		began := time.Now()
		for i, c := range []struct{ estimated, really, at int64 }{
			{1000, 500, 0}, // counts as 500
			{100, 0, 5},    // the actual number is unknown
			{300, 300, 6},
			{0, 0, 9},
		} {
			p := acquire(t, l, c.estimated)
			if at := time.Since(began); at != time.Duration(c.at)*time.Second {
				t.Errorf("call %d began after %s, want %ds", i+1, at, c.at)
			}
			done(t, p, limit.Result{Tokens: c.really})
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{TokensPerMinute: 6000})
		began := time.Now()
		done(t, acquire(t, l, 1000), limit.Result{Kind: limit.Rejected})
		acquire(t, l, 1000)
		if took := time.Since(began); took != 0 {
			t.Errorf("the tokens of a rejected call delayed the next by %s", took)
		}
	})
}

func TestLimiter_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 1})
		first := acquire(t, l, 0)
		var order []int
		var waiting sync.WaitGroup
		for i := range 5 {
			waiting.Go(func() {
				p := acquire(t, l, 0)
				order = append(order, i)
				done(t, p, limit.Result{})
			})
			synctest.Wait()
		}
		done(t, first, limit.Result{})
		waiting.Wait()
		for i, got := range order {
			if i != got {
				t.Fatalf("order %v", order)
			}
		}
	})
}

func TestLimiter_cancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 1})
		p := acquire(t, l, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Acquire(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := l.Acquire(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that has ended: %v", err)
		}
		done(t, p, limit.Result{Kind: limit.Abandoned})
		done(t, p, limit.Result{Kind: limit.Abandoned}) // only the first counts
		if s := l.State(); s.UnderWay != 0 || s.Waiting != 0 {
			t.Errorf("state %+v", s)
		}
		done(t, acquire(t, l, 0), limit.Result{})
	})
}

// TestLimiter_cancelRace checks that callers that give up at any time, even when they get a permit,
// leave no permit and no waiter behind.
func TestLimiter_cancelRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 3})
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Second)
				defer cancel()
				p, err := l.Acquire(ctx, 0)
				if err != nil {
					return
				}
				time.Sleep(time.Second)
				done(t, p, limit.Result{})
			})
		}
		calls.Wait()
		if s := l.State(); s.UnderWay != 0 || s.Waiting != 0 {
			t.Errorf("state %+v", s)
		}
	})
}

// TestLimiter_stops checks that a stop ends the wait for a slot.
func TestLimiter_stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		l := newLimiter(t, limit.Config{MaxConcurrent: 1})
		p := acquire(t, l, 0)
		time.AfterFunc(time.Minute, func() { close(stop) })
		ctx, cancel := context.WithTimeout(limit.WithStop(t.Context(), stop), time.Hour)
		defer cancel()
		if _, err := l.Acquire(ctx, 0); !errors.Is(err, limit.ErrStopped) {
			t.Error(err)
		}
		done(t, p, limit.Result{})
	})
}

// TestLimiter_stopped checks that a call after the stop waits for a slot but not for a pause,
// whether the pause begins before or during the wait.
func TestLimiter_stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		close(stop)
		stopped := limit.WithStop(t.Context(), stop)
		l := newLimiter(t, limit.Config{MaxConcurrent: 1})
		p := acquire(t, l, 0)
		began := time.Now()
		waiting := make(chan error)
		go func() {
			_, err := l.Acquire(stopped, 0)
			waiting <- err
		}()
		synctest.Wait()
		done(t, p, limit.Result{Kind: limit.Rejected, RetryAfter: 10 * time.Minute})
		if err := <-waiting; !errors.Is(err, limit.ErrStopped) {
			t.Errorf("a pause that began later: %v", err)
		}
		if _, err := l.Acquire(stopped, 0); !errors.Is(err, limit.ErrStopped) || !time.Now().Equal(began) {
			t.Errorf("a pause that was there: %v after %s", err, time.Since(began))
		}
		done(t, acquire(t, l, 0), limit.Result{}) // ten minutes later
		p, err := l.Acquire(stopped, 0)
		if err != nil {
			t.Fatalf("without a pause: %v", err)
		}
		time.AfterFunc(time.Second, func() { done(t, p, limit.Result{}) })
		next, err := l.Acquire(stopped, 0)
		if err != nil {
			t.Fatalf("a slot that comes free: %v", err)
		}
		done(t, next, limit.Result{})
	})
}
