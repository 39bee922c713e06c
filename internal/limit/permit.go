package limit

import "time"

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
