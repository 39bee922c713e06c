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
	leastHold, mostHold = 10, 80
	// alike is how near two sizes are that count as the same.
	alike = 0.25
	// soft is what remains of the window after a probe that was rejected, hard
	// what remains if the rejection before it was less than leastHold answers
	// ago.
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
	answers int // since the last rejection
	hold    int
	quiet   time.Time // no growth before
	// latency is the moving average of what an answered call took, over answered
	// calls, at most fifty.
	latency  time.Duration
	measured int
	// peak is the number of other calls under way beside which one was
	// answered: the largest of late.
	peak float64
	// paced says that the provider limits how often calls begin, not how many
	// there are at once: one was rejected beside fewer others than peak.
	paced bool
}

// answered takes note of an answer. The window grows by 1 while starting, later
// by about 1 for every window of answers, and by a twentieth of itself per
// answer where that is less; three times as fast well above the old ceiling. It
// does not grow unless it is what holds calls back.
func (w *window) answered(now time.Time, took time.Duration, others int, holdsBack bool) {
	w.answers++
	w.measured = min(w.measured+1, 50)
	w.latency += (took - w.latency) / time.Duration(w.measured)
	w.peak = max(w.peak*0.99, float64(others))
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

// rejected shrinks the window, because of a call beside so many others. After
// a pause that the provider asked for, it does not grow for ten times as long.
func (w *window) rejected(now time.Time, others int, ask time.Duration) {
	keep := soft
	if w.answers < leastHold && !w.starting {
		keep = hard
	}
	w.hold = min(2*w.hold, mostHold)
	if w.ceiling == 0 || math.Abs(w.size/w.ceiling-1) > alike {
		w.hold = leastHold
	}
	w.paced = float64(others) <= w.peak+0.5
	w.ceiling = w.size
	w.size = max(w.size*keep, least)
	w.starting, w.answers = false, 0
	w.quiet = now.Add(min(10*ask, 2*time.Minute))
}

// slots is the number of calls that may be under way at once, at least 1. Where
// calls are paced there is room for some that take long.
func (w *window) slots() int {
	switch {
	case w.paced:
		return int(math.Ceil(1.25*w.size)) + 1
	case w.size < 4:
		return int(math.Ceil(w.size))
	}
	return int(w.size)
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
