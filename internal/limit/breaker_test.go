package limit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
)

// callUntilTripped makes calls of the given duration until the limiter trips, and returns their
// number and the error. It returns 0 and nil if the limiter does not trip within 1,000 calls.
func callUntilTripped(t *testing.T, l *limit.Limiter, duration time.Duration, result func(i int) limit.Result) (int, *limit.TrippedError) {
	t.Helper()
	for i := 1; i <= 1000; i++ {
		p, err := l.Acquire(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(duration)
		var tripped *limit.TrippedError
		if err := p.Done(result(i)); errors.As(err, &tripped) {
			return i, tripped
		}
	}
	return 0, nil
}

func TestLimiter_trips(t *testing.T) {
	for name, c := range map[string]struct {
		answersFirst int
		duration     time.Duration // of a call
		result       func(i int) limit.Result
		after        int // calls; 0: it does not trip
		unauthorised bool
	}{
		"a wrong key, at once": {result: func(int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: "401: no", Fatal: true, Final: true}
		}, after: 1, unauthorised: true},
		"forbidden before any answer": {result: func(int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: "403: no", Forbidden: true}
		}, after: 1, unauthorised: true},
		"forbidden after an answer, and not final": {answersFirst: 1, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: "403: no", Forbidden: true}
		}},
		"down for half an hour after an answer": {answersFirst: 1, duration: 10 * time.Minute, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "down"}
		}, after: 4},
		"ten alike": {result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: fmt.Sprintf("no such model (request req_%d)", i), Final: true}
		}, after: 10},
		"ten alike but for what they quote": {result: func(i int) limit.Result {
			text := strings.Repeat("a", i) + `"` + strings.Repeat("b ", i)
			return limit.Result{Kind: limit.Refused, Reason: fmt.Sprintf("not the expected JSON; it begins with %q", text), Final: true}
		}, after: 10},
		"ten empty answers, of six tries each": {duration: time.Minute, result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Answered, Reason: "the answer is empty", Final: i%6 == 0}
		}, after: 60},
		"an answer among empty ones": {result: func(i int) limit.Result {
			if i%50 == 0 {
				return limit.Result{}
			}
			return limit.Result{Kind: limit.Answered, Reason: "the answer is empty", Final: i%6 == 0}
		}},
		"ten alike after answers": {answersFirst: 5, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "down", Final: true}
		}, after: 10},
		"of two kinds in turn": {result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: []string{"too long", "unsafe"}[i%2], Final: true}
		}},
		"one answer among them": {duration: time.Second, result: func(i int) limit.Result {
			if i%10 == 0 {
				return limit.Result{}
			}
			return limit.Result{Kind: limit.Refused, Reason: "too long", Final: true}
		}},
		// The limiter trips after 3 min of failures if there was no answer. Each call takes a
		// minute. There are no pauses, because less than half of the recent calls failed.
		"never reached": {duration: time.Minute, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "connection refused"}
		}, after: 4},
		// The limiter trips after 15 s if there was no connection. Each call takes a second.
		// There are no pauses with fewer than 14 failures in a row.
		"connections refused": {duration: time.Second, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "connection refused", Unreached: true}
		}, after: 15},
		"connections refused, a call given up": {result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "connection refused", Unreached: true, Final: i == 3}
		}, after: 3},
		"an unknown host": {result: func(int) limit.Result {
			return limit.Result{Kind: limit.Refused, Reason: "no such host", Unreached: true, Final: true}
		}, after: 1},
		"connections refused after a 503": {duration: time.Minute, result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "503, or refused", Unreached: i > 1}
		}, after: 4},
		"a slow first answer": {duration: time.Minute, result: func(i int) limit.Result {
			return limit.Result{Kind: limit.Failed, Reason: "no answer in time"}
		}, after: 4},
		"limits are waited for longer": {duration: time.Minute, result: func(int) limit.Result {
			return limit.Result{Kind: limit.Rejected, RetryAfter: 9 * time.Minute, Reason: "429"}
		}, after: 4}, // failures at 1, 11, 21, 31 min: the last is 30 min after the first
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, limit.Config{})
				for range c.answersFirst {
					done(t, acquire(t, l, 0), limit.Result{})
				}
				after, tripped := callUntilTripped(t, l, c.duration, c.result)
				if after != c.after {
					t.Fatalf("tripped after %d calls (%v), want %d", after, tripped, c.after)
				}
				if after == 0 {
					return
				}
				if tripped.ExitCode() != 69 || tripped.Unauthorised != c.unauthorised || !limit.StopsRun(fmt.Errorf("item: %w", tripped)) {
					t.Errorf("%+v", tripped)
				}
				if _, err := l.Acquire(t.Context(), 0); !errors.Is(err, tripped) {
					t.Errorf("the next call gets %v", err)
				}
			})
		})
	}
}

// TestLimiter_tripsForThoseWhoWait checks that calls that wait when the limiter trips get the error
// immediately.
func TestLimiter_tripsForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{MaxConcurrent: 1})
		p := acquire(t, l, 0)
		waiting := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), 0)
			waiting <- err
		}()
		synctest.Wait()
		if p.Done(limit.Result{Kind: limit.Refused, Fatal: true}) == nil {
			t.Error("not tripped")
		}
		if err := <-waiting; !limit.StopsRun(err) {
			t.Errorf("%v", err)
		}
	})
}

// TestLimiter_givesUpWhileAllWait checks that a call that waits for a configured rate waits only
// until GivesUp if there never was a connection.
func TestLimiter_givesUpWhileAllWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limit.Config{RequestsPerMinute: 1})
		began := time.Now()
		if err := acquire(t, l, 0).Done(limit.Result{Kind: limit.Failed, Reason: "refused", Unreached: true}); err != nil {
			t.Fatal(err)
		}
		if at := l.State().GivesUp; at.Sub(began) != 15*time.Second {
			t.Errorf("it says %s", at.Sub(began))
		}
		_, err := l.Acquire(t.Context(), 0)
		var tripped *limit.TrippedError
		if !errors.As(err, &tripped) || tripped.Reason != "refused" || time.Since(began) != 15*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
