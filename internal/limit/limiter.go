// Package limit decides when the next call to a model may begin. It makes as many concurrent
// calls as the provider accepts, at the rate that the provider accepts, pauses when the
// provider asks for it, and stops for good when all calls fail for the same reason. It does not
// send requests. A Limiter belongs to one model of one provider, and all callers of the model
// share it.
//
//	limiter := limit.New(limit.Config{MaxConcurrent: 32})
//	permit, err := limiter.Acquire(ctx, 1200) // estimated tokens
//	// … the call …
//	permit.Done(limit.Result{Kind: limit.Answered, Tokens: 1310})
//
// Acquire serves its callers in the order of their arrival. It waits for the end of a pause,
// for a free slot in the window, for the minimum gap between two calls, and for the configured
// rates per minute. The window is the number of concurrent calls. It begins at 1 and is 4 after
// the first answer, or begins at the size of an earlier run (Config.Start). It grows by two
// with every further answer until the first rejection. From then on it shrinks by a tenth or
// more with a rejection, and grows slowly again after ten answers. A window below 1 means one
// call followed by a pause: 0.5 is a pause as long as the call.
//
// The time spent in Acquire does not count against the timeout of WithTimeout.
package limit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Limiter grants permits for calls. It is safe for concurrent use, has no goroutine and need
// not be closed.
type Limiter struct {
	mu       sync.Mutex
	window   window
	gate     gate
	breaker  breaker
	requests rate
	tokens   rate
	// failureRate is the moving share of failed calls. Rejected calls do not count.
	failureRate float64
	queue       []*waiter
	inFlight    int
	lastStart   time.Time // when the last call began, or should have begun
	answers     int64
	timer       *time.Timer // calls dispatch
}

// waiter is a caller of Acquire.
type waiter struct {
	tokens int64
	// stopping: Acquire was called after the stop of WithStop, so it must not wait for a pause.
	stopping bool
	ready    chan struct{} // closed when permit or err is set
	permit   *Permit
	err      error
}

