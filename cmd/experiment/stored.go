package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// formats returns the formats of reports in the order of the help.
func formats(env cli.Env) []format {
	return []format{
		{"text", false, func(w io.Writer, all []report.Run) error { return textReports(w, env, all) }},
		{"json", false, jsonReports},
		{"jsonl", true, report.JSONL},
		{"csv", false, report.CSV},
		{"md", false, report.Markdown},
		{"junit", false, report.JUnit},
		{"html", true, func(w io.Writer, all []report.Run) error { return html.Write(w, all, html.Config{}) }},
		{"github", false, func(w io.Writer, all []report.Run) error { return githubReports(w, env, all) }},
	}
}

type format struct {
	name      string
	documents bool // the report shows documents
	write     func(io.Writer, []report.Run) error
}

func reportCommand(env cli.Env) *urfave.Command {
	list := formats(env)
	names := cli.Each(list, func(f format) string { return f.name })
	return &urfave.Command{
		Name:      "report",
		Usage:     "write runs as a web page, or in a format that other tools read",
		UsageText: "experiment report RUN… --format html --output report.html [--ceiling FILE]",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			&urfave.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "write in `FORMAT`: " + strings.Join(names, ", ")},
			&urfave.StringFlag{Name: "ceiling", Usage: "show the agreement of people beside the scores, from the output of experiment agreement --json in `FILE`"},
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write to `FILE`; - is standard output"},
		},
		Action: settings.Words(1, -1, func(c *urfave.Context) error { return reportAction(c, env, list, names) }),
	}
}

func reportAction(c *urfave.Context, env cli.Env, list []format, names []string) (err error) {
	at := slices.Index(names, c.String("format"))
	if at < 0 {
		return cli.Usage("there is no format %q%s; there are: %s", c.String("format"),
			textutil.Hint(c.String("format"), names), strings.Join(names, ", "))
	}
	output := c.String("output")
	if output != "-" {
		if err := runs.CanWrite(output, append(c.Args().Slice(), c.String("ceiling"))...); err != nil {
			return err
		}
	}
	ceiling, err := gold.Ceiling(c)
	if err != nil {
		return err
	}
	if ceiling != nil && !slices.Contains([]string{"text", "json", "md", "html"}, names[at]) {
		return cli.Usage("--ceiling is for text, json, md and html; %s has no room for it", names[at])
	}
	var all []report.Run
	for _, name := range c.Args().Slice() {
		run, openErr := runs.Open(c.Context, name, c.String("dataset"))
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		content, readErr := runs.Whole(c.Context, run, list[at].documents)
		if readErr != nil {
			return readErr
		}
		if readErr := gold.AddCeiling(c.Context, run, ceiling, &content); readErr != nil {
			return readErr
		}
		if output != "-" { // on standard output, progress could mix with the report
			content.Items = runs.Watched(c.Context, runs.NewStatus(env), run, 0, content.Items)
		}
		all = append(all, content)
	}
	write := func(w io.Writer) error { return cli.WriteError(list[at].write(w, all)) }
	if output != "-" {
		return cli.WriteFile(output, write)
	}
	return write(env.Stdout)
}

func textReports(w io.Writer, env cli.Env, all []report.Run) error {
	env.Stdout = w // a file is written as for a pipe, whatever the terminal
	for i, r := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		opt := runs.TextOptions(env, nil)
		opt.Ceiling = r.Ceiling
		if err := report.Text(w, r.Summary, opt); err != nil {
			return err
		}
	}
	return nil
}

// jsonReports writes the summary of one run, or a list of several.
func jsonReports(w io.Writer, all []report.Run) error {
	type summary struct {
		outcome.Summary
		Ceiling *report.Agreement `json:"ceiling,omitempty"`
	}
	list := cli.Each(all, func(r report.Run) summary { return summary{r.Summary, r.Ceiling} })
	if len(list) == 1 {
		return report.JSON(w, list[0], true)
	}
	return report.JSON(w, list, true)
}

// githubReports writes annotations, and the step summary if GitHub Actions names a file for it.
func githubReports(w io.Writer, env cli.Env, all []report.Run) error {
	if err := report.GitHub(w, all); err != nil {
		return err
	}
	return runs.StepSummary(env, func(w io.Writer) error { return report.Markdown(w, all) })
}

func runsCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "runs",
		Usage:     "list the runs of this folder",
		UsageText: "experiment runs [--json]",
		Flags:     []urfave.Flag{settings.JSONFlag()},
		Action:    settings.NoWords(func(c *urfave.Context) error { return runsAction(c, env) }),
	}
}

