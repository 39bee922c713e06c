package runs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
	"extraction-experiment/tracking"
)

// PrintJSON prints a value as one JSON object or list, spread over lines for a
// person at a terminal.
func PrintJSON(env cli.Env, value any) error {
	return cli.Written(report.JSON(env.Stdout, value, isTerminal(os.Stdout)))
}

// Print prints a value as JSON, or as what text makes of it for standard output.
func Print[T any](env cli.Env, asJSON bool, value T, text func(io.Writer, T, report.Options) error) error {
	if asJSON {
		return PrintJSON(env, value)
	}
	return cli.Written(text(env.Stdout, value, TextOptions(env, nil)))
}

// PrintText prints a value as JSON, or the text that says the same.
func PrintText(env cli.Env, asJSON bool, value any, text string) error {
	if asJSON {
		return PrintJSON(env, value)
	}
	_, err := io.WriteString(env.Stdout, text)
	return cli.Written(err)
}

// StepSummary lets write add to the summary of a job of GitHub Actions, where the
// environment names a file for it.
func StepSummary(env cli.Env, write func(io.Writer) error) error {
	path := env.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return cli.Errorf(cli.ExitIO, "writing the step summary: %w", err)
	}
	return cli.Written(errors.Join(write(f), f.Close()))
}

// TextOptions lays a report out for the terminal of standard output: as wide as COLUMNS
// says, else as the terminal is. For a file or pipe tables are whole, and text is as wide as
// is comfortable.
func TextOptions(env cli.Env, where []string) report.Options {
	opt := report.Options{Color: isTerminal(os.Stdout) && env.Getenv("NO_COLOR") == "", Where: where}
	if n, err := strconv.Atoi(env.Getenv("COLUMNS")); err == nil && n > 0 {
		opt.Width = n
	} else if n, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && n > 0 {
		opt.Width = n
	} else {
		opt.Width, opt.Whole = 100, true
	}
	return opt
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// stillEvery is how often a person is told what is not there yet.
const stillEvery = 10 * time.Second

// shownFindings is how many findings the table has; JSON has more.
const shownFindings = 50

// Verification is what verify prints.
type Verification struct {
	OK       bool   `json:"ok"`
	Langfuse string `json:"langfuse"`
	Version  string `json:"version"`
	tracking.Verdict
	// Before is what was found before the repair; nil where there was nothing to
	// repair, or no repair was asked for.
	Before *tracking.Verdict `json:"before_repair,omitempty"`
}

// VerificationText writes a verification for people; in a file or pipe every finding is one line.
// Nothing of what to do is cut.
func VerificationText(w io.Writer, v Verification, opt report.Options) error {
	var b bytes.Buffer
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{label}, args...)...)
	}
	fmt.Fprintf(&b, "%s in Langfuse %s (%s), %s\n", textutil.Line(v.Run), v.Version, v.Mode, v.Langfuse)
	c := v.Checked
	line("in order", "%d of %d items: %d spans, %d scores, %d links to the prompt; %d scores of the run",
		c.Items, v.Outcomes, c.Spans, c.Scores, c.Prompts, c.RunScores)
	for _, view := range []langfuse.View{langfuse.ViewRuns, langfuse.ViewExperiments} {
		if n, ok := c.Shown[view]; ok {
			line("shown", "%s in the list of %s", textutil.Counted(n, "item"), view)
		}
	}
	if v.Came > 0 {
		line("came", "%d spans, scores and places in lists more while looking", v.Came)
	}
	if v.Before != nil {
		sent := v.Before.Total() - v.Before.LeftCount
		line("sent again", "%d; mended: %d; still different: %d", sent, mended(*v.Before, v.Verdict), v.Total())
	}
	if n := v.OthersCount; n > 0 {
		first := v.Others[0]
		line("also there", "%s of these names by other programs, not beside the run's own: left alone (the first: %s on %s, id %s)",
			textutil.Counted(n, "score"), short(first.Score), short(of(first.Item, first.Trial)), textutil.Line(first.ID))
	}
	if n := v.SupersededCount; n > 0 {
		line("superseded", "%s that newer ones replaced; their traces stay, without scores (the first: %s, attempt %d)",
			textutil.Counted(n, "attempt"), textutil.Line(v.Superseded[0].Item), v.Superseded[0].Attempt)
	}
	if v.OK && v.Before != nil {
		line("before", "%s", differences(*v.Before))
		findings(&b, *v.Before, opt)
	}
	switch {
	case v.OK:
		b.WriteString("nothing differs\n")
	case v.OnItsWay:
		fmt.Fprintf(&b, "still on its way: %s; experiment verify %s --timeout TIME waits longer\n", kinds(v.Verdict), cli.Quote(v.Run))
	default:
		fmt.Fprintf(&b, "%s\n", differences(v.Verdict))
		findings(&b, v.Verdict, opt)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// mended counts the findings, by kind, that are no more.
func mended(before, after tracking.Verdict) int {
	n := 0
	for kind, was := range before.Counts {
		n += max(0, was-after.Counts[kind])
	}
	return n
}

// differences counts what was found.
func differences(v tracking.Verdict) string {
	return textutil.Counted(v.Total(), "difference") + ": " + kinds(v)
}

// kinds counts what was found, by kind.
func kinds(v tracking.Verdict) string {
	var counted []string
	for _, kind := range tracking.Kinds() {
		if n := v.Counts[kind]; n > 0 {
			counted = append(counted, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return strings.Join(counted, ", ")
}

// findings lists the first findings, the score before what is to be said of it: in a file
// or pipe each is a row of a table, at a terminal its text is wrapped.
func findings(b *bytes.Buffer, v tracking.Verdict, opt report.Options) {
	listed := v.Findings[:min(len(v.Findings), shownFindings)]
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, f := range listed {
		detail := f.Detail
		if f.Score != "" {
			detail = f.Score + ": " + detail
		}
		detail = textutil.Line(detail)
		if opt.Whole {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Kind, of(f.Item, f.Trial), detail)
			continue
		}
		fmt.Fprintf(b, "  %s  %s\n", f.Kind, short(of(f.Item, f.Trial)))
		for _, line := range report.Wrap(detail, opt.Width-4) {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	_ = table.Flush() // into memory
	if more := v.Total() - len(listed); more > 0 {
		fmt.Fprintf(b, "  and %d more; --json lists up to %d\n", more, len(v.Findings))
	}
}

// of names an item and its trial.
func of(item string, trial int) string {
	text := cmp.Or(textutil.Line(item), "(the run)")
	if trial > 1 {
		text += fmt.Sprintf(" #%d", trial)
	}
	return text
}

// short makes one harmless line of about 100 characters at most.
func short(text string) string { return textutil.Cut(textutil.Line(text), 100) }

// StillMissing says now and then that what is missing is waited for.
func StillMissing(env cli.Env) func(tracking.Verdict) {
	said := time.Now()
	return func(v tracking.Verdict) {
		if !v.OK() && time.Since(said) >= stillEvery {
			said = time.Now()
			fmt.Fprintf(env.Stderr, "waiting for Langfuse: %d more came while looking; not there yet: %s\n", v.Came, kinds(v))
		}
	}
}

// MadeName is the name of a run that was given none: it ends in the time.
func MadeName(beginning string) string {
	return beginning + "-" + time.Now().UTC().Format("20060102-150405.000")
}

// plainEvery is how often a line is printed where there is no terminal.
const plainEvery = 5 * time.Second

// Progress shows on standard error how far a run is: a bar on a terminal,
// a line now and then elsewhere, with --quiet only that the run waits for a
// provider to which there never was a connection.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
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
	p := &Progress{out: env.Stderr, noun: "item", quiet: quiet, primary: primary, log: log, last: now, answered: now}
	if !quiet {
		p.width = env.Terminal()
	}
	return p
}

// NewSending shows the progress of publishing a run that has ended.
func NewSending(out io.Writer) *Progress { return &Progress{out: out} }

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

// Counting sets what is counted in the place of items.
func (p *Progress) Counting(noun string) { p.noun = noun }

// Planned is told how many items there are.
func (p *Progress) Planned(total, done int) {
	p.mu.Lock()
	p.total, p.done, p.earlier, p.began = total, done, done, time.Now()
	p.last, p.answered = p.began, p.began
	p.mu.Unlock()
	if p.width > 0 {
		p.pool = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(min(30, max(10, p.width/4))), mpb.WithAutoRefresh())
		// A bar made with no total is not complete before close says so, and is
		// drawn anew while the results are sent.
		p.bar = p.pool.AddBar(0,
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.counts() })),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.pace() })))
		p.bar.SetTotal(int64(total), false)
		p.bar.SetCurrent(int64(done))
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
	if !again && p.pool == nil && p.done > p.earlier && p.done < p.total { // stopped: the last line is of before that
		p.state()
	}
	p.mu.Unlock()
	if p.pool != nil {
		p.bar.SetTotal(-1, true)
		p.pool.Wait()
	}
}

