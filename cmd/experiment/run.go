package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/printable"
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
	cfgs, err := values.runConfigs(cells, slices.Concat(scoreOrder(), customNames(file)))
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
		err = rules.custom.check(c.Context)
	}
	if err == nil {
		err = runExperiment(c.Context, env, cfgs, rules, log)
	}
	return errors.Join(err, rules.custom.close())
}

// runExperiment connects to Langfuse and carries out one run, or the runs of a
// sweep.
func runExperiment(ctx context.Context, env cli.Env, cfgs []runConfig, rules scorer, log *slog.Logger) error {
	ctx, signals := watchSignals(ctx, env.Stderr)
	defer signals.stop()
	lf, err := connect.Open(ctx, cfgs[0].getenv(env.Getenv))
	if err != nil {
		return signals.interrupted(err)
	}
	log.Info("connected", "langfuse", lf.Client.BaseURL(), "version", lf.Server.Version.String(), "mode", lf.Server.Mode(), "project", lf.Server.Project.ID)
	if !cfgs[0].quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	b := workbench{env, lf, signals, rules, log}
	switch {
	case cfgs[0].estimate:
		err = signals.interrupted(estimates(ctx, env, lf, cfgs))
	case cfgs[0].cell:
		err = (&sweepJob{workbench: b, cells: cfgs}).run(ctx)
	default:
		err = b.run(ctx, cfgs[0])
	}
	return errors.Join(distinct([]error{err, lf.Close()})...)
}

// workbench is what runs of one command share.
type workbench struct {
	env     cli.Env
	lf      *connect.Langfuse
	signals *signals
	rules   scorer
	log     *slog.Logger
}

// run carries one run from its beginning to the summary.
func (b workbench) run(ctx context.Context, cfg runConfig) error {
	env, log, signals := b.env, b.log, b.signals
	j, err := openJob(ctx, b.lf, cfg, b.rules, env.Getenv)
	if err != nil {
		return signals.interrupted(err)
	}
	log.Info("run file", "path", j.path, "new", j.fresh)
	for _, note := range j.system.notes {
		fmt.Fprintln(env.Stderr, "note: "+printable.Line(note))
	}
	view := newProgress(env, cfg.quiet, harness.Primary, log)
	j.system.asks.follow(view)
	ran, published := j.carryOut(ctx, signals, view, log)
	view.close()
	verified := j.verify(ctx, env, ran, published)
	return errors.Join(j.finish(env, ran, published), verified)
}

// getenv is the environment with what the flags say of the connection.
func (c runConfig) getenv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == connect.EnvMode {
			return c.langfuseMode
		}
		return getenv(name)
	}
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
	publisher, err := j.publisher(view.published, log)
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
		view.publishing()
	}
	return ran, <-sent
}