// runsAction lists the runs, the newest first. It lists all runs that it can read and returns
// errors for the others.
func runsAction(c *urfave.Context, env cli.Env) error {
	found, unreadable, err := runs.Rows(c.Context)
	if err != nil {
		return err
	}
	rows := []report.RunRow{} // a list in JSON, if it is empty too
	for _, file := range found {
		rows = append(rows, file.RunRow)
	}
	return errors.Join(append(unreadable, runs.Print(env, c.Bool("json"), rows, report.Runs))...)
}

func showCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "show",
		Usage:     "show a run, or one item of it with its matches and near misses",
		UsageText: "experiment show RUN [ITEM] [--json]",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			settings.JSONFlag(),
			&urfave.IntFlag{Name: "trial", Value: 1, Usage: "show the item in trial `N`"},
			&urfave.BoolFlag{Name: "full", Usage: "show the whole document"},
		},
		Action: settings.Words(1, 2, func(c *urfave.Context) error { return showAction(c, env) }),
	}
}

func showAction(c *urfave.Context, env cli.Env) (err error) {
	words := c.Args().Slice()
	if len(words) == 1 && (c.IsSet("trial") || c.Bool("full")) {
		return cli.Usage("--trial and --full are about one item: experiment show %s ITEM", cli.Quote(words[0]))
	}
	run, err := runs.Open(c.Context, words[0], c.String("dataset"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if len(words) == 1 {
		return showRun(c, env, run)
	}
	view, err := runs.Item(c.Context, run, words[1], c.Int("trial"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return runs.PrintJSON(env, view)
	}
	header, err := run.Header(c.Context)
	if err != nil {
		return err
	}
	var commands []string // that show other trials
	for trial := 1; trial <= min(10, header.Trials); trial++ {
		if trial != view.Outcome.Trial {
			commands = append(commands, fmt.Sprintf("experiment show --trial %d %s", trial, cli.Arguments(words...)))
		}
	}
	opt := runs.TextOptions(env, commands)
	if c.Bool("full") {
		opt.Document = -1
	}
	return cli.WriteError(report.Item(env.Stdout, view, opt))
}

func showRun(c *urfave.Context, env cli.Env, run *runstore.Reader) error {
	if err := run.Check(c.Context); err != nil {
		return err
	}
	summary, err := runs.Summarise(c.Context, run)
	if err != nil {
		return err
	}
	return runs.Print(env, c.Bool("json"), summary, func(w io.Writer, s outcome.Summary, opt report.Options) error {
		stopped := s.Status == outcome.Interrupted || s.Status == outcome.Unfinished
		if stopped && !run.Imported() { // an export cannot be resumed
			opt.Where = []string{resumeHint(s.Run)}
		}
		return report.Text(w, s, opt)
	})
}

// resumeHint returns the command that resumes a run that was stopped, as far as the run file knows it.
func resumeHint(run outcome.RunInfo) string {
	if run.Harness != harness.Name {
		return "the command that began it, with --resume"
	}
	args := []string{"--dataset", run.Dataset, "--name", run.Name}
	return resumeCommand(args) + ", with the other flags that it began with"
}

func publishCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "publish",
		Usage:     "send to Langfuse what it has not acknowledged of a run",
		UsageText: "experiment publish RUN",
		Flags:     append([]urfave.Flag{settings.DatasetFlag(), settings.ModeFlag()}, settings.LogFlags()...),
		Action:    settings.Words(1, 1, func(c *urfave.Context) error { return publishAction(c, env) }),
	}
}

func publishAction(c *urfave.Context, env cli.Env) error {
	return withRunSession(c, env, 0, func(ctx context.Context, s session, path string) error {
		name, progress := c.Args().First(), runs.NewProgress(env, false, "", s.log)
		counts, err := experiment.Publish(ctx, &s.lf.Langfuse, path, s.log, progress.Observer())
		if _, partial := errors.AsType[*tracking.UnpublishedError](err); partial {
			return advisePublish(err, name)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "%d of %d results were acknowledged by %s; experiment verify %s reads them back\n",
			counts.Published, counts.Done, s.lf.Client.BaseURL(), cli.Arguments(name))
		return cli.WriteError(err)
	})
}

// withRunSession calls work in a session with the path of the run that the command line names. A
// timeout of 0 is none.
func withRunSession(c *urfave.Context, env cli.Env, timeout time.Duration,
	work func(ctx context.Context, s session, path string) error) error {
	path, err := runs.Find(c.Context, c.Args().First(), c.String("dataset"))
	if err != nil {
		return err
	}
	if filepath.Ext(path) != runstore.Extension {
		return cli.Usage("%s is an export, which does not say what was published: name the run, or its file ending in %s",
			path, runstore.Extension)
	}
	cfg := runConfig{quiet: true, langfuseMode: c.String("langfuse-mode"),
		logLevel: c.String("log-level"), logFormat: c.String("log-format")}
	ctx, cancel := experiment.WithVerifyTimeout(c.Context, timeout)
	defer cancel()
	err = withSession(ctx, env, cfg, nil, func(ctx context.Context, s session) error {
		return s.signals.markStop(cli.JoinDistinct(work(ctx, s, path), noteUnfinished(ctx, env, path)))
	})
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cli.Errorf(cli.ExitUnavailable, "%w: %w", context.Cause(ctx), err)
	}
	return err
}

