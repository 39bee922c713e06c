package main

import (
	"fmt"
	"time"

	"extraction-experiment/internal/printable"
)

// When a person is told that nothing gets to Langfuse: at first, and from then on.
const (
	unsentFirst = 10 * time.Second
	unsentEvery = 30 * time.Second
)

// untilSent waits for what sent brings, the end of the publishing of a run that has
// ended itself. Where nothing gets to Langfuse for a while, it says so, with the
// reason that paused knows: why a request is to be sent again, and when.
func (p *progress) untilSent(sent <-chan error, run string, paused func() (error, time.Time)) error {
	p.mu.Lock()
	p.taken = time.Now()
	p.mu.Unlock()
	next := time.NewTimer(unsentFirst)
	defer next.Stop()
	for {
		select {
		case err := <-sent:
			return err
		case now := <-next.C:
			silent, text := p.unsent(now, paused)
			if silent < unsentFirst {
				next.Reset(unsentFirst - silent)
				continue
			}
			p.above("%s; interrupt keeps everything, experiment publish %s sends it later", text, quote(run))
			next.Reset(unsentEvery)
		}
	}
}

// unsent says for how long nothing got to Langfuse, and why, or what else is
// waited for.
func (p *progress) unsent(now time.Time, paused func() (error, time.Time)) (silent time.Duration, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent = now.Sub(p.taken)
	text = fmt.Sprintf("nothing more has got to Langfuse for %.0f s", silent.Seconds())
	if p.withdrawing > 0 {
		return silent, fmt.Sprintf("all is sent; for %.0f s Langfuse has not shown, or not deleted, the scores of %s",
			silent.Seconds(), printable.Counted(p.withdrawing, "replaced attempt"))
	}
	reason, until := paused()
	if reason == nil || until.Before(p.taken) {
		return silent, text
	}
	text += ": " + printable.Cut(printable.Line(reason.Error()), mostReason)
	if until.After(now) {
		text += ", asked again at " + until.Format(time.TimeOnly)
	}
	return silent, text
}

// above prints a line, on a terminal above the bar. The bar takes p.mu to be drawn:
// it must not be held.
func (p *progress) above(format string, args ...any) {
	if p.pool != nil {
		fmt.Fprintf(p.pool, format+"\n", args...)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(format, args...)
}