// state prints how far the run is. Of a run that was taken up again the items
// count from its beginning; failures and the score are of this process alone.
func (p *Progress) state() {
	p.line("%d/%d done, %d failed%s, %s%s", p.done, p.total, p.failed, p.session(), p.inFlight(), p.meanText())
}

func (p *Progress) line(format string, args ...any) {
	if !p.quiet && p.pool == nil {
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// counts and pace are drawn by the bar's own goroutine.
func (p *Progress) counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == 0 {
		return fmt.Sprintf("%d/%d ", p.done, p.total)
	}
	return fmt.Sprintf("%d/%d %d failed%s ", p.done, p.total, p.failed, p.session())
}

func (p *Progress) pace() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return fmt.Sprintf(" in %s%s", time.Since(p.began).Round(100*time.Millisecond), p.meanText())
	}
	if p.sending {
		return fmt.Sprintf(" publishing, %d sent%s", p.inLangfuse, p.meanText())
	}
	elapsed := time.Since(p.began)
	fresh := p.done - p.earlier
	if fresh == 0 {
		return " " + p.inFlight()
	}
	left := time.Duration(float64(elapsed) / float64(fresh) * float64(p.total-p.done)).Round(time.Second)
	return fmt.Sprintf(" %s, %.1f/s, %s left%s", p.inFlight(), float64(fresh)/elapsed.Seconds(), left, p.meanText())
}

// meanText is the mean of the primary score, failed items as 0, with that of the
// others beside it.
func (p *Progress) meanText() string {
	owed := p.scored + p.unscored
	if owed == 0 {
		return ""
	}
	text := ", " + p.primary + " " + report.Score(new(p.sum/float64(owed)), 3)
	if p.unscored > 0 && p.scored > 0 {
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
	text = fmt.Sprintf("nothing more has got to Langfuse for %.0f s", silent.Seconds())
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
		fmt.Fprintf(p.pool, format+"\n", args...)
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
		text = fmt.Sprintf("nothing done for %.0f s, asking %s again: %s", silent.Seconds(), provider, reason)
	}
	p.last = now
	return text
}
