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
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// PrintJSON prints a value as one JSON object or list, indented if standard output is a
// terminal.
func PrintJSON(env cli.Env, value any) error {
	return cli.WriteError(report.JSON(env.Stdout, value, isTerminal(env.Stdout)))
}

// Print prints a value as JSON, or lets text write it to standard output.
func Print[T any](env cli.Env, asJSON bool, value T, text func(io.Writer, T, report.Options) error) error {
	if asJSON {
		return PrintJSON(env, value)
	}
	return cli.WriteError(text(env.Stdout, value, TextOptions(env, nil)))
}

// PrintText prints a value as JSON, or the text that describes it.
func PrintText(env cli.Env, asJSON bool, value any, text string) error {
	if asJSON {
		return PrintJSON(env, value)
	}
	_, err := io.WriteString(env.Stdout, text)
	return cli.WriteError(err)
}

// StepSummary lets write append to the summary of a job of GitHub Actions. It does nothing
// if the environment names no file for it.
func StepSummary(env cli.Env, write func(io.Writer) error) error {
	path := env.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	if content := contentOf(path); content == runContent || content == exportContent {
		return cli.Usage("the step summary %s is %s", path, content)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return cli.Errorf(cli.ExitIO, "writing the step summary: %w", err)
	}
	return cli.WriteError(errors.Join(write(f), f.Close()))
}

// The contents that an output must not replace.
const (
	runContent    = "a run file or another database"
	exportContent = "the export of a run"
	otherContent  = "a file that is not the export of a run"
	hiddenContent = "a file that cannot be read"
)

// CanWrite checks, before anything is written, that path can be a file, and that the output
// replaces neither a run or an export of one, nor a file that is read: read has all settings and
// arguments that may name one, the model (recorded/FILE) too. An empty path is no output. Errors have
// exit code 64.
func CanWrite(path string, read ...string) error {
	return canReplace(path, read, hiddenContent, runContent, exportContent)
}

// CanWriteFile is CanWrite for a flag that takes no - for standard output, which has the report.
func CanWriteFile(flag, path string, read ...string) error {
	if path == "-" {
		return cli.Usage("%s takes a file: standard output has the report", flag)
	}
	return CanWrite(path, read...)
}

// CanExport is CanWrite for the export of a run, which replaces earlier exports only.
func CanExport(path string, read ...string) error {
	return canReplace(path, read, hiddenContent, runContent, otherContent)
}

// CheckOutputs refuses two outputs that are one file; all may be written to one device. An empty path is
// no output. The error has exit code 64.
func CheckOutputs(paths ...string) error {
	for i, path := range paths {
		absolute, _ := filepath.Abs(path)
		_, missing := os.Stat(path)
		for _, other := range paths[:i] {
			otherAbsolute, _ := filepath.Abs(other)
			if cli.SameFile(path, other) || path != "" && missing != nil && absolute == otherAbsolute {
				return cli.Usage("two outputs name one file: %s and %s", path, other)
			}
		}
	}
	return nil
}

func canReplace(path string, read []string, refused ...string) error {
	err, content := cli.CanWrite(path), contentOf(path)
	switch {
	case err != nil:
		return err
	case slices.Contains(refused, content):
		return cli.Usage("writing %s would replace %s: name another file", path, content)
	case slices.ContainsFunc(read, func(name string) bool {
		return cli.SameFile(path, strings.TrimPrefix(name, provider.Recorded+"/"))
	}):
		return cli.Usage("writing %s would replace a file that is read: name another file", path)
	}
	return nil
}

// contentOf returns the content of a file by how it begins; "" if it is empty, a device or a pipe.
// This process must not have the file open as a database, which would lose its locks.
func contentOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return hiddenContent
	}
	defer f.Close() // a file that was only read
	begins := make([]byte, 16)
	n, _ := io.ReadFull(f, begins)
	switch text := string(begins[:n]); {
	case text == "":
		return ""
	case text == "SQLite format 3\x00", strings.HasPrefix(text, "7\x7f\x06"): // a database, its log
		return runContent
	case strings.HasPrefix(text, `{"kind":"`):
		return exportContent
	}
	return otherContent
}

