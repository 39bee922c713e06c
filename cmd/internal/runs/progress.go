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

// lineInterval is the time between two lines of progress without a terminal.
const lineInterval = 5 * time.Second

// wideScreen is the number of columns from which the bar also shows the mean of the scored
// items.
const wideScreen = 110

// Screen is standard error with an optional progress bar. Lines that are written to it
// appear above the bar. It is safe for concurrent use if its writer is.
type Screen struct {
	out io.Writer
	bar atomic.Pointer[mpb.Progress]
}

// NewScreen returns a Screen that writes to a writer.
func NewScreen(to io.Writer) *Screen { return &Screen{out: to} }

// Write writes whole lines above the bar, or without a bar any text at once.
func (s *Screen) Write(text []byte) (int, error) {
	if bar := s.bar.Load(); bar != nil {
		// A terminal shows ^C at the cursor, and the bar clears only the columns after it.
		if _, err := io.WriteString(s.out, "\r"); err != nil {
			return 0, err
		}
		if n, err := bar.Write(text); !errors.Is(err, mpb.ErrDone) {
			return n, err
		}
	}
	return s.out.Write(text)
}

// Progress shows the progress of a run on standard error: a bar on a terminal, else a line
// every few seconds. With --quiet it shows only that the run waits for a provider that it
// never reached.
type Progress struct {
	mu       sync.Mutex
	out      *Screen
	width    int    // of the terminal; 0 without one
	noun     string // the singular of what is counted, "item" by default
	quiet    bool
	log      *slog.Logger
	started  time.Time
	lastLine time.Time // the time of the last printed line

	total, done, failed, inFlight int
	resumed                       int // items done before this process
	inLangfuse                    int
	lastAccepted                  time.Time // when Langfuse last accepted something, or the run ended
	scoreSum                      float64   // of the primary score
	scored, unscored              int       // items with the primary score, and failed items without
	trials                        bool      // items have several outcomes
	primary                       string
	publishing, ended             bool
	lastDone                      time.Time // when an item was last done
	pausedUntil                   time.Time // the end of the pause that the provider asked for
	giveUpAt                      time.Time // when the run ends if the provider is not reached
	// Workers describes the workers on other machines; nil or "" if there are none.
	Workers func() string

	pool   *mpb.Progress
	bar    *mpb.Bar
	unsent *time.Timer // of the next message that nothing changes in Langfuse; nil before Publishing
}

// NewProgress returns the Progress of a run. It shows the mean of the score primary, and
// logs every item to log at the level debug.
func NewProgress(env cli.Env, quiet bool, primary string, log *slog.Logger) *Progress {
	now := time.Now()
	screen, ok := env.Stderr.(*Screen)
	if !ok {
		screen = NewScreen(env.Stderr)
	}
	p := &Progress{out: screen, noun: "item", quiet: quiet, primary: primary, log: log, lastLine: now, lastDone: now}
	if !quiet {
		p.width = env.Terminal()
	}
	return p
}

// Observer returns the functions by which the engine reports to p.
func (p *Progress) Observer() experiment.Observer {
	return experiment.Observer{
		Listed: p.Listed, Planned: p.Planned, Started: p.Started, Answered: p.Answered, Done: p.Done,
		Published: p.Published, Sending: p.Publishing, Ended: p.Close,
	}
}

// inFlightText formats the number of items in flight, with the workers.
func (p *Progress) inFlightText() string {
	text := fmt.Sprintf("%d in flight", p.inFlight)
	if p.Workers != nil {
		if state := p.Workers(); state != "" {
			text += " (" + state + ")"
		}
	}
	return text
}

// Counting sets the singular of what is counted instead of items. Call it before Planned.
func (p *Progress) Counting(noun string) { p.noun = noun }

