package limit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// leastHold is how many answers must follow a rejection before the window
	// grows again, so that probing costs one call in ten at most. Where probes
	// are rejected at about the same size again and again, it is doubled, up to
	// mostHold.
	leastHold, mostHold = 10, 40
	// alike is how near two sizes are that count as the same.
	alike = 0.15
	// soft and hard are the most and the least that remains of the window after a
	// rejection; between them it shrinks to the calls that were under way then.
	soft, hard = 0.9, 0.7
	// least is the smallest window: a call, then a rest of 255 times its length.
	least = 1.0 / 256
)

// Start is the size of the window after the first answer, where nothing was known.
const Start = 4

// window is how many calls may be under way at once, as far as is known. It is
// arithmetic only.
type window struct {
	size, most float64
	// starting says that there was no rejection yet.
	starting bool
	// ceiling is the size at the last rejection.
	ceiling float64
	shrunk  time.Time
	answers int // since then
	hold    int
	quiet   time.Time // no growth before
	// latency is the moving average of what an answered call took, over answered
	// calls, at most fifty.
	latency  time.Duration
	measured int
	// peak is the largest number of other calls beside which one was begun, and
	// then answered, since the last rejection; -1 if none was.
	peak int
	// paced says that the provider limits how often calls begin, not how many
	// there are at once: one was rejected beside no more others than peak.
	paced bool
}

// answered takes note of an answer. The window jumps to Start, grows by 2 while starting, later
// by about 1 for every window of answers, and by a twentieth of itself per
// answer where that is less; three times as fast well above the old ceiling. It
// does not grow unless it is what holds calls back.
func (w *window) answered(now, began time.Time, others int, holdsBack bool) {
	w.answers++
	w.measured = min(w.measured+1, 50)
	w.latency += (now.Sub(began) - w.latency) / time.Duration(w.measured)
	if !began.Before(w.shrunk) {
		w.peak = max(w.peak, others)
	}
	switch {
	case !holdsBack:
		return
	case w.starting:
		w.size = max(w.size+2, Start)
	case w.answers > w.hold && !now.Before(w.quiet):
		step := min(1/w.size, w.size/20)
		if w.size > w.ceiling*(1+alike) {
			step *= 3
		}
		w.size += step
	}
	w.size = min(w.size, w.most)
}

// believes reports whether the rejection of a call says that the window is too
// large. Calls that were under way when it last shrank say nothing about the
// new size, and as long as no later call was answered, the provider is closed,
// not overrun.
func (w *window) believes(began time.Time) bool {
	return w.starting || w.peak >= 0 && !began.Before(w.shrunk)
}

// rejected shrinks the window, because of a call beside so many others. After
// a pause that the provider asked for, it does not grow for ten times as long.
func (w *window) rejected(now time.Time, others int, ask time.Duration) {
	w.hold = min(2*w.hold, mostHold)
	if w.ceiling == 0 || math.Abs(w.size/w.ceiling-1) > alike {
		w.hold = leastHold
	}
	w.paced = others <= w.peak
	w.ceiling = w.size
	keep := max(hard, min(soft, float64(others)/w.size))
	if w.paced && w.answers >= leastHold/2 {
		keep = soft
	}
	w.size = max(w.size*keep, least)
	w.starting, w.answers, w.peak, w.shrunk = false, 0, -1, now
	w.quiet = now.Add(min(10*ask, 2*time.Minute))
}

// slots is the number of calls that may be under way at once, at least 1. Where
// calls are paced there is room for some that take long.
func (w *window) slots() int {
	places := w.size
	switch {
	case w.paced:
		places = math.Ceil(1.25*w.size) + 1
	case w.size < 4:
		places = math.Ceil(w.size)
	}
	return int(min(places, w.most))
}

// gap is the least time between the beginnings of two calls. Where calls are
// paced it is the whole control; else it only sees to it that a burst is
// stopped by the first rejection, and that a small window is not held to the
// whole number that it rounds to.
func (w *window) gap() time.Duration {
	gain := 2.0
	switch {
	case w.paced:
		gain = 1
	case w.size < 4:
		gain = 1.25
	case w.starting && w.peak+1 >= int(w.size):
		gain = 16
	}
	return time.Duration(float64(w.latency) / (gain * w.size))
}

// rate lets through so much per second, evenly, without saving up what was not
// used. It keeps the moment from which the next call may begin: a call moves
// it by what it needs, so that one of any size can pass. A perSecond of 0 never
// holds back.
type rate struct {
	perSecond float64
	free      time.Time
}

// take lets a call of n through at now.
func (r *rate) take(now time.Time, n int64) {
	if r.free.Before(now) {
		r.free = now
	}
	r.correct(n)
}

// correct adds n, which may be negative, to what was taken.
func (r *rate) correct(n int64) {
	const longest = 24 * 3600 // seconds: a wrong count must not stop a run for good
	if r.perSecond > 0 {
		seconds := min(max(float64(n)/r.perSecond, -longest), longest)
		r.free = r.free.Add(time.Duration(seconds * float64(time.Second)))
	}
}