// TextOptions returns the layout of a report for standard output. The width is COLUMNS or
// that of the terminal. In a file or pipe, tables are not cut and text has 100 columns.
func TextOptions(env cli.Env, where []string) report.Options {
	opt := report.Options{Where: where,
		Color: isTerminal(env.Stdout) && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"}
	if opt.Width = env.Columns(); opt.Width == 0 {
		opt.Width, opt.Whole = 100, true
	}
	return opt
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// missingInterval is the time between two lines of StillMissing.
const missingInterval = 10 * time.Second

// maxFindings bounds the findings in the table; JSON has more.
const maxFindings = 50

// Verification is the result that verify prints.
type Verification struct {
	OK       bool   `json:"ok"`
	Langfuse string `json:"langfuse"`
	Version  string `json:"version"`
	tracking.Verification
	// Before is the result before the repair; nil if there was no repair.
	Before *tracking.Verification `json:"before_repair,omitempty"`
}

// VerificationText writes a verification as text. In a file or pipe every finding is one
// line. The text of findings is never cut.
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
	if v.Appeared > 0 {
		line("came", "%d more spans, scores and list entries arrived meanwhile", v.Appeared)
	}
	if v.Before != nil {
		sent, repaired := v.Before.Total()-v.Before.NeedsDecisionCount, 0
		for kind, count := range v.Before.Counts {
			repaired += max(0, count-v.Counts[kind])
		}
		line("sent again", "%d; repaired: %d; still different: %d", sent, repaired, v.Total())
	}
	if n := v.OthersCount; n > 0 {
		first := v.Others[0]
		line("also there", "%s of these names by other programs, not beside the run's own: left alone (the first: %s on %s, id %s)",
			textutil.Counted(n, "score"), shortLine(first.Score), shortLine(itemName(first.Item, first.Trial)), textutil.Line(first.ID))
	}
	if n := v.SupersededCount; n > 0 {
		line("superseded", "%s that newer ones replaced; their traces stay, without scores (the first: %s, attempt %d)",
			textutil.Counted(n, "attempt"), textutil.Line(v.Superseded[0].Item), v.Superseded[0].Attempt)
	}
	if v.OK && v.Before != nil {
		line("before", "%s", countDifferences(*v.Before))
		writeFindings(&b, *v.Before, opt)
	}
	switch {
	case v.OK:
		b.WriteString("nothing differs\n")
	case v.Pending:
		fmt.Fprintf(&b, "still on its way: %s; experiment verify %s --timeout TIME waits longer\n",
			countKinds(v.Verification), cli.Quote(v.Run))
	default:
		fmt.Fprintf(&b, "%s\n", countDifferences(v.Verification))
		writeFindings(&b, v.Verification, opt)
		switch {
		case v.RepairRefused != "":
			fmt.Fprintf(&b, "--repair cannot mend that: %s\n", textutil.Line(v.RepairRefused))
		case v.Before == nil && v.Repairable() > 0:
			fmt.Fprintf(&b, "experiment verify %s --repair sends it again\n", cli.Quote(v.Run))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// countDifferences formats the number of differences, in all and by kind.
func countDifferences(v tracking.Verification) string {
	return textutil.Counted(v.Total(), "difference") + ": " + countKinds(v)
}

// countKinds formats the numbers of findings by kind.
func countKinds(v tracking.Verification) string {
	var counted []string
	for _, kind := range tracking.Kinds() {
		if n := v.Counts[kind]; n > 0 {
			counted = append(counted, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return strings.Join(counted, ", ")
}

// writeFindings writes the first findings, each with its score before its detail: in a file
// or pipe as the rows of a table, at a terminal as wrapped text.
func writeFindings(b *bytes.Buffer, v tracking.Verification, opt report.Options) {
	listed := v.Findings[:min(len(v.Findings), maxFindings)]
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, f := range listed {
		detail := f.Detail
		if f.Score != "" {
			detail = f.Score + ": " + detail
		}
		detail = textutil.Line(detail)
		if opt.Whole {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Kind, itemName(f.Item, f.Trial), detail)
			continue
		}
		fmt.Fprintf(b, "  %s  %s\n", f.Kind, shortLine(itemName(f.Item, f.Trial)))
		for _, line := range report.Wrap(detail, opt.Width-4) {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	_ = table.Flush() // writing to memory cannot fail
	if more := v.Total() - len(listed); more > 0 {
		fmt.Fprintf(b, "  and %d more; --json lists up to %d\n", more, len(v.Findings))
	}
}

// itemName names an item and its trial.
func itemName(item string, trial int) string {
	text := cmp.Or(textutil.Line(item), "(the run)")
	if trial > 1 {
		text += fmt.Sprintf(" #%d", trial)
	}
	return text
}

// shortLine returns text as one escaped line of about 100 characters at most.
func shortLine(text string) string { return textutil.Cut(textutil.Line(text), 100) }

// StillMissing returns a function that prints on standard error what Langfuse still has to
// show, at most once in missingInterval.
func StillMissing(env cli.Env) func(tracking.Verification) {
	lastPrinted := time.Now()
	return func(v tracking.Verification) {
		if !v.OK() && time.Since(lastPrinted) >= missingInterval {
			lastPrinted = time.Now()
			fmt.Fprintf(env.Stderr, "waiting for Langfuse: %d more arrived; not there yet: %s\n", v.Appeared, countKinds(v))
		}
	}
}

// Status shows the progress of a command that takes more than a second: on a terminal in a line that
// changes, elsewhere in a line every five seconds. The zero value shows nothing. It is not safe for
// concurrent use.
type Status struct {
	env              cli.Env
	started, written time.Time
	drawn            bool // there is a line on the terminal
}

// NewStatus returns a Status on the standard error of env, which shows nothing yet.
func NewStatus(env cli.Env) *Status { return &Status{env: env} }

// clearLine clears the line of the cursor.
const clearLine = "\r\x1b[K"

// Say changes the line on a terminal, at most five times a second, or prints it.
func (s *Status) Say(format string, args ...any) {
	now := time.Now()
	if s.started.IsZero() {
		s.started = now
	}
	if s.env.Terminal == nil || now.Sub(s.started) < time.Second || now.Sub(s.written) < time.Second/5 {
		return
	}
	text := textutil.Line(fmt.Sprintf(format, args...))
	if width := s.env.Terminal(); width > 0 {
		s.written, s.drawn = now, true
		fmt.Fprint(s.env.Stderr, clearLine, textutil.Cut(text, width-2))
	} else if now.Sub(s.started) >= lineInterval && now.Sub(s.written) >= lineInterval {
		s.written = now
		fmt.Fprintln(s.env.Stderr, text)
	}
}

// End clears the line on a terminal. It is safe to repeat.
func (s *Status) End() {
	if s.drawn {
		fmt.Fprint(s.env.Stderr, clearLine)
	}
	s.drawn = false
}

// Watched returns list with the progress of reading it in s: how many of the run's outcomes
// were read. trials is 0 for all trials of the run.
func Watched[T any](ctx context.Context, s *Status, run *runstore.Reader, trials int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		defer s.End()
		header, _ := run.Header(ctx) // list reports errors of the run
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

// GeneratedName returns a name for a run without one: beginning and the current time.
func GeneratedName(beginning string) string {
	return beginning + "-" + time.Now().UTC().Format("20060102-150405.000")
}