// Acquire waits until a call with an estimated number of tokens may begin. The caller must
// return the permit with Permit.Done. Acquire serves callers in the order of their arrival, and
// the clock of WithTimeout stands still while it waits. The error wraps that of ctx, or is a
// *TrippedError, which all later calls get as well, or is ErrStopped. If the stop of WithStop
// occurs while Acquire waits, it returns ErrStopped. If the stop has occurred before, Acquire
// returns ErrStopped only instead of waiting for a pause, so that calls in progress can make
// further requests.
func (l *Limiter) Acquire(ctx context.Context, tokens int64) (*Permit, error) {
	defer PauseTimeout(ctx)()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("waiting for a call to be allowed: %w", err)
	}
	stop := Stop(ctx)
	w := &waiter{tokens: max(tokens, 0), stopping: Closed(stop), ready: make(chan struct{})}
	if w.stopping {
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

// dispatch grants the permits that are possible now, and sets the timer for the next one. The
// caller holds the mutex.
func (l *Limiter) dispatch() {
	for len(l.queue) > 0 {
		first, now := l.queue[0], time.Now()
		if l.inFlight == 0 {
			l.breaker.expire(now)
		}
		switch wait := l.earliestStart().Sub(now); {
		case l.breaker.tripped != nil:
			first.err = l.breaker.tripped
		case first.stopping && l.gate.until.After(now):
			first.err = ErrStopped
		case l.full():
			l.timer.Stop()
			return
		case wait > 0:
			if left := l.breaker.giveUpAt.Sub(now); left > 0 {
				wait = min(wait, left)
			}
			l.timer.Reset(wait)
			return
		default:
			first.permit = l.grant(now, first.tokens)
		}
		close(first.ready)
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	l.timer.Stop()
}

// full reports whether a call must end before another may begin.
func (l *Limiter) full() bool {
	return l.inFlight >= l.window.slots() || l.gate.probing() && l.gate.probes > 0 && l.window.latency == 0
}

// earliestStart returns when the next call may begin.
func (l *Limiter) earliestStart() time.Time {
	return slices.MaxFunc([]time.Time{l.gate.until, l.nextStart(), l.requests.next, l.tokens.next}, time.Time.Compare)
}

// nextStart returns when the next call may begin because of the gap after the last call.
func (l *Limiter) nextStart() time.Time {
	gap := l.window.gap()
	if l.gate.probing() {
		gap = max(gap, l.window.latency/8)
	}
	return l.lastStart.Add(gap)
}

// timerSlack is the delay of a timer that the start of the following calls makes up for.
const timerSlack = 2 * time.Millisecond

func (l *Limiter) grant(now time.Time, tokens int64) *Permit {
	p := &Permit{limiter: l, began: now, tokens: tokens, concurrent: l.inFlight, probe: l.gate.probing()}
	l.inFlight++
	if p.probe {
		l.gate.probes++
	}
	if l.lastStart = l.nextStart(); now.Sub(l.lastStart) > timerSlack {
		l.lastStart = now
	}
	l.requests.take(now, 1)
	l.tokens.take(now, tokens)
	return p
}

// State is a snapshot of a Limiter, for people.
type State struct {
	Window   float64 // concurrent calls that the provider seems to accept
	UnderWay int
	Waiting  int
	// PausedUntil is the end of the current pause, or a time in the past.
	PausedUntil time.Time
	// GivesUp is when the limiter trips if there never was a connection to the provider. It is
	// zero if there was one, or if no connection has failed yet.
	GivesUp time.Time
	// Limited reports whether a call was rejected. If not, the provider may accept more than
	// Window.
	Limited bool
	// Answers is the number of answered calls.
	Answers int64
	// Latency is the moving average of the duration of answered calls.
	Latency time.Duration
}

// State returns a snapshot of the current state.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{l.window.size, l.inFlight, len(l.queue), l.gate.until, l.breaker.giveUpAt, !l.window.starting, l.answers, l.window.latency}
}

// Config configures a Limiter. The zero value is usable.
type Config struct {
	// MaxConcurrent is the maximum number of concurrent calls. 0 means 4.
	MaxConcurrent int
	// Start is the number of concurrent calls that the provider accepted in an earlier run. 0
	// means that it is unknown: then the first call runs alone, so that an invalid key costs
	// one call, and 4 calls may follow.
	Start int
	// Latency is the duration of a call in an earlier run. It determines the gaps between the
	// first calls, so that a rejection stops them.
	Latency time.Duration
	// RequestsPerMinute and TokensPerMinute are the known limits of the provider. 0 means
	// unknown.
	RequestsPerMinute, TokensPerMinute int64
	// Backoff is the first pause after a rejection without a Retry-After. It doubles with every
	// further rejection, up to 30 times its length. 0 means half a second.
	Backoff time.Duration
	// Jitter returns a number in [0, 1) that extends a pause, so that several processes do not
	// end it at the same time. Nil means a random number.
	Jitter func() float64
}

const (
	// maxAsked limits the pause that a provider may ask for.
	maxAsked = 10 * time.Minute
	// maxSameFailures is the number of calls in a row, without a usable answer, that must fail for
	// the same reason until the limiter trips.
	maxSameFailures = 10
)

// New returns a Limiter. The numbers in cfg must not be negative.
func New(cfg Config) *Limiter {
	cfg.MaxConcurrent = cmp.Or(cfg.MaxConcurrent, 4)
	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	l := &Limiter{
		window:   window{size: float64(min(max(cfg.Start, 1), cfg.MaxConcurrent)), maxSize: float64(cfg.MaxConcurrent), latency: cfg.Latency, starting: true, hold: minHold, peak: -1},
		gate:     gate{cfg: cfg},
		requests: rate{perSecond: float64(cfg.RequestsPerMinute) / 60},
		tokens:   rate{perSecond: float64(cfg.TokensPerMinute) / 60},
	}
	l.timer = time.AfterFunc(time.Hour, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dispatch()
	})
	return l
}

