package limit

import "time"

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
	pause := min(ask, g.cfg.LongestPause)
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
	pause := g.cfg.Backoff
	for i := 2; i < g.refusals && pause < g.cfg.LongestBackoff; i++ {
		pause *= 2
	}
	return min(pause, g.cfg.LongestBackoff)
}

// answered ends the row of rejections if the call began after the last of them.
func (g *gate) answered(began time.Time) {
	if !began.Before(g.last) {
		g.refusals = 0
	}
}

// probing reports whether calls go one at a time.
func (g *gate) probing() bool { return g.refusals >= 2 }
