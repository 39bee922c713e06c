package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// stillEvery is how often a person is told what is not there yet.
const stillEvery = 10 * time.Second

func verifyCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "verify",
		Usage:     "read a run back from Langfuse and compare it with the run file",
		UsageText: "experiment verify RUN [--repair] [--json] [--timeout 10m]",
		ArgsUsage: "RUN",
		Description: "Compared are traces and spans (that they are there, the level of failed items, the prompt of generations), the place of every item in the run, and names and values of scores. " +
			"Not compared are inputs, outputs, metadata, tokens and cost of spans, nor comments of scores.\n\n" +
			"As long as more comes, it is waited for: what has not come when nothing came for a minute (with --timeout, in the second half of its time) is missing.\n\n" +
			"Exit code 0: nothing differs, 1: something does, 64: no such run, one that is being written, or another server than the run was published to, 69: Langfuse cannot be reached, or is still at work.",
		Flags: append([]urfave.Flag{
			settings.DatasetFlag(),
			settings.ModeFlag(),
			settings.JSONFlag(),
			&urfave.BoolFlag{Name: "repair", Usage: "send again what is missing or different, delete copies of the run's scores, and verify again", DisableDefaultText: true},
			&urfave.DurationFlag{Name: "timeout", Usage: "end after this `TIME`, the repair included; 0s looks once, and so does the embedded Langfuse unless told otherwise, as it stores before it answers", DefaultText: "10m"},
		}, settings.LogFlags()...),
		Action: func(c *urfave.Context) error { return verifyAction(c, env) },
	}
}

