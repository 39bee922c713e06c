package limit

import (
	"math"
	"time"
)

const (
	// hold is how many answers must follow a rejection before the window grows
	// again: with it a probe beyond the limit costs one call in ten or fewer.
	hold = 10
	// soft is what remains of the window after a probe that was rejected, hard
	// what remains if the rejection before it was less than hold answers ago.
	soft, hard = 0.9, 0.7
	// least is the smallest window: a call, then a rest of 255 times its length.
	least = 1.0 / 256
	// small is the size below which calls are spaced evenly.
	small = 4
)

// window is how many calls may be under way at once, as far as is known. It is
// arithmetic only.
type window struct {
	size, most float64
	// starting says that there was no rejection yet.
	starting bool
	answers  int // since the last rejection
	// latency is the moving average of what an answered call took.
	latency time.Duration
}

// answered takes note of an answer. The window grows by 1 while starting, later
// by about 1 for every window of answers, and by a twentieth of itself per answer where
// that is less. It does not grow unless it is what holds calls back.
func (w *window) answered(took time.Duration, holdsBack bool) {
	w.answers++
	if w.latency == 0 {
		w.latency = took
	}
	w.latency += (took - w.latency) / 10
	switch {
	case !holdsBack:
		return
	case w.starting:
		w.size++
	case w.answers > hold:
		w.size += min(1/w.size, w.size/20)
	}
	w.size = min(w.size, w.most)
}

// rejected shrinks the window.
func (w *window) rejected() {
	keep := soft
	if w.answers < hold && !w.starting {
		keep = hard
	}
	w.size = max(w.size*keep, least)
	w.starting, w.answers = false, 0
}

// slots is the number of calls that may be under way at once, at least 1.
func (w *window) slots() int {
	if w.size < small {
		return int(math.Ceil(w.size))
	}
	return int(w.size)
}

// gap is the least time between the beginnings of two calls. A small window is
// spaced so that its rate is in proportion to its size, not to the whole number
// of calls that it rounds to; a large one only so that a burst is stopped by
// the first rejection.
func (w *window) gap() time.Duration {
	gain := 2.0
	if w.size < small {
		gain = 1.25
	}
	return time.Duration(float64(w.latency) / (gain * w.size))
}