// gate is the pause that all callers share.
type gate struct {
	cfg   Config
	until time.Time
	// refusals counts rejections in a row, of calls each of which began after
	// the one before was rejected. From the second on one call at a time is
	// let through, until one is answered.
	refusals int
	probes   int // calls under way that were let through so
	// last is when the latest refusal came.
	last time.Time
}

// refused begins or prolongs the pause after the rejection of a call that
// began at began. Ask is what the provider asked for, 0 if it did not say.
func (g *gate) refused(now, began time.Time, ask time.Duration) {
	if g.refusals == 0 || !began.Before(g.last) {
		g.refusals++
		g.last = now
	} else if ask == 0 {
		return
	}
	pause := min(ask, longestAsked)
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

// backoff is the pause where none was asked for: none at first, because the
// smaller window may do, then Backoff, doubled each time.
func (g *gate) backoff() time.Duration {
	if g.refusals < 2 {
		return 0
	}
	return g.cfg.Backoff * time.Duration(min(1<<min(g.refusals-2, 5), 30))
}

// answered ends the row of rejections if the call began after the last of them.
func (g *gate) answered(began time.Time) {
	if !began.Before(g.last) {
		g.refusals = 0
	}
}

// probing reports whether calls go one at a time.
func (g *gate) probing() bool { return g.refusals >= 2 }

// TrippedError says why no more calls are made. What it stops can be taken up
// again when the reason is gone.
type TrippedError struct {
	// Reason is how the call failed that tripped the limiter.
	Reason string
	// Why says what made that one call decide: "10 calls in a row failed alike".
	Why string
	// Unauthorised says that the provider does not accept the key, or that its
	// account is used up.
	Unauthorised bool
}

// Error says what happened and what to do.
func (e *TrippedError) Error() string {
	return fmt.Sprintf("no more calls are made, because %s: %s; see to that first", e.Why, e.Reason)
}

// ExitCode is 69: the provider cannot be reached or does not authorise.
func (*TrippedError) ExitCode() int { return 69 }

// StopsRun marks errors that are not a failure of the item: it was not tried, or
// would fail like all others, and is to be run again when the run is resumed.
func (*TrippedError) StopsRun() {}

// StopsRun reports whether an error in the chain of err stops a run, and is no
// failure of the item: whether it has a method StopsRun.
func StopsRun(err error) bool {
	var stop interface{ StopsRun() }
	return errors.As(err, &stop)
}

const (
	// longestFailing is how long a provider may refuse or fail every call before the
	// limiter trips. A tenth of it is given to a provider that never answered and does not
	// say that its limits are the reason.
	longestFailing = 30 * time.Minute
	// longestUnmet is given to a provider to which there never was a connection; it ends
	// when a call is given up.
	longestUnmet = 15 * time.Second
)

// breaker notices that everything fails for the same reason.
type breaker struct {
	tripped  *TrippedError
	met      bool      // anything ever came from the provider, refusals included
	givesUp  time.Time // when it trips unless the provider is reached; zero: none was refused, or met
	unmet    string    // why it was not reached last
	answered bool      // ever
	since    time.Time // of the first failure after the last answer; zero if there was none
	reason   string    // of the failures in a row, normalised
	inARow   int
}

// ok takes note of an answer.
func (b *breaker) ok() {
	b.answered, b.since, b.inARow = true, time.Time{}, 0
}

// expire trips where the provider was not reached by the time given to it.
func (b *breaker) expire(now time.Time) {
	if b.tripped == nil && !b.givesUp.IsZero() && !now.Before(b.givesUp) {
		b.tripped = &TrippedError{Reason: b.unmet, Why: "the provider was never reached"}
	}
}

// failed takes note of a call, begun at began, that was not answered.
func (b *breaker) failed(now, began time.Time, r Result) {
	if b.tripped != nil {
		return
	}
	if r.Unreached && !b.met {
		b.unmet = r.Reason
		switch {
		case r.Final:
			b.givesUp = now
		case b.givesUp.IsZero():
			b.givesUp = began.Add(longestUnmet)
		}
		b.expire(now)
		return
	}
	trip := func(format string, args ...any) {
		b.tripped = &TrippedError{Reason: r.Reason, Why: fmt.Sprintf(format, args...), Unauthorised: r.Fatal}
	}
	r.Fatal = r.Fatal || r.Forbidden && !b.answered
	if r.Fatal {
		trip("the provider does not accept the key or its account is used up")
		return
	}
	if b.since.IsZero() {
		b.since = now
	}
	patience := longestFailing
	if !b.answered && r.Kind != Rejected {
		patience /= 10
	}
	if lasts := now.Sub(b.since); lasts >= patience {
		trip("no call was answered for %s", lasts.Round(time.Second))
		return
	}
	if !r.Final {
		return
	}
	if reason := normalised(r.Reason); reason != b.reason {
		b.reason, b.inARow = reason, 0
	}
	if b.inARow++; b.inARow >= mostAlike {
		trip("%d calls in a row failed alike", b.inARow)
	}
}

// normalised leaves out the words with digits in them, which differ from call to
// call: ids, times, counts.
func normalised(reason string) string {
	numbered := func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) }
	return strings.Join(slices.DeleteFunc(strings.Fields(reason), numbered), " ")
}