// Kind is how a call ended, as far as limits are concerned.
type Kind int

// The ways in which a call ends.
const (
	// Answered: the provider did the work.
	Answered Kind = iota
	// Rejected: the provider rejected the call because of its limits.
	Rejected
	// Failed: the provider or the way to it failed, or no answer came in time.
	Failed
	// Refused: the provider will never accept this request.
	Refused
	// Abandoned: the caller gave up, and the result is unknown.
	Abandoned
)

// Result describes how a call ended.
type Result struct {
	Kind Kind
	// RetryAfter is the pause that the provider asked for, or 0.
	RetryAfter time.Duration
	// Tokens is the actual number of tokens, or 0 if it is unknown.
	Tokens int64
	// Reason is the class and the message of a failure, also of an answer that cannot be used.
	Reason string
	// Final means that the call will not be retried.
	Final bool
	// Fatal means that every other call will fail for the same reason.
	Fatal bool
	// Forbidden means the same as Fatal if no call has been answered yet.
	Forbidden bool
	// Unreached means that there was no connection to the provider: it was refused, or the host
	// is unknown.
	Unreached bool
}

// Permit allows one call.
type Permit struct {
	limiter    *Limiter
	began      time.Time
	tokens     int64
	concurrent int // calls in progress when this call began
	probe      bool
	done       bool
}

// Sent sets the beginning of the call to the current time, so that the latency is measured
// correctly.
func (p *Permit) Sent() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.began = time.Now()
}

// Done returns the permit when the call has ended. Only the first Done counts. It returns a
// *TrippedError if the limiter has tripped, otherwise nil.
func (p *Permit) Done(r Result) error {
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.done {
		p.done = true
		l.inFlight--
		if p.probe {
			l.gate.probes--
		}
		l.record(p, r)
		l.dispatch()
	}
	if l.breaker.tripped == nil {
		return nil
	}
	return l.breaker.tripped
}

// record updates the limiter with the result of a call.
func (l *Limiter) record(p *Permit, r Result) {
	now := time.Now()
	if r.Kind == Rejected {
		l.tokens.add(-p.tokens) // providers do not count rejected calls
	} else if r.Tokens > 0 {
		l.tokens.add(r.Tokens - p.tokens)
	}
	const weight = 0.05 // of the newest call in failureRate
	if r.Kind != Abandoned && !r.Unreached {
		l.breaker.reached, l.breaker.giveUpAt = true, time.Time{}
	}
	switch r.Kind {
	case Answered:
		l.answers++
		l.failureRate -= l.failureRate * weight
		l.breaker.succeeded(r)
		l.gate.answered(p.began)
		l.window.answered(now, p.began, p.concurrent, l.limitedByWindow(now))
	case Rejected:
		l.breaker.failed(now, p.began, r)
		l.reject(now, p, r.RetryAfter)
	case Failed:
		l.failureRate += (1 - l.failureRate) * weight
		l.breaker.failed(now, p.began, r)
		if r.RetryAfter > 0 || l.failureRate > 0.5 {
			l.reject(now, p, r.RetryAfter)
		}
	case Refused:
		l.breaker.failed(now, p.began, r)
		l.gate.answered(p.began)
	case Abandoned:
	}
}

// reject shrinks the window and pauses.
func (l *Limiter) reject(now time.Time, p *Permit, ask time.Duration) {
	if l.window.isOverload(p.began) {
		l.window.rejected(now, p.concurrent, ask)
	}
	l.gate.rejected(now, p.began, ask)
}

// limitedByWindow reports whether callers wait because of the window and not because of the
// configured rates.
func (l *Limiter) limitedByWindow(now time.Time) bool {
	return len(l.queue) > 0 && !l.requests.next.After(now) && !l.tokens.next.After(now)
}
