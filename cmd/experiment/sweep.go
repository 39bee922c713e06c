package main

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/tracking"
)

// runSweep carries out what is missing of a sweep, then ranks its runs. A run that
// finished with failures or does not pass its gate holds up no other.
func (s session) runSweep(ctx context.Context, cfgs []runConfig, rules scorer) error {
	sweep := &experiment.Sweep{Langfuse: &s.lf.Langfuse, Resume: cfgs[0].resume, Retry: cfgs[0].retry, What: "this sweep", Note: s.note}
	for _, cfg := range cfgs {
		check := func(ctx context.Context) error {
			cfg.system.Resume = cfg.system.Resume && exists(cfg.system.Record)
			opened, err := opener(s.env, s.lf).Open(ctx, cfg.system)
			if err == nil {
				err = opened.Close()
			}
			return err
		}
		sweep.Runs = append(sweep.Runs, experiment.SweepRun{Name: cfg.name, Dataset: cfg.dataset, Trials: cfg.trials, Check: check})
	}
	err := sweep.Prepare(ctx)
	if err == nil {
		err = sweep.Pin(ctx)
	}
	if err != nil {
		return cli.Distinct(cli.Separate(s.explained(err, harness.Name))...)
	}
	var problems []error
	for i, cfg := range cfgs {
		if s.signals.came() {
			return errors.Join(append(problems, s.sweepInterrupted(i, len(cfgs)))...)
		}
		if !cfg.quiet {
			fmt.Fprintf(s.env.Stderr, "run %d of %d: %s\n", i+1, len(cfgs), cfg.name)
		}
		var opened system.System
		r, err := sweep.Run(ctx, i, s.extraction(cfg, rules, &opened))
		if err = s.explained(err, harness.Name); r.Path != "" {
			err = s.finish(cfg, opened, r)
		}
		problems = append(problems, err)
		switch cli.ExitCode(err) {
		case cli.ExitOK, cli.ExitGate, cli.ExitFailures, cli.ExitInconclusive:
		case cli.ExitInterrupted:
			if left := (*tracking.UnpublishedError)(nil); errors.As(err, &left) && i+1 < len(cfgs) && !errors.Is(err, experiment.ErrInterrupted) {
				problems = append(problems, s.sweepInterrupted(i+1, len(cfgs))) // while it was published
			}
			return errors.Join(problems...)
		default:
			return errors.Join(append(problems, fmt.Errorf("the sweep ends at run %d of %d, %s", i+1, len(cfgs), cfg.name))...)
		}
	}
	return errors.Join(append(problems, s.rank(ctx, sweep, cfgs[0]))...)
}

func (s session) sweepInterrupted(done, all int) error {
	return cli.Errorf(cli.ExitInterrupted, "%w: %d of %d runs are done; go on with: %s", experiment.ErrInterrupted, done, all, resumeCommand(s.env.Args))
}