// noteUnfinished prints how much of a run there is to publish and to verify, if it is not complete.
func noteUnfinished(ctx context.Context, env cli.Env, path string) (err error) {
	if ctx.Err() != nil {
		return nil
	}
	run, err := runstore.OpenAny(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return runs.NoteUnfinished(ctx, env, run)
}

func verifyCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "verify",
		Usage:     "read a run back from Langfuse and compare it with the run file",
		UsageText: "experiment verify RUN [--repair] [--json] [--timeout 10m]",
		Description: "It compares traces and spans (whether they exist, the level of failed items, the prompt of generations), whether every item is in the run once, and names and values of scores. " +
			"It does not compare inputs, outputs, metadata, times, tokens and cost of spans, nor comments and metadata of scores.\n\n" +
			"As long as data still arrives, it waits. What is not there when nothing new arrived for a minute, or for half of a shorter --timeout, is reported as missing.\n\n" +
			"Exit codes: 0 nothing differs; 1 something does; 64 no such run, a run that is being written, or another server than the run was published to; 69 Langfuse cannot be reached, or is still processing.",
		Flags: append([]urfave.Flag{
			settings.DatasetFlag(),
			settings.ModeFlag(),
			settings.JSONFlag(),
			&urfave.BoolFlag{Name: "repair", Usage: "send again what is missing or differs, delete duplicate scores, and verify again"},
			&urfave.DurationFlag{Name: "timeout", Usage: "stop after `TIME`, repair included; 0s looks once, which is the default with the embedded Langfuse", DefaultText: "10m"},
		}, settings.LogFlags()...),
		Action: settings.Words(1, 1, func(c *urfave.Context) error { return verifyAction(c, env) }),
	}
}

func verifyAction(c *urfave.Context, env cli.Env) error {
	timeout := c.Duration("timeout")
	if timeout < 0 {
		return cli.Usage("--timeout: %s is not a time to wait", timeout)
	}
	return withRunSession(c, env, timeout, func(ctx context.Context, s session, path string) (err error) {
		status := runs.NewStatus(env)
		cfg := experiment.VerifyConfig{Repair: c.Bool("repair"), OnVerification: runs.StillMissing(env), Log: s.log}
		cfg.OnCompared = func(items int) { status.Say("%s compared", report.Count(int64(items))) }
		if c.IsSet("timeout") {
			cfg.Timeout = &timeout
		}
		verification := runs.Verification{Langfuse: s.lf.Client.BaseURL(), Version: s.lf.Server.Version.String()}
		verification.Verification, verification.Before, err = experiment.Verify(ctx, &s.lf.Langfuse, path, cfg)
		status.End()
		verification.OK = verification.Verification.OK()
		if _, partial := errors.AsType[*tracking.UnpublishedError](err); err != nil && !partial {
			return err
		}
		printErr := runs.Print(env, c.Bool("json"), verification, runs.VerificationText)
		return errors.Join(advisePublish(err, c.Args().First()), printErr, verification.Err())
	})
}

func exportCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "export",
		Usage:     "write a run as plain JSONL: header, items, outcomes, footer",
		UsageText: "experiment export RUN [--output FILE]",
		Description: "Of a damaged run, everything that can still be read is written; what is missing is named, and the\n" +
			"exit code is 74.",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write to `FILE`; - is standard output"},
		},
		Action: settings.Words(1, 1, func(c *urfave.Context) (err error) {
			path, err := runs.Find(c.Context, c.Args().First(), c.String("dataset"))
			if err != nil {
				return err
			}
			run, err := runstore.Salvage(c.Context, path)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, run.Close()) }()
			return exportTo(c.Context, env, run, c.String("output"))
		}),
	}
}

// exportTo writes the run as JSONL to path; "-" is standard output.
func exportTo(ctx context.Context, env cli.Env, run *runstore.Reader, path string) error {
	if path == "-" {
		return cli.WriteError(run.Export(ctx, env.Stdout))
	}
	if err := runs.CanExport(path, run.Path()); err != nil {
		return err
	}
	var loss *runstore.Loss // the readable part of a damaged run is written too
	err := cli.WriteFile(path, func(w io.Writer) error {
		err := run.Export(ctx, w)
		if errors.As(err, &loss) {
			return nil
		}
		return err
	})
	if err == nil && loss != nil {
		return loss
	}
	return err
}
