package runs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
)

// plainEvery is how often a line is printed where there is no terminal.
const plainEvery = 5 * time.Second

// wide is how many columns hold the bar with the means of all and of the scored items.
const wide = 110

// Screen is standard error: while a bar is drawn there, the lines that others write stand
// above it. It is safe for concurrent use.
type Screen struct {
	to  io.Writer
	bar atomic.Pointer[mpb.Progress]
}

// NewScreen makes a Screen of a writer.
func NewScreen(to io.Writer) *Screen { return &Screen{to: to} }

// Write writes whole lines above the bar, or anything at once where there is none.
func (s *Screen) Write(text []byte) (int, error) {
	if bar := s.bar.Load(); bar != nil {
		// The terminal shows ^C where the cursor is, and the bar clears from there on.
		if _, err := io.WriteString(s.to, "\r"); err != nil {
			return 0, err
		}
		if n, err := bar.Write(text); !errors.Is(err, mpb.ErrDone) {
			return n, err
		}
	}
	return s.to.Write(text)
}

// Progress shows on standard error how far a run is: a bar on a terminal,
// a line now and then elsewhere, with --quiet only that the run waits for a
// provider to which there never was a connection.
type Progress struct {
	mu    sync.Mutex
	out   *Screen
	width int    // of the terminal; 0 where there is none
	noun  string // what is counted, such as "item"
	quiet bool
	log   *slog.Logger
	began time.Time
	last  time.Time // of the last plain line

	total, done, failed, flying int
	earlier                     int // done before this process
	inLangfuse                  int
	withdrawing                 int       // replaced attempts whose scores are to go
	taken                       time.Time // when Langfuse took something last, or the run ended
	sum                         float64   // of the primary score
	scored, unscored            int       // items that have it, and those that failed without it
	primary                     string
	sending, ended              bool
	answered                    time.Time // when an item was done last
	paused                      time.Time // until when the provider asked to wait
	givesUp                     time.Time // when the run ends unless the provider is reached
	// Workers says who works, of other machines; nil or "" is this one.
	Workers func() string

	pool *mpb.Progress
	bar  *mpb.Bar
	sent chan struct{} // closed when publishing has ended; nil before the items have
}

// NewProgress shows the progress of a run; primary is the score whose mean a person
// sees, and log is told of every item.
func NewProgress(env cli.Env, quiet bool, primary string, log *slog.Logger) *Progress {
	now := time.Now()
	screen, ok := env.Stderr.(*Screen)
	if !ok {
		screen = NewScreen(env.Stderr)
	}
	p := &Progress{out: screen, noun: "item", quiet: quiet, primary: primary, log: log, last: now, answered: now}
	if !quiet {
		p.width = env.Terminal()
	}
	return p
}

// Observer has the engine tell how a run gets on.
func (p *Progress) Observer() experiment.Observer {
	return experiment.Observer{
		Listed: p.Listed, Planned: p.Planned, Started: p.Started, Done: p.Done,
		Published: p.Published, Withdrawing: p.Withdrawing, Sending: p.Publishing, Ended: p.Close,
	}
}

// inFlight says what is worked on.
func (p *Progress) inFlight() string {
	text := fmt.Sprintf("%d in flight", p.flying)
	if p.Workers != nil {
		if state := p.Workers(); state != "" {
			text += " (" + state + ")"
		}
	}
	return text
}

// Counting sets what is counted in place of items.
func (p *Progress) Counting(noun string) { p.noun = noun }

// Planned is told how many items there are.
func (p *Progress) Planned(total, done int) {
	p.mu.Lock()
	p.total, p.done, p.earlier, p.began = total, done, done, time.Now()
	p.last, p.answered = p.began, p.began
	p.mu.Unlock()
	if p.width > 0 {
		p.pool = mpb.New(mpb.WithOutput(p.out.to), mpb.WithWidth(min(30, max(10, p.width/4))), mpb.WithAutoRefresh())
		// A bar made with no total is not complete before close says so, and is
		// drawn again while the results are sent.
		drawn := func(text func() string) decor.Decorator {
			return decor.Any(func(decor.Statistics) string { // by the bar's own goroutine
				p.mu.Lock()
				defer p.mu.Unlock()
				return " " + text() + " "
			})
		}
		p.bar = p.pool.AddBar(0, mpb.PrependDecorators(drawn(p.counts)), mpb.AppendDecorators(drawn(p.pace)))
		p.bar.SetTotal(int64(total), false)
		p.bar.SetCurrent(int64(done))
		p.out.bar.Store(p.pool)
	}
	p.line("%s to run, %d done earlier", textutil.Counted(total-done, p.noun), done)
}

