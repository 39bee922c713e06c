// Package limit decides when the next call to a model may begin: as many calls
// at once as the provider takes, no faster than it takes them, not at all while
// it asks to wait, and never again once everything fails for the same reason.
// It knows nothing of models and sends nothing; one Limiter stands for one
// model of one provider and is shared by all that call it.
//
//	limiter := limit.New(limit.Config{Most: 32})
//	permit, err := limiter.Acquire(ctx, 1200) // tokens, as estimated
//	// … the call …
//	permit.Done(limit.Result{Kind: limit.Answered, Tokens: 1310})
//
// Acquire waits for four things in turn, callers in the order in which they
// came: the pause that the provider asked for, a place in the window, the
// spacing of the window, and the configured rates per minute. The window is the
// number of calls at once. It begins at 1 and is 4 after the first answer, or begins at what
// it was in the last run, grows by two with every further one until the first rejection,
// and from then on shrinks by a tenth or more when a call is rejected and grows slowly
// again after ten answers. Below 1 it stands for a part of the time: a window of 0.5 is
// one call, then a rest of its length.
//
// Time spent in Acquire does not count against a deadline of WithTimeout.
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

// Limiter hands out permits for calls. It is safe for concurrent use, keeps no
// goroutine, and needs no closing.
type Limiter struct {
	mu       sync.Mutex
	window   window
	gate     gate
	breaker  breaker
	requests rate
	tokens   rate
	// failing is the share of calls that failed recently, rejected ones apart.
	failing  float64
	queue    []*waiter
	underWay int
	began    time.Time // when the last call began, or should have
	answers  int64
	timer    *time.Timer // calls dispatch
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
	w := &waiter{tokens: max(tokens, 0), hurried: Closed(stop), ready: make(chan struct{})}
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
			l.timer.Stop()
			return
		case wait > 0:
			if left := l.breaker.givesUp.Sub(now); left > 0 {
				wait = min(wait, left)
			}
			l.timer.Reset(wait)
			return
		default:
			first.permit = l.begin(now, first.tokens)
		}
		close(first.ready)
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	l.timer.Stop()
}

// full reports whether a call must end before another may begin.
func (l *Limiter) full() bool {
	return l.underWay >= l.window.slots() || l.gate.probing() && l.gate.probes > 0 && l.window.latency == 0
}

// next is when the next call may begin.
func (l *Limiter) next() time.Time {
	return slices.MaxFunc([]time.Time{l.gate.until, l.spaced(), l.requests.free, l.tokens.free}, time.Time.Compare)
}

// spaced is when the next call may begin because of the one before.
func (l *Limiter) spaced() time.Time {
	gap := l.window.gap()
	if l.gate.probing() {
		gap = max(gap, l.window.latency/8)
	}
	return l.began.Add(gap)
}

// lateness is by how much a timer may be late without making the calls after it late.
const lateness = 2 * time.Millisecond

func (l *Limiter) begin(now time.Time, tokens int64) *Permit {
	p := &Permit{limiter: l, began: now, tokens: tokens, others: l.underWay, probe: l.gate.probing()}
	l.underWay++
	if p.probe {
		l.gate.probes++
	}
	if l.began = l.spaced(); now.Sub(l.began) > lateness {
		l.began = now
	}
	l.requests.take(now, 1)
	l.tokens.take(now, tokens)
	return p
}

// State is what a limiter does at a moment, for a person to look at.
type State struct {
	Window   float64 // calls at once that the provider seems to take
	UnderWay int
	Waiting  int
	// PausedUntil is when the pause ends that the provider asked for, or that
	// its rejections led to; in the past if there is none.
	PausedUntil time.Time
	// GivesUp is when that will be unless the provider is reached, to which there
	// never was a connection; zero where there was, or none was refused yet.
	GivesUp time.Time
	// Limited says that a call was rejected: Window was found, not only allowed.
	Limited bool
	// Answers is how many calls were answered so far.
	Answers int64
	// Latency is how long an answered call took, recently.
	Latency time.Duration
}

// State returns the state of this moment.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{l.window.size, l.underWay, len(l.queue), l.gate.until, l.breaker.givesUp, !l.window.starting, l.answers, l.window.latency}
}

// Config says how calls are limited; the zero value is usable.
type Config struct {
	// Most is the upper bound of the calls at once; 0 means 4.
	Most int
	// Start is how many calls at once the provider took before; 0 means that this is not
	// known: the first goes alone, so that a wrong key costs one call, then there may be 4.
	Start int
	// Latency is how long a call took then. The first calls begin spaced by it, so that a
	// rejection stops them.
	Latency time.Duration
	// RequestsPerMinute and TokensPerMinute are what the provider is known to
	// allow; 0 means that it is not known.
	RequestsPerMinute, TokensPerMinute int64
	// Backoff is the first pause after a rejection that states none, doubled
	// with every further one up to 30 times as long; 0 means half a second.
	Backoff time.Duration
	// Jitter returns a number in [0, 1) that lengthens a pause, so that several
	// processes do not end it at once; nil means a random one.
	Jitter func() float64
}

