package limit

import (
	"math"
	"time"
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

// answered takes note of an answer. The window grows by 1 while starting, later
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
		w.size++
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
	}
	return time.Duration(float64(w.latency) / (gain * w.size))
}
