package limit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopped is what a call that waits gets when it is told to stop: nothing of
// it is under way. It stops the run, which can be resumed; its exit code is 5.
var ErrStopped error = stopped{}

type stopped struct{}

func (stopped) Error() string {
	return "the run was stopped while calls waited to be sent; their items are run when it is resumed"
}

// ExitCode is 5: stopped, can be resumed.
func (stopped) ExitCode() int { return 5 }

// StopsRun marks errors that are not a failure of the item; see TrippedError.
func (stopped) StopsRun() {}

type stopKey struct{}

// WithStop returns a context whose calls give up waiting, with ErrStopped, when
// stop is closed. Those that are under way go on, unlike where a context ends.
func WithStop(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// Stop returns the channel of WithStop, nil where there is none.
func Stop(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stop
}

// Closed reports whether a channel that is only ever closed is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// WithTimeout returns a context that ends after d, not counting the time within
// Waiting. Its Err is context.DeadlineExceeded then; contexts that are made from
// it end with context.Canceled, and context.DeadlineExceeded as their cause. It
// has no Deadline, as it is not known. Call cancel to release it.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	t := &timeout{left: d, began: time.Now()}
	t.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return timeoutContext{inner, t}, func() {
		t.stop()
		cancel(context.Canceled)
	}
}

// timeoutContext tells its end by time from being cancelled.
type timeoutContext struct {
	context.Context
	timeout *timeout
}

// Err returns why the context ended, or nil.
func (c timeoutContext) Err() error {
	if errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// Value returns the timeout to Waiting.
func (c timeoutContext) Value(key any) any {
	if key == (timeoutKey{}) {
		return c.timeout
	}
	return c.Context.Value(key)
}

// Waiting stops the clock of WithTimeout until the function that it returns is
// called, once. Several goroutines of one context may wait at once. For other
// contexts nothing happens.
func Waiting(ctx context.Context) (goOn func()) {
	t, ok := ctx.Value(timeoutKey{}).(*timeout)
	if !ok {
		return func() {}
	}
	t.pause()
	return t.goOn
}

type timeoutKey struct{}

// timeout is a timer that can stand still.
type timeout struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // when the clock was last set going
	began   time.Time     // when that was
	waiting int
	ended   bool
}

func (t *timeout) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting++; t.waiting == 1 && !t.ended && t.timer.Stop() {
		t.left -= time.Since(t.began)
	}
}

func (t *timeout) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting--; t.waiting == 0 && !t.ended {
		t.began = time.Now()
		t.timer.Reset(max(t.left, 0))
	}
}

func (t *timeout) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.timer.Stop()
}
