package limit

import "time"

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