// Listed is told how many items are listed so far; a person sees it only where
// it takes long.
func (p *Progress) Listed(items int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.last) >= plainEvery {
		p.last = now
		p.line("listing the dataset: %d items so far", items)
	}
}

// Started is told that an item is being worked on.
func (p *Progress) Started(item string) {
	p.log.Debug("started", "item", item)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying++
}

// Done is told the outcome of an item.
func (p *Progress) Done(o outcome.Outcome) {
	p.log.Debug("done", "item", o.Item, "class", string(o.Class), "latency", o.Latency)
	p.count(o)
	if p.bar != nil { // which takes p.mu to be drawn, and counts when it is
		p.bar.Increment()
	}
}

func (p *Progress) count(o outcome.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying--
	p.done++
	p.answered = time.Now()
	if o.Failed() {
		p.failed++
	}
	switch s, ok := outcome.Lookup(o.Scores, p.primary); {
	case ok && s.Value != nil:
		p.sum += *s.Value
		p.scored++
	case ok && o.Failed():
		p.unscored++
	}
	if now := time.Now(); now.Sub(p.last) >= plainEvery || p.done == p.total {
		p.last = now
		p.state()
	}
}

// Published is told how many outcomes are in Langfuse.
func (p *Progress) Published(n int) { p.took(&p.inLangfuse, n) }

// Withdrawing is told of how many replaced attempts the scores are still to go.
func (p *Progress) Withdrawing(attempts int) { p.took(&p.withdrawing, attempts) }

// took notes a count, and when it changed: Langfuse took something.
func (p *Progress) took(count *int, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != *count {
		*count, p.taken = n, time.Now()
	}
}

// Publishing is told that all items are done and the rest is being sent.
func (p *Progress) Publishing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = true
}

// Close leaves the last state on the screen. It is safe to repeat.
func (p *Progress) Close() {
	p.mu.Lock()
	again := p.ended
	p.ended, p.flying = true, 0
	if p.sent != nil {
		close(p.sent)
		p.sent = nil
	}
	if !again && p.pool == nil && p.done > p.earlier && p.done < p.total { // stopped: the last line is from before that
		p.state()
	}
	p.mu.Unlock()
	if p.pool != nil {
		p.bar.SetTotal(-1, true)
		p.pool.Wait()
		p.out.bar.Store(nil)
	}
}

// state prints how far the run is.
func (p *Progress) state() { p.line("%s, %s%s", p.counts(), p.inFlight(), p.meanText()) }

// counts are the items. Of a run that was taken up again they count from its beginning;
// failures and the score are of this process alone.
func (p *Progress) counts() string {
	return fmt.Sprintf("%d/%d done, %d failed%s", p.done, p.total, p.failed, p.session())
}

