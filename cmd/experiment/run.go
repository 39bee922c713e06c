package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

func runCommand(env cli.Env) *urfave.Command {
	table := runTable()
	command := &urfave.Command{
		Name:         "run",
		Usage:        "run an experiment (what experiment does without a command)",
		UsageText:    "experiment run --dataset NAME --name RUN [flags]",
		OnUsageError: flags.UsageError,
		Action: func(c *urfave.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return runAction(c, env, table)
		},
	}
	for _, s := range table {
		command.Flags = append(command.Flags, s.flagFor())
	}
	return command
}

// runAction resolves the settings and runs what they say.
func runAction(c *urfave.Context, env cli.Env, table []setting) error {
	path := c.String("config")
	if path == "" {
		path = env.Getenv("EXPERIMENT_CONFIG")
	}
	var file configs.Experiment
	if path != "" {
		var err error
		if file, err = configs.Load(path); err != nil {
			return cli.Errorf(cli.ExitUsage, "%w", err)
		}
	}
	values := resolve(c, table, env.Getenv, file, path)
	cells, err := values.cells(file.Matrix, path)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if values.on("dry-run") {
		if err := dryRun(env, values, table, cells, file, path); err != nil {
			return err
		}
	}
	cfgs, err := values.runConfigs(cells, slices.Concat(extractionScores(), []string{outcome.ErrorScore}, customNames(file)))
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "%w", err)
	}
	rules, err := newRules(file)
	if err != nil {
		return err
	}
	log, err := newLog(env.Stderr, values.text("log-level"), values.text("log-format"))
	if err != nil || values.on("dry-run") {
		return err
	}
	if rules.custom, err = openScorers(c.Context, env, file, path); err != nil {
		return err
	}
	if !cfgs[0].estimate {
		if err := rules.custom.check(c.Context); err != nil {
			return errors.Join(err, rules.custom.close())
		}
	}
	ask := func(ctx context.Context, client *langfuse.Client) { cfgs[0].pinEarly(ctx, client) }
	work := func(ctx context.Context, b workbench) error { return b.runAll(ctx, cfgs, rules) }
	return errors.Join(atWorkbench(c.Context, env, cfgs[0], log, ask, work), rules.custom.close())
}

// runAll carries out one run, or the runs of a sweep, or tells what they would
// take.
func (b workbench) runAll(ctx context.Context, cfgs []runConfig, rules scorer) error {
	switch {
	case cfgs[0].estimate:
		return b.signals.interrupted(estimates(ctx, b.env, b.lf, cfgs, rules.custom.judges()))
	case cfgs[0].cell:
		return (&sweepJob{workbench: b, rules: rules, cells: cfgs}).run(ctx)
	}
	return b.run(ctx, cfgs[0], rules)
}

// run carries one run of extraction from its beginning to the summary.
func (b workbench) run(ctx context.Context, cfg runConfig, rules scorer) error {
	j, err := openJob(ctx, b.lf, cfg, rules, b.env.Getenv)
	if err != nil {
		return b.signals.interrupted(err)
	}
	return b.complete(ctx, j, harness.Primary)
}

// carryOut runs the items and publishes them at the same time. Publishing ends
// when the run has ended and everything is sent, or cannot be.
func (j *job) carryOut(ctx context.Context, signals *signals, view *progress, log *slog.Logger) (ran, published error) {
	runner, err := experiment.New(experiment.Config{
		Run: j.run, Source: j.source, Task: j.task, Scorer: j.scorer,
		Concurrency: j.cfg.concurrency, Timeout: j.cfg.timeout, Stop: signals.soft, Observer: view,
		Retry: j.cfg.retry, RetryClasses: j.cfg.retryClasses,
	})
	if err != nil {
		return err, nil
	}
	publisher, err := j.publisher(view, log)
	if err != nil {
		return err, nil
	}
	finished := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- publisher.Follow(ctx, finished) }()
	signals.working.Store(true)
	_, ran = runner.Run(limit.WithStop(ctx, signals.soft))
	signals.working.Store(false) // from here on a signal ends the publishing at once: nothing is lost
	close(finished)
	if ran == nil || errors.Is(ran, experiment.ErrInterrupted) {
		go j.tally() // while Langfuse takes the rest; finish waits for it
		view.publishing()
	}
	return ran, signals.cutShort(view.untilSent(sent, j.cfg.name, j.lf.Paused))
}
