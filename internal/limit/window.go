package limit

import (
	"math"
	"time"
)

const (
	// minHold is the number of answers after a rejection before the window grows again, so that
	// at most one call in ten is rejected. If the window is rejected again at about the same
	// size, the number doubles, up to maxHold.
	minHold, maxHold = 10, 40
	// sameSize is the relative difference up to which two sizes count as the same.
	sameSize = 0.15
	// After a rejection, the window shrinks to the number of concurrent calls, but keeps at
	// most maxKeep and at least minKeep of its size.
	maxKeep, minKeep = 0.9, 0.7
	// minWindow is the smallest window: a call followed by a pause of 255 times its length.
	minWindow = 1.0 / 256
)

// Start is the size of the window after the first answer if Config.Start is not set.
const Start = 4

// window is the estimated number of concurrent calls that the provider accepts. It has no clock
// and no locks.
type window struct {
	size, maxSize float64
	// starting is true until the first rejection.
	starting bool
	// ceiling is the size at the last rejection.
	ceiling   float64
	shrunkAt  time.Time
	answers   int       // since shrunkAt
	hold      int       // answers after a rejection before the window grows
	growAfter time.Time // the window does not grow earlier
	// latency is the moving average of the duration of at most fifty answered calls.
	latency time.Duration
	samples int
	// peak is the largest number of concurrent calls at the start of a call that was answered
	// since the last rejection, or -1.
	peak int
	// rateLimited means that the provider limits the rate of calls and not their number: a call
	// was rejected although no more than peak calls were concurrent.
	rateLimited bool
}

// answered records an answer. The window grows to Start with the first answer and then by 2
// while starting. Later it grows by about 1 per window of answers, but at most by a twentieth
// of its size per answer, and three times as fast well above the old ceiling. It does not grow
// unless callers wait for it.
func (w *window) answered(now, began time.Time, others int, holdsBack bool) {
	w.answers++
	w.samples = min(w.samples+1, 50)
	w.latency += (now.Sub(began) - w.latency) / time.Duration(w.samples)
	if !began.Before(w.shrunkAt) {
		w.peak = max(w.peak, others)
	}
	switch {
	case !holdsBack:
		return
	case w.starting:
		w.size = max(w.size+2, Start)
	case w.answers > w.hold && !now.Before(w.growAfter):
		step := min(1/w.size, w.size/20)
		if w.size > w.ceiling*(1+sameSize) {
			step *= 3
		}
		w.size += step
	}
	w.size = min(w.size, w.maxSize)
}

// isOverload reports whether a rejection means that the window is too large. It does not if the
// call began before the window shrank last, or if no later call has been answered: then the
// provider accepts no calls at all.
func (w *window) isOverload(began time.Time) bool {
	return w.starting || w.peak >= 0 && !began.Before(w.shrunkAt)
}

// rejected shrinks the window after the rejection of a call with the given number of other
// concurrent calls. After a pause that the provider asked for, the window does not grow for ten
// times as long, at most two minutes.
func (w *window) rejected(now time.Time, others int, ask time.Duration) {
	w.hold = min(2*w.hold, maxHold)
	if w.ceiling == 0 || math.Abs(w.size/w.ceiling-1) > sameSize {
		w.hold = minHold
	}
	w.rateLimited = others <= w.peak
	w.ceiling = w.size
	keep := max(minKeep, min(maxKeep, float64(others)/w.size))
	if w.rateLimited && w.answers >= minHold/2 {
		keep = maxKeep
	}
	w.size = max(w.size*keep, minWindow)
	w.starting, w.answers, w.peak, w.shrunkAt = false, 0, -1, now
	w.growAfter = now.Add(min(10*ask, 2*time.Minute))
}

// slots returns the maximum number of concurrent calls, at least 1. If the provider limits the
// rate, it has room for some slow calls.
func (w *window) slots() int {
	slots := w.size
	switch {
	case w.rateLimited:
		slots = math.Ceil(1.25*w.size) + 1
	case w.size < 4:
		slots = math.Ceil(w.size)
	}
	return int(min(slots, w.maxSize))
}

// gap returns the minimum time between the starts of two calls. If the provider limits the
// rate, it is the only control. Otherwise it spreads a burst, so that the first rejection stops
// it, and it makes up for the rounding of a small window.
func (w *window) gap() time.Duration {
	gain := 2.0
	switch {
	case w.rateLimited:
		gain = 1
	case w.size < 4:
		gain = 1.25
	case w.starting && w.peak+1 >= int(w.size):
		gain = 16
	}
	return time.Duration(float64(w.latency) / (gain * w.size))
}

// rate limits a quantity per second. It does not save up unused quantities. A call moves next,
// the earliest start of the next call, by its quantity, so that a call of any size can pass. If
// perSecond is 0, there is no limit.
type rate struct {
	perSecond float64
	next      time.Time
}

// take records a call of quantity n at now.
func (r *rate) take(now time.Time, n int64) {
	if r.next.Before(now) {
		r.next = now
	}
	r.add(n)
}

// add adds n, which may be negative, to the quantity.
func (r *rate) add(n int64) {
	const longest = 24 * 3600 // in seconds, so that a wrong number cannot stop a run forever
	if r.perSecond > 0 {
		seconds := min(max(float64(n)/r.perSecond, -longest), longest)
		r.next = r.next.Add(time.Duration(seconds * float64(time.Second)))
	}
}

// gate is the pause that all callers share.
type gate struct {
	cfg   Config
	until time.Time
	// rejections is the number of rejections in a row. A rejection counts only if its call began
	// after the previous rejection. From the second rejection on, calls are spaced out, or made
	// one at a time while their latency is unknown, until one is answered.
	rejections int
	probes     int // calls in progress that were started while probing
	// lastRejection is the time of the last counted rejection.
	lastRejection time.Time
}

// rejected begins or extends the pause after the rejection of a call. ask is the pause that the
// provider asked for, or 0.
func (g *gate) rejected(now, began time.Time, ask time.Duration) {
	if g.rejections == 0 || !began.Before(g.lastRejection) {
		g.rejections++
		g.lastRejection = now
	} else if ask == 0 {
		return
	}
	pause := min(ask, maxAsked)
	spread := min(pause/10, 5*time.Second)
	if ask <= 0 {
		pause = g.backoff()
		spread = pause / 4
	}
	pause += time.Duration(g.cfg.Jitter() * float64(spread))
	if until := now.Add(pause); until.After(g.until) {
		g.until = until
	}
}

// backoff returns the pause if the provider asked for none: 0 after the first rejection,
// because a smaller window may be enough, then Config.Backoff, doubled each time.
func (g *gate) backoff() time.Duration {
	if g.rejections < 2 {
		return 0
	}
	return g.cfg.Backoff * time.Duration(min(1<<min(g.rejections-2, 5), 30))
}

// answered resets the number of rejections if the call began after the last of them.
func (g *gate) answered(began time.Time) {
	if !began.Before(g.lastRejection) {
		g.rejections = 0
	}
}

// probing reports whether calls are spaced out after rejections.
func (g *gate) probing() bool { return g.rejections >= 2 }
