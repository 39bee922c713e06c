package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func publishCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:         "publish",
		Usage:        "send to Langfuse what a run holds and Langfuse has not acknowledged",
		UsageText:    "experiment publish RUN",
		ArgsUsage:    "RUN",
		OnUsageError: flags.UsageError,
		Flags:        append([]urfave.Flag{datasetFlag(), modeFlag()}, logFlags()...),
		Action:       func(c *urfave.Context) error { return publishAction(c, env) },
	}
}

func publishAction(c *urfave.Context, env cli.Env) (err error) {
	named, err := oneRun(c)
	if err != nil {
		return err
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
	ctx, signals := watchSignals(c.Context, env.Stderr)
	defer signals.stop()
	defer func() { err = signals.cutShort(err) }()
	lf, err := connect.Open(ctx, getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	run, err := runstore.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := sameProject(ctx, run.Reader, lf); err != nil {
		return err
	}
	err = publishRest(ctx, env, lf, run, named, log)
	if left := (*tracking.UnpublishedError)(nil); errors.As(err, &left) {
		return sendLater(err, named)
	}
	if err != nil {
		return err
	}
	counts, err := run.Counts(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%d of %d results were acknowledged by %s; experiment verify %s reads them back\n",
		counts.Published, counts.Done, lf.Client.BaseURL(), quote(named))
	return cli.Written(err)
}

// publishRest publishes a run that has ended, and says where Langfuse takes nothing.
func publishRest(ctx context.Context, env cli.Env, lf *connect.Langfuse, run *runstore.Run, named string, log *slog.Logger) error {
	view := &progress{out: env.Stderr}
	cfg := publishing(lf, run, log)
	cfg.Published, cfg.Withdrawing = view.published, view.withdraw
	publisher, err := tracking.NewPublisher(cfg)
	if err != nil {
		return err
	}
	ended, sent := make(chan struct{}), make(chan error, 1)
	close(ended)
	go func() { sent <- publisher.Follow(ctx, ended) }()
	return view.untilSent(sent, named, lf.Paused)
}

// sameProject refuses to publish a run into another project than it was made
// for: its dataset is not there. A run of the bench has none anywhere.
func sameProject(ctx context.Context, run *runstore.Reader, lf *connect.Langfuse) error {
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	if header.Harness == benches.Name {
		return cli.Usage("the run %q is of the bench, and runs of the bench are not published to Langfuse: experiment bench score %s judges it", header.Name, quote(header.Name))
	}
	if header.Project != lf.Server.Project.ID {
		return cli.Usage("the run %q belongs to the Langfuse project %q, and the keys are those of %q: use the keys that it was run with", header.Name, header.Project, lf.Server.Project.ID)
	}
	return nil
}
