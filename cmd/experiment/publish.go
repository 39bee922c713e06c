package main

import (
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/tracking"
)

func publishCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "publish",
		Usage:     "send to Langfuse what a run holds and Langfuse has not acknowledged",
		UsageText: "experiment publish RUN",
		ArgsUsage: "RUN",
		Flags:     append([]urfave.Flag{settings.DatasetFlag(), connect.ModeFlag()}, settings.LogFlags()...),
		Action:    func(c *urfave.Context) error { return publishAction(c, env) },
	}
}

func publishAction(c *urfave.Context, env cli.Env) (err error) {
	named, err := oneRun(c)
	if err != nil {
		return err
	}
	log, err := settings.NewLog(env.Stderr, c.String("log-level"), c.String("log-format"))
	if err != nil {
		return err
	}
	getenv, err := connect.FlagMode(c, env.Getenv)
	if err != nil {
		return err
	}
	path, err := runs.Find(c.Context, named, c.String("dataset"))
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
	view := runs.NewSending(env.Stderr)
	counts, err := experiment.Publish(ctx, &lf.Langfuse, path, log, experiment.Observer{
		Sending:   func() { view.WatchSending(named, lf.Paused) },
		Published: view.Published, Withdrawing: view.Withdrawing, Ended: view.Close,
	})
	if left := (*tracking.UnpublishedError)(nil); errors.As(err, &left) {
		return sendLater(err, named)
	}
	if err != nil {
		return notPublished(err)
	}
	_, err = fmt.Fprintf(env.Stdout, "%d of %d results were acknowledged by %s; experiment verify %s reads them back\n",
		counts.Published, counts.Done, lf.Client.BaseURL(), cli.Quote(named))
	return cli.Written(err)
}

// notPublished says of a run that is in no Langfuse what can be done with it.
func notPublished(err error) error {
	var of *experiment.UnpublishableError
	if errors.As(err, &of) && of.Harness == benches.Name {
		return cli.Usage("%w: experiment bench score %s judges it", err, cli.Quote(of.Name))
	}
	return err
}