func (p *Progress) line(format string, args ...any) {
	if !p.quiet && p.pool == nil {
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// pace is how fast the run is, and what it is at.
func (p *Progress) pace() string {
	if p.ended {
		return fmt.Sprintf("in %s%s", time.Since(p.began).Round(100*time.Millisecond), p.meanText())
	}
	if p.sending {
		return fmt.Sprintf("publishing, %d sent%s", p.inLangfuse, p.meanText())
	}
	elapsed := time.Since(p.began)
	fresh := p.done - p.earlier
	if fresh == 0 {
		return p.inFlight()
	}
	left := time.Duration(float64(elapsed) / float64(fresh) * float64(p.total-p.done)).Round(time.Second)
	return fmt.Sprintf("%s, %.1f/s, %s left%s", p.inFlight(), float64(fresh)/elapsed.Seconds(), left, p.meanText())
}

// meanText is the mean of the primary score, failed items as 0, with that of the
// others beside it.
func (p *Progress) meanText() string {
	owed := p.scored + p.unscored
	if owed == 0 {
		return ""
	}
	text := ", " + p.primary + " " + report.Score(new(p.sum/float64(owed)), 3)
	if p.unscored > 0 && p.scored > 0 && (p.width == 0 || p.width >= wide) {
		text += fmt.Sprintf(" (%s of %d scored)", report.Score(new(p.sum/float64(p.scored)), 3), p.scored)
	}
	return text + p.session()
}

// session marks what is of this process alone, where the run began
// earlier.
func (p *Progress) session() string {
	if p.earlier > 0 {
		return " this session"
	}
	return ""
}

// When a person is told that nothing gets to Langfuse: at first, and from then on.
const (
	unsentFirst = 10 * time.Second
	unsentEvery = 30 * time.Second
)

// WatchSending says, until close, where nothing gets to Langfuse for a while, with the
// reason that paused knows: why a request is to be sent again, and when.
func (p *Progress) WatchSending(run string, paused func() (error, time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.sent = time.Now(), make(chan struct{})
	go p.sayUnsent(p.sent, run, paused)
}

func (p *Progress) sayUnsent(sent <-chan struct{}, run string, paused func() (error, time.Time)) {
	next := time.NewTimer(unsentFirst)
	defer next.Stop()
	for {
		select {
		case <-sent:
			return
		case now := <-next.C:
			silent, text := p.unsent(now, paused)
			if silent < unsentFirst {
				next.Reset(unsentFirst - silent)
				continue
			}
			p.above("%s; interrupt keeps everything, experiment publish %s sends it later", text, cli.Quote(run))
			next.Reset(unsentEvery)
		}
	}
}

// unsent says for how long nothing got to Langfuse, and why, or what else is
// waited for.
func (p *Progress) unsent(now time.Time, paused func() (error, time.Time)) (silent time.Duration, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent = now.Sub(p.taken)
	if p.withdrawing > 0 {
		return silent, fmt.Sprintf("all is sent; for %.0f s Langfuse has not shown, or not deleted, the scores of %s",
			silent.Seconds(), textutil.Counted(p.withdrawing, "replaced attempt"))
	}
	text = fmt.Sprintf("nothing has reached Langfuse for %.0f s", silent.Seconds())
	if reason, until := paused(); reason != nil && !until.Before(p.taken) {
		text += ": " + textutil.Cut(textutil.Line(reason.Error()), mostReason)
		if until.After(now) {
			text += ", asked again at " + until.Format(time.TimeOnly)
		}
	}
	return silent, text
}

// above prints a line, on a terminal above the bar. The bar takes p.mu to be drawn:
// it must not be held.
func (p *Progress) above(format string, args ...any) {
	if p.pool != nil {
		fmt.Fprintf(p.out, format+"\n", args...)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(format, args...)
}

// shortestPause is what a person is told of.
const shortestPause = 2 * time.Second

// mostReason is how much of a failure a line shows, in bytes.
const mostReason = 160

// Waiting is told why a request is sent again only later. That there never was a
// connection is shown at once, also where progress is not wanted: the run may end
// by it. A pause that the provider asks for is shown once; other failures when
// nothing was done for a while.
func (p *Progress) Waiting(provider string, w pipeline.Wait) {
	if text := p.stalled(provider, w, time.Now()); text != "" {
		p.above("%s", text)
	}
}

// stalled says why a run does not get on; "" where that was said, or is too early.
func (p *Progress) stalled(provider string, w pipeline.Wait, now time.Time) (text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := now.Sub(p.answered)
	reason := textutil.Cut(textutil.Line(w.Reason), mostReason)
	switch {
	case !w.GivesUp.IsZero() && w.GivesUp.Equal(p.givesUp):
		return ""
	case !w.GivesUp.IsZero():
		p.givesUp = w.GivesUp
		text = fmt.Sprintf("waiting for %s until %s: %s", provider, w.GivesUp.Format(time.TimeOnly), reason)
		if p.quiet {
			fmt.Fprintln(p.out, text)
		}
	case w.Asked >= shortestPause:
		if now.Before(p.paused) && w.Until.Before(p.paused.Add(plainEvery)) {
			return "" // the same pause, met by another call
		}
		p.paused = w.Until
		text = fmt.Sprintf("paused until %s: %s asks to wait %.0f s", w.Until.Format(time.TimeOnly), provider, w.Asked.Seconds())
	case now.Before(p.paused), silent < plainEvery, now.Sub(p.last) < plainEvery:
		return ""
	default:
		text = fmt.Sprintf("no progress for %.0f s, asking %s again: %s", silent.Seconds(), provider, reason)
	}
	p.last = now
	return text
}
