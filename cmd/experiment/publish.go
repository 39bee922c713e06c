package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	urfave "github.com/urfave/cli/v2"

	benches "extraction-experiment/bench"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func publishCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "publish",
		Usage:     "send to Langfuse what a run holds and Langfuse has not acknowledged",
		UsageText: "experiment publish RUN",
		Flags:     append([]urfave.Flag{settings.DatasetFlag(), settings.ModeFlag()}, settings.LogFlags()...),
		Action:    func(c *urfave.Context) error { return publishAction(c, env) },
	}
}

func publishAction(c *urfave.Context, env cli.Env) error {
	return withSent(c, env, 0, func(ctx context.Context, s sent) error {
		view := runs.NewSending(env.Stderr)
		counts, err := experiment.Publish(ctx, &s.lf.Langfuse, s.path, s.log, experiment.Observer{
			Sending:   func() { view.WatchSending(s.named, s.lf.Paused) },
			Published: view.Published, Withdrawing: view.Withdrawing, Ended: view.Close,
		})
		if _, left := errors.AsType[*tracking.UnpublishedError](err); left {
			return sendLater(err, s.named)
		}
		if err != nil {
			return notPublished(err)
		}
		_, err = fmt.Fprintf(env.Stdout, "%d of %d results were acknowledged by %s; experiment verify %s reads them back\n",
			counts.Published, counts.Done, s.lf.Client.BaseURL(), cli.Quote(s.named))
		return cli.Written(err)
	})
}

// sent is a run that is published or read back: its name, its file and its Langfuse.
type sent struct {
	named, path string
	lf          *settings.Langfuse
	log         *slog.Logger
}

// withSent has something done with the run that a command names, within the timeout; 0 is
// none.
func withSent(c *urfave.Context, env cli.Env, timeout time.Duration, do func(context.Context, sent) error) (err error) {
	named, err := oneRun(c)
	if err != nil {
		return err
	}
	log, err := settings.NewLog(env.Stderr, c.String("log-level"), c.String("log-format"))
	if err != nil {
		return err
	}
	getenv, err := settings.FlagMode(c, env.Getenv)
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
	ctx, signals := watchSignals(c.Context, env.Stderr, leftForResume)
	defer signals.stop()
	defer func() { err = signals.cutShort(err) }()
	ctx, cancel := experiment.Within(ctx, timeout)
	defer cancel()
	lf, err := settings.Connect(ctx, getenv)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cli.Errorf(cli.ExitUnavailable, "%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, sent{named, path, lf, log}), lf.Close())
}

// notPublished says of a run that is in no Langfuse what can be done with it.
func notPublished(err error) error {
	if of, ok := errors.AsType[*experiment.UnpublishableError](err); ok && of.Harness == benches.Name {
		return cli.Usage("%w: experiment bench score %s judges it", err, cli.Quote(of.Name))
	}
	return err
}

func verifyCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "verify",
		Usage:     "read a run back from Langfuse and compare it with the run file",
		UsageText: "experiment verify RUN [--repair] [--json] [--timeout 10m]",
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

func verifyAction(c *urfave.Context, env cli.Env) error {
	timeout := c.Duration("timeout")
	if timeout < 0 {
		return cli.Usage("--timeout: %s is no time to wait", timeout)
	}
	return withSent(c, env, timeout, func(ctx context.Context, s sent) (err error) {
		cfg := experiment.VerifyConfig{Repair: c.Bool("repair"), Looked: runs.StillMissing(env), Log: s.log}
		if c.IsSet("timeout") {
			cfg.Timeout = &timeout
		}
		checked := runs.Verification{Langfuse: s.lf.Client.BaseURL(), Version: s.lf.Server.Version.String()}
		checked.Verdict, checked.Before, err = experiment.Verify(ctx, &s.lf.Langfuse, s.path, cfg)
		checked.OK = checked.Verdict.OK()
		if _, unsent := errors.AsType[*tracking.UnpublishedError](err); err != nil && !unsent {
			return notPublished(err)
		}
		shown := runs.Print(env, c.Bool("json"), checked, runs.VerificationText)
		return errors.Join(sendLater(err, s.named), shown, checked.Err())
	})
}

func exportCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "export",
		Usage:     "write a run as plain JSONL: header, items, outcomes, footer",
		UsageText: "experiment export RUN [--output FILE]",
		Description: "Of a damaged run everything is written that can still be read; what is missing is named, and the\n" +
			"exit code is 74.",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "`FILE` to write; - is standard output"},
		},
		Action: func(c *urfave.Context) (err error) {
			named, err := oneRun(c)
			if err != nil {
				return err
			}
			path, err := runs.Find(c.Context, named, c.String("dataset"))
			if err != nil {
				return err
			}
			run, err := runstore.Salvage(c.Context, path)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, run.Close()) }()
			return exportTo(c.Context, env, run, c.String("output"))
		},
	}
}

// exportTo writes the run as JSONL; "-" is standard output.
func exportTo(ctx context.Context, env cli.Env, run *runstore.Reader, path string) error {
	if path == "-" {
		return cli.Written(run.Export(ctx, env.Stdout))
	}
	if cli.SameFile(path, run.Path()) {
		return cli.Usage("%s is the run itself: name another file", path)
	}
	var loss *runstore.Loss // what can be read of a damaged run is a file too
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