// Planned sets the number of items and how many of them were done earlier, and shows the
// bar.
func (p *Progress) Planned(total, done int) {
	p.mu.Lock()
	p.total, p.done, p.resumed, p.started = total, done, done, time.Now()
	p.lastLine, p.lastDone = p.started, p.started
	p.mu.Unlock()
	if p.width > 0 {
		p.pool = mpb.New(mpb.WithOutput(p.out.out), mpb.WithWidth(min(30, max(10, p.width/4))), mpb.WithAutoRefresh())
		// A bar that was created without a total completes only in Close. Until then it is
		// drawn again while results are sent.
		decorator := func(text func() string) decor.Decorator {
			return decor.Any(func(decor.Statistics) string { // called by the goroutine of the bar
				p.mu.Lock()
				defer p.mu.Unlock()
				return " " + text() + " "
			})
		}
		p.bar = p.pool.AddBar(0, mpb.PrependDecorators(decorator(p.counts)), mpb.AppendDecorators(decorator(p.pace)))
		p.bar.SetTotal(int64(total), false)
		p.bar.SetCurrent(int64(done))
		p.out.bar.Store(p.pool)
	}
	p.line("%s to run, %d done earlier", textutil.Counted(total-done, p.noun), done)
}

// Listed receives the number of items listed so far. It prints a line only if listing takes
// long.
func (p *Progress) Listed(items int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.lastLine) >= lineInterval {
		p.lastLine = now
		p.line("listing the dataset: %d items so far", items)
	}
}

// Started receives an item when work on it begins.
func (p *Progress) Started(item string) {
	p.log.Debug("started", "item", item)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight++
}

// Answered receives an item when work on it has ended.
func (p *Progress) Answered(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
}

// Done receives the outcome of an item.
func (p *Progress) Done(o outcome.Outcome) {
	p.log.Debug("done", "item", o.Item, "class", string(o.Class), "latency", o.Latency)
	p.count(o)
	if p.bar != nil { // not under p.mu, which the bar locks to draw itself
		p.bar.Increment()
	}
}

func (p *Progress) count(o outcome.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.lastDone = time.Now()
	p.trials = p.trials || o.Trial > 1
	if o.Failed() {
		p.failed++
	}
	switch s, ok := outcome.Lookup(o.Scores, p.primary); {
	case ok && s.Value != nil:
		p.scoreSum += *s.Value
		p.scored++
	case ok && o.Failed():
		p.unscored++
	}
	if now := time.Now(); now.Sub(p.lastLine) >= lineInterval || p.done == p.total {
		p.lastLine = now
		p.printState()
	}
}

// The times until the first and between later messages that nothing changes in Langfuse.
const (
	unsentDelay    = 10 * time.Second
	unsentInterval = 30 * time.Second
)

// Published receives the number of outcomes in Langfuse.
func (p *Progress) Published(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == p.inLangfuse {
		return
	}
	p.inLangfuse, p.lastAccepted = n, time.Now()
	if p.unsent != nil && !p.ended {
		p.unsent.Reset(unsentDelay)
	}
}

// Publishing is called when no more items are run and the remaining results are being sent. From then on
// until Close, messages say that nothing changes in Langfuse. Call it at most once.
func (p *Progress) Publishing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publishing, p.lastAccepted = true, time.Now()
	p.unsent = time.AfterFunc(unsentDelay, p.reportUnsent)
}

func (p *Progress) reportUnsent() {
	p.mu.Lock()
	silent, ended := time.Since(p.lastAccepted), p.ended
	p.mu.Unlock()
	if !ended && !p.quiet { // without p.mu, which the bar locks to draw itself below the line
		// It may have accepted everything, and not have deleted the scores of replaced attempts.
		fmt.Fprintf(p.out, "nothing has changed in Langfuse for %.0f s; an interruption keeps everything, "+
			"experiment publish does the rest later\n", silent.Seconds())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.unsent.Reset(unsentInterval)
	}
}

// Close ends the progress and leaves its last state on the screen. It is safe to repeat.
func (p *Progress) Close() {
	p.mu.Lock()
	repeated := p.ended
	p.ended, p.inFlight = true, 0
	if p.unsent != nil {
		p.unsent.Stop()
	}
	if !repeated && p.pool == nil && p.done > p.resumed && p.done < p.total { // the run was stopped after the last line
		p.printState()
	}
	stopped := p.done < p.total
	p.mu.Unlock()
	if p.pool != nil {
		if stopped {
			p.bar.Abort(false) // it stays as it is
		} else {
			p.bar.SetTotal(-1, true)
		}
		p.pool.Wait()
		p.out.bar.Store(nil)
	}
}

// printState prints the state of the run as a line.
func (p *Progress) printState() { p.line("%s, %s%s", p.counts(), p.inFlightText(), p.meanText()) }

