package limit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopped is the error of Acquire after the stop of WithStop. The call was not made. It
// stops the run, which can be resumed. Its exit code is 5.
var ErrStopped error = stopped{}

type stopped struct{}

func (stopped) Error() string {
	return "the run was stopped while calls waited to be sent; their items are run when it is resumed"
}

// ExitCode returns 5: the run was stopped and can be resumed.
func (stopped) ExitCode() int { return 5 }

// StopsRun marks errors that stop the run; see TrippedError.
func (stopped) StopsRun() {}

type stopKey struct{}

// WithStop returns a context for Acquire. When stop is closed, calls that wait in Acquire get
// ErrStopped. Unlike the end of a context, it does not affect calls in progress.
func WithStop(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// Stop returns the channel of WithStop, or nil.
func Stop(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stop
}

// Closed reports whether a channel is closed. Nothing may be sent on the channel.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// WithTimeout returns a context that ends after d, not counting the time in PauseTimeout. Its Err is
// then context.DeadlineExceeded. Contexts that are derived from it end with context.Canceled
// and the cause context.DeadlineExceeded. The context has no Deadline, because the time is not
// known in advance. The caller must call cancel to release its resources.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	t := &timeout{left: d, began: time.Now()}
	t.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return timeoutContext{context.WithValue(inner, timeoutKey{}, t)}, func() {
		t.timer.Stop() // a call of resume may start it again, which has no effect anymore
		cancel(context.Canceled)
	}
}

// timeoutContext distinguishes a timeout from a cancellation.
type timeoutContext struct{ context.Context }

// Err returns why the context ended, or nil.
func (c timeoutContext) Err() error {
	if errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// PauseTimeout stops the clock of WithTimeout until the returned function is called, which must
// happen once. Several goroutines may wait at the same time. If ctx is not from WithTimeout,
// PauseTimeout does nothing.
func PauseTimeout(ctx context.Context) (resume func()) {
	t, ok := ctx.Value(timeoutKey{}).(*timeout)
	if !ok {
		return func() {}
	}
	t.pause()
	return t.resume
}

type timeoutKey struct{}

// timeout is a timer that can be paused.
type timeout struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // the remaining time when the clock was last started
	began   time.Time     // when the clock was last started
	waiting int
}

func (t *timeout) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting++; t.waiting == 1 && t.timer.Stop() {
		t.left -= time.Since(t.began)
	}
}

func (t *timeout) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		t.began = time.Now()
		t.timer.Reset(max(t.left, 0))
	}
}
