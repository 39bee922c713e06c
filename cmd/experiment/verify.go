package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// How patient a verification is with what Langfuse has accepted and does not show
// yet, and how often it says so.
const (
	patience   = time.Minute      // nothing more has come for so long
	verifyTime = 10 * time.Minute // in all, what comes included
	stillEvery = 10 * time.Second
)

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
		OnUsageError: flags.UsageError,
		Flags: append([]urfave.Flag{
			datasetFlag(),
			modeFlag(),
			jsonFlag(),
			&urfave.BoolFlag{Name: "repair", Usage: "send again what is missing or different, delete copies of the run's scores, and verify again", DisableDefaultText: true},
			&urfave.DurationFlag{Name: "timeout", Usage: "end after this `TIME`, the repair included; 0s looks once, and so does the embedded Langfuse unless told otherwise, as it stores before it answers", DefaultText: "10m"},
		}, logFlags()...),
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
	log, err := flaggedLog(c, env)
	if err != nil {
		return err
	}
	getenv, err := flaggedMode(c, env.Getenv)
	if err != nil {
		return err
	}
	path, err := findRun(c.Context, named, c.String("dataset"))
	if err != nil {
		return err
	}
	if filepath.Ext(path) != runstore.Extension {
		return cli.Usage("%s is an export, which does not say what was published: name the run, or its file ending in %s", path, runstore.Extension)
	}
	ctx, signals := watchSignals(c.Context, env.Stderr)
	defer signals.stop()
	defer func() { err = signals.cutShort(err) }()
	ctx, cancel := limited(ctx, c.Duration("timeout"))
	defer cancel()
	lf, err := connect.Open(ctx, getenv)
	if err != nil {
		return timeIsUp(ctx, err)
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	wait, all := waitFor(lf, c.Duration("timeout"), c.IsSet("timeout"))
	ctx, cancelAll := limited(ctx, all)
	defer cancelAll()
	checked, err := verifyRun(ctx, lf, path, wait, still(env), c.Bool("repair"), log)
	var unsent *tracking.UnpublishedError
	if err != nil && !errors.As(err, &unsent) {
		return err
	}
	err = sendLater(err, named)
	if c.Bool("json") {
		err = errors.Join(err, printJSON(env, checked))
	} else {
		err = errors.Join(err, cli.Written(checked.write(env.Stdout, tableWidth(env))))
	}
	return errors.Join(err, checked.Err())
}

// waitFor says how patient to be, and for how long in all where no time was given;
// 0 is without end. The embedded server stores before it answers: what it does not
// show will not come.
func waitFor(lf *connect.Langfuse, timeout time.Duration, given bool) (wait langfuse.Wait, all time.Duration) {
	switch {
	case !given && lf.Embedded, given && timeout == 0:
		return langfuse.Wait{Timeout: -1}, 0
	case given:
		return langfuse.Wait{Timeout: patience}, 0
	}
	return langfuse.Wait{Timeout: patience}, verifyTime
}

// timeIsUp says why an error came that is only that of a context.
func timeIsUp(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return cli.Errorf(cli.ExitUnavailable, "%w: %w", context.Cause(ctx), err)
}

// limited is a context that ends after a time; 0 is none.
func limited(ctx context.Context, all time.Duration) (context.Context, context.CancelFunc) {
	if all == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, all, fmt.Errorf("the time to verify, %s, is over (--timeout)", all))
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

// verifyRun verifies the run of a file, and mends it if asked to. Only then is
// it opened for writing.
func verifyRun(ctx context.Context, lf *connect.Langfuse, path string, wait langfuse.Wait, looked func(tracking.Verdict), repair bool, log *slog.Logger) (v verification, err error) {
	var run *runstore.Run
	var reader *runstore.Reader
	if repair {
		if run, err = runstore.Open(path); err != nil {
			return v, err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		reader = run.Reader
	} else {
		if err := runstore.Writing(path); err != nil {
			return v, err
		}
		if reader, err = runstore.Load(path); err != nil {
			return v, err
		}
		defer func() { err = errors.Join(err, reader.Close()) }()
	}
	if err := sameProject(ctx, reader, lf); err != nil {
		return v, err
	}
	cfg := tracking.VerifyConfig{Client: lf.Client, Server: lf.Server, Run: reader, Place: placeOf(lf), Wait: wait, Looked: looked}
	v = verification{Langfuse: lf.Client.BaseURL(), Version: lf.Server.Version.String()}
	if !repair {
		v.Verdict, err = tracking.Verify(ctx, cfg)
		v.OK = v.Verdict.OK()
		return v, err
	}
	before, after, err := tracking.Repair(ctx, cfg, publishing(lf, run, log))
	v.Verdict, v.OK = after, after.OK()
	if !before.OK() && !before.OnItsWay { // else nothing was sent
		v.Before = &before
	}
	return v, err
}

// placeOf names the server for the run file.
func placeOf(lf *connect.Langfuse) string {
	if lf.Embedded {
		return tracking.Embedded
	}
	return lf.Client.BaseURL()
}

// publishing says how a run is published.
func publishing(lf *connect.Langfuse, run *runstore.Run, log *slog.Logger) tracking.Config {
	return tracking.Config{
		Client: lf.Client, Server: lf.Server, Place: placeOf(lf), Pages: !lf.Embedded, Run: run, Log: log,
		Runner: langfuse.Scope{Name: "extraction-experiment", Version: build.Version()},
	}
}

// verify verifies the run that was just made, if that was asked for and
// everything is in Langfuse. It says on standard error what it found.
func (j *job) verify(ctx context.Context, env cli.Env, ran, published error) error {
	if !j.cfg.verify || ran != nil || published != nil {
		return nil
	}
	wait, all := waitFor(j.lf, 0, false)
	within, cancel := limited(ctx, all)
	defer cancel()
	cfg := tracking.VerifyConfig{Client: j.lf.Client, Server: j.lf.Server, Run: j.run.Reader, Place: placeOf(j.lf), Wait: wait}
	if !j.cfg.quiet {
		cfg.Looked = still(env)
	}
	verdict, err := tracking.Verify(within, cfg)
	if err != nil {
		return fmt.Errorf("verifying the run: %w", err)
	}
	v := verification{Langfuse: j.lf.Client.BaseURL(), Version: j.lf.Server.Version.String(), OK: verdict.OK(), Verdict: verdict}
	if j.cfg.quiet && v.OK {
		return nil
	}
	return errors.Join(cli.Written(v.write(env.Stderr, env.Terminal())), v.Err())
}
