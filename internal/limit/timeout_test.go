package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
)

// 10 s of a timeout of 60 s pass, an hour of waiting, 20 s, two overlapping
// waits of 5 min, and then the 30 s that are left.
func TestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		time.Sleep(10 * time.Second)
		goOn := limit.Waiting(ctx)
		time.Sleep(time.Hour)
		goOn()
		time.Sleep(20 * time.Second)
		one := limit.Waiting(ctx)
		time.Sleep(time.Minute)
		two := limit.Waiting(ctx)
		time.Sleep(3 * time.Minute)
		one()
		time.Sleep(time.Minute)
		two()
		<-ctx.Done()
		want := time.Hour + 5*time.Minute + time.Minute
		if took := time.Since(began); took != want || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %s, want %s, %v", took, want, ctx.Err())
		}
		goOn = limit.Waiting(ctx)
		goOn() // after the end: nothing
	})
}

func TestWithTimeout_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limit.WithTimeout(t.Context(), time.Minute)
		goOn := limit.Waiting(ctx)
		cancel()
		goOn()
		time.Sleep(time.Hour)
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v", ctx.Err())
		}
		limit.Waiting(t.Context())() // a context of another kind
	})
}

func TestAcquire_stopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, limit.Config{})
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
