package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
)

// TestWithTimeout checks that a timeout of 60 s ends after 10 s, an hour of waiting, 20 s, two
// overlapping waits of 5 min in total, and the remaining 30 s.
func TestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		time.Sleep(10 * time.Second)
		resume := limit.PauseTimeout(ctx)
		time.Sleep(time.Hour)
		resume()
		time.Sleep(20 * time.Second)
		resume1 := limit.PauseTimeout(ctx)
		time.Sleep(time.Minute)
		resume2 := limit.PauseTimeout(ctx)
		time.Sleep(3 * time.Minute)
		resume1()
		time.Sleep(time.Minute)
		resume2()
		<-ctx.Done()
		want := time.Hour + 5*time.Minute + time.Minute
		if took := time.Since(began); took != want || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %s, want %s, %v", took, want, ctx.Err())
		}
		resume = limit.PauseTimeout(ctx)
		resume() // has no effect after the end
	})
}

func TestWithTimeout_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		resume := limit.PauseTimeout(ctx)
		cancel()
		resume()
		time.Sleep(time.Hour)
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v", ctx.Err())
		}
		limit.PauseTimeout(t.Context())() // a context of another kind
	})
}

// TestAcquire_stopsTheClock checks that a pause of ten minutes in Acquire does not end a context
// with a timeout of one minute.
func TestAcquire_stopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{})
		done(t, acquire(t, l, 0), limit.Result{Kind: limit.Rejected, RetryAfter: 10 * time.Minute})
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p, err := l.Acquire(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		done(t, p, limit.Result{})
	})
}
