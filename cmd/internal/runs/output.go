package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
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
	if opt.Width = env.Columns(); opt.Width == 0 {
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
		line("came", "%d more spans, scores and list entries arrived meanwhile", v.Came)
	}
	if v.Before != nil {
		sent := v.Before.Total() - v.Before.LeftCount
		line("sent again", "%d; repaired: %d; still different: %d", sent, mended(*v.Before, v.Verdict), v.Total())
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
		if v.Before == nil {
			fmt.Fprintf(&b, "experiment verify %s --repair sends it again\n", cli.Quote(v.Run))
		}
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
			fmt.Fprintf(env.Stderr, "waiting for Langfuse: %d more arrived; not there yet: %s\n", v.Came, kinds(v))
		}
	}
}

// Status is a line on a terminal that says how far a command is which takes more than a
// second; elsewhere nothing is written. Its zero value shows nothing. It is not safe for
// concurrent use.
type Status struct {
	env         cli.Env
	began, last time.Time // last: when it was written; zero where it is not there
}

// NewStatus shows nothing yet.
func NewStatus(env cli.Env) *Status { return &Status{env: env} }

// clearLine is what a Status begins its line with.
const clearLine = "\r\x1b[K"

// Say changes the line, five times a second at most.
func (s *Status) Say(format string, args ...any) {
	now := time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	if s.env.Terminal == nil || now.Sub(s.began) < time.Second || now.Sub(s.last) < time.Second/5 {
		return
	}
	if width := s.env.Terminal(); width > 0 {
		s.last = now
		fmt.Fprint(s.env.Stderr, clearLine, textutil.Cut(textutil.Line(fmt.Sprintf(format, args...)), width-2))
	}
}

// End takes the line away.
func (s *Status) End() {
	if !s.last.IsZero() {
		fmt.Fprint(s.env.Stderr, clearLine)
	}
	s.last = time.Time{}
}

// Watched says how much of a run was read, while it is.
func Watched[T any](ctx context.Context, s *Status, run *runstore.Reader, trials int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		defer s.End()
		header, _ := run.Header(ctx) // who reads the run says what is wrong with it
		items, _ := run.CountItems(ctx)
		n, total := 0, items*int64(max(1, cmp.Or(trials, header.Trials)))
		for v, err := range list {
			n++
			s.Say("%s: %s of %s read", header.Name, report.Count(int64(n)), report.Count(total))
			if !yield(v, err) {
				return
			}
		}
	}
}

// MadeName is the name of a run that was given none: it ends in the time.
func MadeName(beginning string) string {
	return beginning + "-" + time.Now().UTC().Format("20060102-150405.000")
}
