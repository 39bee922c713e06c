package main

import (
	"context"
	"errors"
	"os"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func runCommand(env cli.Env) *urfave.Command {
	table := runTable()
	return &urfave.Command{
		Name:      "run",
		Usage:     "run an experiment (what experiment does without a command)",
		UsageText: "experiment run --dataset NAME --name RUN [flags]",
		Flags:     cli.Each(table, settings.Setting.AsFlag),
		Action:    settings.NoWords(func(c *urfave.Context) error { return runAction(c, env, table) }),
	}
}

// runAction resolves the settings and runs the experiment or sweep.
func runAction(c *urfave.Context, env cli.Env, table []settings.Setting) error {
	file, path, err := configs.LoadGiven(c.String("config"), env.Getenv)
	if err != nil {
		return cli.Usage("%w", err)
	}
	values := settings.Resolve(c, table, env.Getenv, file.Lookup, path)
	sweepRuns, err := sweepRunsOf(values, file.Matrix, path)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if values.On("dry-run") {
		if err := dryRun(env, values, table, sweepRuns, file, path); err != nil {
			return err
		}
	}
	custom := cli.Each(file.Scorers, func(s configs.Scorer) string { return s.Name })
	cfgs, err := readRuns(values, sweepRuns, slices.Concat(runs.ExtractionScores(), []string{outcome.ErrorScore}, custom))
	if err != nil {
		return cli.Usage("%w", err)
	}
	rules, err := system.ReadRules(file)
	if err != nil {
		return err
	}
	if values.On("dry-run") {
		return nil
	}
	if rules.Custom, err = opener(env, nil).OpenScorers(c.Context, file, path); err != nil {
		return err
	}
	if !cfgs[0].estimate {
		if err := rules.Custom.Check(c.Context); err != nil {
			return err
		}
	}
	// The dataset of a new run is opened in advance. An error occurs again when it is needed.
	ask := func(ctx context.Context, client *langfuse.Client) {
		if cfgs[0].Resume || experiment.IsFile(cfgs[0].Dataset) {
			return
		}
		if found, err := tracking.OpenDataset(ctx, client, cfgs[0].Dataset); err == nil {
			cfgs[0].Source = found
		}
	}
	work := func(ctx context.Context, s session) error { return s.runAll(ctx, cfgs, rules) }
	return withSession(c.Context, env, cfgs[0], ask, work)
}

// opener returns an Opener of systems. lf may be nil if the systems do not use Langfuse.
func opener(env cli.Env, lf *settings.Langfuse) system.Opener {
	o := system.Opener{Getenv: env.Getenv, Stderr: env.Stderr}
	if lf != nil {
		o.Langfuse = &lf.Langfuse
	}
	return o
}

// runAll runs one run or a sweep, or prints the estimate for them.
func (s session) runAll(ctx context.Context, cfgs []runConfig, rules system.Rules) error {
	switch {
	case cfgs[0].estimate:
		return s.signals.markStop(s.printEstimates(ctx, cfgs, rules.Custom.Judges()))
	case cfgs[0].sweepRun:
		return s.runSweep(ctx, cfgs, rules)
	}
	var opened system.System
	r, err := experiment.Run(ctx, s.extraction(cfgs[0], rules, &opened))
	return s.finish(cfgs[0], opened, r, err)
}

// extraction returns the configuration of an extraction run. opened is set when the system is
// opened.
func (s session) extraction(cfg runConfig, rules system.Rules, opened *system.System) experiment.Config {
	cfg.Header.Scorer = harness.ScorerInfo(rules.Raw)
	cfg.Header.Scorer.Custom = rules.Custom.Described
	config := s.engine(cfg, opened)
	config.OpenEarly = cfg.system.ReadOnly()
	config.Open = func(ctx context.Context, resumed bool) (experiment.System, error) {
		_, err := os.Stat(cfg.system.Record)
		cfg.system.Resume = cfg.system.Resume && (resumed || err == nil)
		if resumed {
			cfg.system.Began = s.began(ctx, cfg)
		}
		if *opened, err = opener(s.env, s.lf).Open(ctx, cfg.system); err != nil {
			return experiment.System{}, err
		}
		if opened.Model.Budget == nil {
			opened.Model.Budget, err = rules.Custom.Budget(cfg.system.Limits, s.env.Getenv)
		}
		judge, judgeErr := rules.NewScorer(opened.Model.Budget)
		if err = errors.Join(err, judgeErr); err == nil {
			err = opener(s.env, s.lf).Push(ctx, cfg.system, opened)
		}
		if err != nil {
			return experiment.System{}, errors.Join(err, opened.Close())
		}
		sys := opened.Measured(&harness.Task{Extractor: opened.Extractor}, judge)
		if cfg.workers.Address == "" {
			return sys, nil
		}
		if cfg.concurrencyGiven {
			s.note("--concurrency has no effect with --workers: each experiment worker has its own")
		}
		return system.Coordinate(ctx, s.env, cfg.workers, cfg.system, opened, sys, s.note)
	}
	return config
}

// began returns the prompt that a run to be resumed began with; an empty one if its file cannot be
// read, which is an error later on.
func (s session) began(ctx context.Context, cfg runConfig) *outcome.Prompt {
	path := runstore.Path(settings.Folder, s.lf.Server.Project.ID, experiment.DatasetName(cfg.Dataset), cfg.Header.Name)
	var h outcome.Header
	if run, err := runstore.Load(path); err == nil {
		h, _ = run.Header(ctx)
		_ = run.Close() // closing a file that was only read loses nothing
	}
	return &h.System.Prompt
}