// counts formats the numbers of items. The items of a resumed run count from its beginning,
// its failures and its score only in this process.
func (p *Progress) counts() string {
	return fmt.Sprintf("%d/%d done, %d failed%s", p.done, p.total, p.failed, p.sessionNote())
}

func (p *Progress) line(format string, args ...any) {
	if !p.quiet && p.pool == nil {
		fmt.Fprintln(p.out, textutil.Countf(format, args...))
	}
}

// pace formats the speed of the run and the state of its items.
func (p *Progress) pace() string {
	if p.ended {
		return fmt.Sprintf("in %s%s", time.Since(p.started).Round(100*time.Millisecond), p.meanText())
	}
	if p.publishing {
		return fmt.Sprintf("publishing, %d sent%s", p.inLangfuse, p.meanText())
	}
	elapsed := time.Since(p.started)
	newlyDone := p.done - p.resumed
	if newlyDone == 0 {
		return p.inFlightText()
	}
	left := time.Duration(float64(elapsed) / float64(newlyDone) * float64(p.total-p.done)).Round(time.Second)
	return fmt.Sprintf("%s, %.1f/s, %s left%s", p.inFlightText(), float64(newlyDone)/elapsed.Seconds(), left, p.meanText())
}

// meanText formats the mean of the primary score with failed items as 0, and beside it the
// mean of the scored items. The summary of a run with trials takes the mean of each item first: that
// of the scored is another number than here, and if items were not run in every trial, so is the first.
func (p *Progress) meanText() string {
	counted := p.scored + p.unscored
	if counted == 0 || p.trials && p.ended && p.done < p.total {
		return ""
	}
	text := ", " + p.primary + " " + report.Score(new(p.scoreSum/float64(counted)), 3)
	if p.unscored > 0 && p.scored > 0 && !p.trials && (p.width == 0 || p.width >= wideScreen) {
		text += fmt.Sprintf(" (%s of %d scored)", report.Score(new(p.scoreSum/float64(p.scored)), 3), p.scored)
	}
	return text + p.sessionNote()
}

// sessionNote marks a number as that of this process alone, if the run was resumed.
func (p *Progress) sessionNote() string {
	if p.resumed > 0 {
		return " this session"
	}
	return ""
}

// minPause is the shortest pause that is shown.
const minPause = 2 * time.Second

// maxReason bounds the text of a failure in a line, in bytes.
const maxReason = 160

// Waiting receives the reason why a request waits to be sent again. If the provider was
// never reached, which may end the run, Waiting shows that at once, also with --quiet. It
// shows a pause that the provider asks for once, and other failures if no item was done for
// a while.
func (p *Progress) Waiting(provider string, w pipeline.Wait) {
	if text := p.stallText(provider, w, time.Now()); text != "" && (!p.quiet || !w.Deadline.IsZero()) {
		fmt.Fprintln(p.out, text)
	}
}

// stallText returns the message why a run makes no progress; "" if the message is old or
// it is too early for one.
func (p *Progress) stallText(provider string, w pipeline.Wait, now time.Time) (text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := now.Sub(p.lastDone)
	reason := textutil.Cut(textutil.Line(w.Reason), maxReason)
	switch {
	case !w.Deadline.IsZero() && w.Deadline.Equal(p.giveUpAt):
		return ""
	case !w.Deadline.IsZero():
		p.giveUpAt = w.Deadline
		text = fmt.Sprintf("waiting for %s until %s: %s", provider, w.Deadline.Format(time.TimeOnly), reason)
	case w.Asked >= minPause:
		if now.Before(p.pausedUntil) && w.Until.Before(p.pausedUntil.Add(lineInterval)) {
			return "" // the same pause, in another call
		}
		p.pausedUntil = w.Until
		text = fmt.Sprintf("paused until %s: %s asks to wait %.0f s", w.Until.Format(time.TimeOnly), provider, w.Asked.Seconds())
	case now.Before(p.pausedUntil), silent < lineInterval, now.Sub(p.lastLine) < lineInterval:
		return ""
	default:
		text = fmt.Sprintf("no progress for %.0f s, asking %s again: %s", silent.Seconds(), provider, reason)
	}
	p.lastLine = now
	return text
}
