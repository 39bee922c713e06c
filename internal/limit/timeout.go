package limit

import (
	"context"
	"sync"
	"time"
)

// WithTimeout returns a context that ends after d, not counting the time within
// Waiting. Its cause is context.DeadlineExceeded then, while its Err, as that of
// any context that is cancelled, is context.Canceled:
//
//	errors.Is(context.Cause(ctx), context.DeadlineExceeded)
//
// Call cancel to release it.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	t := &timeout{left: d, began: time.Now()}
	t.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return context.WithValue(inner, timeoutKey{}, t), func() {
		t.stop()
		cancel(context.Canceled)
	}
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
