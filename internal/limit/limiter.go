package limit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limiter hands out permits for calls. It is safe for concurrent use, keeps no
// goroutine, and needs no closing.
type Limiter struct {
	mu       sync.Mutex
	window   window
	gate     gate
	breaker  breaker
	requests rate
	tokens   rate
	// failing is the share of calls that failed of late, rejected ones apart.
	failing  float64
	queue    []*waiter
	underWay int
	began    time.Time // when the last call began
	answers  int64
	timer    *time.Timer
}

// waiter is a caller of Acquire.
type waiter struct {
	tokens int64
	// hurried waits for no pause: it came after it was told to stop.
	hurried bool
	ready   chan struct{} // closed when one of the following is set
	permit  *Permit
	err     error
}

// Acquire waits until a call of about so many tokens may begin. The permit must
// be given back with Done. The error wraps ctx.Err(), or is a *TrippedError,
// which every call gets from then on, or is ErrStopped: for what waits when
// WithStop says so, and for what would have to wait out a pause after that; a
// call that was begun before may still need another request. It waits in order
// of arrival; while it waits, the clock of WithTimeout stands still.
func (l *Limiter) Acquire(ctx context.Context, tokens int64) (*Permit, error) {
	defer Waiting(ctx)()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("waiting for a call to be allowed: %w", err)
	}
	stop := Stop(ctx)
	w := &waiter{tokens: max(tokens, 0), hurried: isClosed(stop), ready: make(chan struct{})}
	if w.hurried {
		stop = nil
	}
	l.mu.Lock()
	l.queue = append(l.queue, w)
	l.dispatch()
	l.mu.Unlock()
	select {
	case <-w.ready:
		return w.permit, w.err
	case <-ctx.Done():
	case <-stop:
	}
	l.mu.Lock()
	granted := w.permit != nil
	l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
	l.dispatch()
	l.mu.Unlock()
	if granted {
		w.permit.Done(Result{Kind: Abandoned})
	}
	if ctx.Err() == nil {
		return nil, ErrStopped
	}
	return nil, fmt.Errorf("waiting for a call to be allowed: %w", ctx.Err())
}

// dispatch hands out what can be handed out now, and sets the timer for the
// next moment at which something can. The mutex is held.
func (l *Limiter) dispatch() {
	for len(l.queue) > 0 {
		first, now := l.queue[0], time.Now()
		if l.underWay == 0 {
			l.breaker.expire(now)
		}
		switch wait := l.next().Sub(now); {
		case l.breaker.tripped != nil:
			first.err = l.breaker.tripped
		case first.hurried && l.gate.until.After(now):
			first.err = ErrStopped
		case l.full():
			l.sleep()
			return
		case wait > 0:
			if left := l.breaker.givesUp.Sub(now); left > 0 {
				wait = min(wait, left)
			}
			l.wake(wait)
			return
		default:
			first.permit = l.begin(now, first.tokens)
		}
		close(first.ready)
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	l.sleep()
}

// sleep ends what wake began: the next call of dispatch is that of a caller.
func (l *Limiter) sleep() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// full reports whether a call must end before another may begin.
func (l *Limiter) full() bool {
	return l.underWay >= l.window.slots() || l.gate.probing() && l.gate.probes > 0 && l.window.latency == 0
}

// next is when the next call may begin.
func (l *Limiter) next() time.Time {
	gap := l.window.gap()
	if l.gate.probing() {
		gap = max(gap, l.window.latency/8)
	}
	spaced := l.began.Add(gap)
	return slices.MaxFunc([]time.Time{l.gate.until, spaced, l.requests.free, l.tokens.free}, time.Time.Compare)
}

func (l *Limiter) begin(now time.Time, tokens int64) *Permit {
	p := &Permit{limiter: l, began: now, tokens: tokens, others: l.underWay, probe: l.gate.probing()}
	l.underWay++
	if p.probe {
		l.gate.probes++
	}
	l.began = now
	l.requests.take(now, 1)
	l.tokens.take(now, tokens)
	return p
}

// wake has dispatch called again after a while.
func (l *Limiter) wake(after time.Duration) {
	if l.timer != nil {
		l.timer.Reset(after)
		return
	}
	l.timer = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dispatch()
	})
}

// State is what a limiter does at a moment, for a person to look at.
type State struct {
	Window   float64 // calls at once that the provider seems to take
	UnderWay int
	Waiting  int
	// PausedUntil is when the pause ends that the provider asked for, or that
	// its rejections led to; in the past if there is none.
	PausedUntil time.Time
	// Tripped is set once no more calls are made.
	Tripped *TrippedError
	// GivesUp is when that will be unless the provider is reached, to which there
	// never was a connection; zero where there was, or none was refused yet.
	GivesUp time.Time
}

// State returns the state of this moment.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{l.window.size, l.underWay, len(l.queue), l.gate.until, l.breaker.tripped, l.breaker.givesUp}
}

// Answers returns how many calls were answered so far.
func (l *Limiter) Answers() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}
