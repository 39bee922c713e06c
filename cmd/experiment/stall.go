package main

import (
	"fmt"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/pipeline"
)

// stall is why a run does not get on, for a person who watches.
type stall struct {
	answered time.Time // when an item was done last
	paused   time.Time // until when the provider asked to wait
	givesUp  time.Time // when the run ends unless the provider is reached
	until    time.Time // when text is no longer true
	text     string
}

// shortestPause is what a person is told of.
const shortestPause = 2 * time.Second

// mostReason is how much of a failure a line shows, in bytes.
const mostReason = 160

// waiting is told why a request is sent again only later. That there never was a
// connection is shown at once, also where progress is not wanted: the run may end
// by it. A pause that the provider asks for is shown once; other failures when
// nothing was done for a while.
func (p *progress) waiting(provider string, w pipeline.Wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	silent := now.Sub(p.stall.answered)
	reason := printable.Cut(printable.Line(w.Reason), mostReason)
	switch {
	case w.GivesUp.Equal(p.stall.givesUp) && !w.GivesUp.IsZero():
		return // said
	case !w.GivesUp.IsZero():
		p.stall.givesUp, p.stall.until = w.GivesUp, w.GivesUp
		p.stall.text = fmt.Sprintf("waiting for %s until %s: %s", provider, w.GivesUp.Format(time.TimeOnly), reason)
		if p.quiet {
			fmt.Fprintln(p.out, p.stall.text)
		}
	case w.Asked >= shortestPause:
		if now.Before(p.stall.paused) && w.Until.Before(p.stall.paused.Add(plainEvery)) {
			return // the same pause, met by another call
		}
		p.stall.paused, p.stall.until = w.Until, w.Until
		p.stall.text = fmt.Sprintf("paused until %s: %s asks to wait %.0f s", w.Until.Format(time.TimeOnly), provider, w.Asked.Seconds())
	case now.Before(p.stall.paused), silent < plainEvery, now.Sub(p.last) < plainEvery:
		return
	default:
		p.stall.until = w.Until.Add(plainEvery)
		p.stall.text = fmt.Sprintf("nothing done for %.0f s, asking %s again: %s", silent.Seconds(), provider, reason)
	}
	p.last = now
	p.line("%s", p.stall.text)
}

// done is told that something was done.
func (s *stall) done() {
	s.answered = time.Now()
	if !s.answered.Before(s.paused) {
		s.text = ""
	}
}

// shown is what to say at this moment; empty when the run gets on.
func (s *stall) shown() string {
	if s.text == "" || !time.Now().Before(s.until) {
		return ""
	}
	return s.text
}