const (
	// longestAsked bounds what a provider may ask to wait.
	longestAsked = 10 * time.Minute
	// mostAlike is how many calls in a row must fail for the same reason, without one
	// that was answered, until the limiter trips.
	mostAlike = 10
)

// New makes a Limiter; no number of its configuration is negative.
func New(cfg Config) *Limiter {
	cfg.Most = cmp.Or(cfg.Most, 4)
	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	l := &Limiter{
		window:   window{size: float64(min(max(cfg.Start, 1), cfg.Most)), most: float64(cfg.Most), latency: cfg.Latency, starting: true, hold: leastHold, peak: -1},
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

// Kind says how a call ended, as far as limits are concerned.
type Kind int

// The ways in which a call ends.
const (
	// Answered: the provider did the work.
	Answered Kind = iota
	// Rejected: the provider refused because of its limits.
	Rejected
	// Failed: the provider or the way to it failed, or no answer came in time.
	Failed
	// Refused: the provider refuses this request, whenever it is sent.
	Refused
	// Abandoned: the caller gave up; nothing is known.
	Abandoned
)

// Result is how a call ended.
type Result struct {
	Kind Kind
	// RetryAfter is how long the provider asked to wait; 0 if it did not say.
	RetryAfter time.Duration
	// Tokens is what the call really took; 0 if that is not known.
	Tokens int64
	// Reason is the class and message of a failure.
	Reason string
	// Final says that the call will not be made again.
	Final bool
	// Fatal says that every other call will fail for the same reason.
	Fatal bool
	// Forbidden is Fatal where no call was answered before.
	Forbidden bool
	// Unreached says that there was no connection to the provider: it was refused,
	// or the host is not known.
	Unreached bool
}

// Permit allows one call.
type Permit struct {
	limiter *Limiter
	began   time.Time
	tokens  int64
	others  int // under way when it began
	probe   bool
	done    bool
}

// Sent says that the call really begins only now, for what was learned of its
// time to be right.
func (p *Permit) Sent() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.began = time.Now()
}

// Done gives the permit back when the call has ended; only the first one counts.
// It returns the *TrippedError if the limiter has tripped, else nil.
func (p *Permit) Done(r Result) error {
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.done {
		p.done = true
		l.underWay--
		if p.probe {
			l.gate.probes--
		}
		l.settle(p, r)
		l.dispatch()
	}
	if l.breaker.tripped == nil {
		return nil
	}
	return l.breaker.tripped
}

// settle learns from how a call ended.
func (l *Limiter) settle(p *Permit, r Result) {
	now := time.Now()
	if r.Kind == Rejected {
		l.tokens.correct(-p.tokens) // providers count what they take on
	} else if r.Tokens > 0 {
		l.tokens.correct(r.Tokens - p.tokens)
	}
	const weight = 0.05 // of the newest call in the share of those that failed
	if r.Kind != Abandoned && !r.Unreached {
		l.breaker.met, l.breaker.givesUp = true, time.Time{}
	}
	switch r.Kind {
	case Answered:
		l.answers++
		l.failing -= l.failing * weight
		l.breaker.ok()
		l.gate.answered(p.began)
		l.window.answered(now, p.began, p.others, l.holdsBack(now))
	case Rejected:
		l.breaker.failed(now, p.began, r)
		l.reject(now, p, r.RetryAfter)
	case Failed:
		l.failing += (1 - l.failing) * weight
		l.breaker.failed(now, p.began, r)
		if r.RetryAfter > 0 || l.failing > 0.5 {
			l.reject(now, p, r.RetryAfter)
		}
	case Refused:
		l.breaker.failed(now, p.began, r)
		l.gate.answered(p.began)
	case Abandoned:
	}
}

// reject makes the window smaller and pauses.
func (l *Limiter) reject(now time.Time, p *Permit, ask time.Duration) {
	if l.window.believes(p.began) {
		l.window.rejected(now, p.others, ask)
	}
	l.gate.refused(now, p.began, ask)
}

// holdsBack reports whether callers wait because of the window, and not of the
// configured rates.
func (l *Limiter) holdsBack(now time.Time) bool {
	return len(l.queue) > 0 && !l.requests.free.After(now) && !l.tokens.free.After(now)
}