func verifyAction(c *urfave.Context, env cli.Env) (err error) {
	named, err := oneRun(c)
	if err != nil {
		return err
	}
	if c.Duration("timeout") < 0 {
		return cli.Usage("--timeout: %s is no time to wait", c.Duration("timeout"))
	}
	log, err := settings.NewLog(env.Stderr, c.String("log-level"), c.String("log-format"))
	if err != nil {
		return err
	}
	getenv, err := settings.InMode(c, env.Getenv)
	if err != nil {
		return err
	}
	path, err := runs.Find(c.Context, named, c.String("dataset"))
	if err != nil {
		return err
	}
	if filepath.Ext(path) != runstore.Extension {
		return cli.Usage("%s is an export, which does not say what was published: name the run, or its file ending in %s", path, runstore.Extension)
	}
	ctx, signals := watchSignals(c.Context, env.Stderr)
	defer signals.stop()
	defer func() { err = signals.cutShort(err) }()
	cfg := experiment.VerifyConfig{Repair: c.Bool("repair"), Looked: still(env), Log: log}
	if c.IsSet("timeout") {
		timeout := c.Duration("timeout")
		cfg.Timeout = &timeout
	}
	ctx, cancel := experiment.Within(ctx, c.Duration("timeout"))
	defer cancel()
	lf, err := connect.Open(ctx, getenv)
	if err != nil {
		return timeIsUp(ctx, err)
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	checked := verification{Langfuse: lf.Client.BaseURL(), Version: lf.Server.Version.String()}
	checked.Verdict, checked.Before, err = experiment.Verify(ctx, &lf.Langfuse, path, cfg)
	checked.OK = checked.Verdict.OK()
	var unsent *tracking.UnpublishedError
	if err != nil && !errors.As(err, &unsent) {
		return notPublished(err)
	}
	err = sendLater(err, named)
	if c.Bool("json") {
		err = errors.Join(err, output.JSON(env, checked))
	} else {
		err = errors.Join(err, cli.Written(checked.write(env.Stdout, output.Width(env))))
	}
	return errors.Join(err, checked.Err())
}

// timeIsUp says why an error came that is only that of a context.
func timeIsUp(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return cli.Errorf(cli.ExitUnavailable, "%w: %w", context.Cause(ctx), err)
}

// still says now and then that what is missing is waited for.
func still(env cli.Env) func(tracking.Verdict) {
	said := time.Now()
	return func(v tracking.Verdict) {
		if !v.OK() && time.Since(said) >= stillEvery {
			said = time.Now()
			fmt.Fprintf(env.Stderr, "waiting for Langfuse: %d more came while looking; not there yet: %s\n", v.Came, kinds(v))
		}
	}
}

// shownFindings is how many findings the table has; JSON has more.
const shownFindings = 50

// verification is what verify prints.
type verification struct {
	OK       bool   `json:"ok"`
	Langfuse string `json:"langfuse"`
	Version  string `json:"version"`
	tracking.Verdict
	// Before is what was found before the repair; nil where there was nothing to
	// repair, or no repair was asked for.
	Before *tracking.Verdict `json:"before_repair,omitempty"`
}

// write writes the verification for people, for a terminal of that width; 0 is a
// file or pipe, where every finding is one line. Nothing of what to do is cut.
func (v verification) write(w io.Writer, width int) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s in Langfuse %s (%s), %s\n", printable.Line(v.Run), v.Version, v.Mode, v.Langfuse)
	c := v.Checked
	fmt.Fprintf(&b, "in order    %d of %d items: %d spans, %d scores, %d links to the prompt; %d scores of the run\n",
		c.Items, v.Outcomes, c.Spans, c.Scores, c.Prompts, c.RunScores)
	for _, view := range []langfuse.View{langfuse.ViewRuns, langfuse.ViewExperiments} {
		if n, ok := c.Shown[view]; ok {
			fmt.Fprintf(&b, "shown       %s in the list of %s\n", printable.Counted(n, "item"), view)
		}
	}
	if v.Came > 0 {
		fmt.Fprintf(&b, "came        %d spans, scores and places in lists more while looking\n", v.Came)
	}
	if v.Before != nil {
		sent := v.Before.Total() - v.Before.LeftCount
		fmt.Fprintf(&b, "sent again  %d; mended: %d; still different: %d\n", sent, mended(*v.Before, v.Verdict), v.Total())
	}
	if n := v.OthersCount; n > 0 {
		first := v.Others[0]
		fmt.Fprintf(&b, "also there  %s of these names by other programs, not beside the run's own: left alone (the first: %s on %s, id %s)\n",
			printable.Counted(n, "score"), short(first.Score), short(of(first.Item, first.Trial)), printable.Line(first.ID))
	}
	if n := v.SupersededCount; n > 0 {
		fmt.Fprintf(&b, "superseded  %s that newer ones replaced; their traces stay, without scores (the first: %s, attempt %d)\n",
			printable.Counted(n, "attempt"), printable.Line(v.Superseded[0].Item), v.Superseded[0].Attempt)
	}
	switch {
	case v.OK && v.Before != nil:
		fmt.Fprintf(&b, "before      %s\n", differences(*v.Before))
		findings(&b, *v.Before, width)
		b.WriteString("nothing differs\n")
	case v.OK:
		b.WriteString("nothing differs\n")
	case v.OnItsWay:
		fmt.Fprintf(&b, "still on its way: %s; experiment verify %s --timeout TIME waits longer\n", kinds(v.Verdict), cli.Quote(v.Run))
	default:
		fmt.Fprintf(&b, "%s\n", differences(v.Verdict))
		findings(&b, v.Verdict, width)
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
	return printable.Counted(v.Total(), "difference") + ": " + kinds(v)
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

// findings lists the first findings, as a table where that fits the width, else in
// lines of that width.
func findings(b *bytes.Buffer, v tracking.Verdict, width int) {
	listed := v.Findings[:min(len(v.Findings), shownFindings)]
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, f := range listed {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Kind, of(f.Item, f.Trial), detail(f))
	}
	_ = t.Flush() // into memory
	if width == 0 || widest(table.String()) <= width {
		b.Write(table.Bytes())
	} else {
		for _, f := range listed {
			fmt.Fprintf(b, "  %s  %s\n", f.Kind, short(of(f.Item, f.Trial)))
			for _, line := range report.Wrap(detail(f), width-4) {
				fmt.Fprintf(b, "    %s\n", line)
			}
		}
	}
	if more := v.Total() - len(listed); more > 0 {
		fmt.Fprintf(b, "  and %d more; --json lists up to %d\n", more, len(v.Findings))
	}
}

// detail is what is to be said of a finding, in one line, the score first.
func detail(f tracking.Finding) string {
	if f.Score == "" {
		return printable.Line(f.Detail)
	}
	return printable.Line(f.Score + ": " + f.Detail)
}

// widest counts the characters of the longest line.
func widest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		most = max(most, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return most
}

// of names an item and its trial.
func of(item string, trial int) string {
	text := printable.Line(item)
	if item == "" {
		text = "(the run)"
	}
	if trial > 1 {
		text += fmt.Sprintf(" #%d", trial)
	}
	return text
}

// short makes one harmless line of at most 100 characters.
func short(text string) string {
	text = printable.Line(text)
	if runes := []rune(text); len(runes) > 100 {
		return string(runes[:99]) + "…"
	}
	return text
}
