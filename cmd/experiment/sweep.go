package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// sweepJob is a sweep with everything that it needs. Its runs are carried out
// one after the other, so that --concurrency and what a provider allows hold for
// all of them together.
type sweepJob struct {
	workbench
	rules scorer
	cells []runConfig
	paths []string
}

// run carries out what is missing of a sweep, then ranks its runs. A run that
// finished with failures or does not pass its gate holds up no other.
func (s *sweepJob) run(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return s.signals.interrupted(err)
	}
	var problems []error
	for i, cfg := range s.cells {
		if s.signals.came() {
			return errors.Join(append(problems, s.interrupted(i))...)
		}
		if !cfg.quiet {
			fmt.Fprintf(s.env.Stderr, "run %d of %d: %s\n", i+1, len(s.cells), cfg.name)
		}
		err := s.workbench.run(ctx, cfg, s.rules)
		problems = append(problems, err)
		switch cli.ExitCode(err) {
		case cli.ExitOK, cli.ExitGate, cli.ExitFailures, cli.ExitInconclusive:
		case cli.ExitInterrupted:
			if left := (*tracking.UnpublishedError)(nil); errors.As(err, &left) && i+1 < len(s.cells) && !errors.Is(err, experiment.ErrInterrupted) {
				problems = append(problems, s.interrupted(i+1)) // while it was published
			}
			return errors.Join(problems...)
		default:
			return errors.Join(append(problems, fmt.Errorf("the sweep ends at run %d of %d, %s", i+1, len(s.cells), cfg.name))...)
		}
	}
	return errors.Join(append(problems, s.rank(ctx))...)
}

func (s *sweepJob) interrupted(done int) error {
	return cli.Errorf(cli.ExitInterrupted, "%w: %d of %d runs are done; go on with: %s", experiment.ErrInterrupted, done, len(s.cells), resumeCommand(s.env.Args))
}

// prepare finds out which runs have begun, pins the dataset for the others, and
// looks for everything that would end the sweep later.
func (s *sweepJob) prepare(ctx context.Context) error {
	first := s.cells[0]
	var begun, names []string
	var headers []outcome.Header
	for i := range s.cells {
		cfg := &s.cells[i]
		j := &job{cfg: *cfg, lf: s.lf}
		h, err := j.header(s.rules, dataset.Filter{})
		if err != nil {
			return err
		}
		j.place(&h)
		s.paths, names, headers = append(s.paths, j.path), append(names, h.Name), append(headers, h)
		if _, err := os.Stat(j.path); err == nil {
			begun = append(begun, h.Name)
		} else {
			cfg.beginAnew()
		}
	}
	switch {
	case first.retry && len(begun) == 0:
		return cli.Usage("no run of this sweep has begun, there is nothing to try again: leave --retry-failed out")
	case first.resume:
		if err := s.sayNeverBegun(ctx, names, s.paths); err != nil {
			return err
		}
	case len(begun) > 0:
		return cli.Usage("runs of this sweep are there already (%s): use --resume to go on with it, or another --name", strings.Join(begun, ", "))
	}
	for i := range s.cells {
		s.cells[i].beside = s.paths
	}
	if err := s.pin(ctx); err != nil {
		return err
	}
	return errors.Join(distinct(append(s.checkNames(ctx, headers), s.checkSystems(ctx)...))...)
}

// pin gives every run the dataset as the first one had it: runs over other items
// could not be compared.
func (s *sweepJob) pin(ctx context.Context) error {
	if isItemFile(s.cells[0].dataset) {
		return nil
	}
	pin, err := s.resumedPin(ctx)
	if err != nil {
		return err
	}
	if pin == nil {
		j := &job{cfg: s.cells[0], lf: s.lf}
		if pin, err = j.openDataset(ctx); err != nil {
			return j.datasetError(err)
		}
	}
	for i := range s.cells {
		s.cells[i].pin = pin
	}
	return nil
}

// resumedPin returns the dataset of a run that goes on; nil where none does.
func (s *sweepJob) resumedPin(ctx context.Context) (*tracking.Dataset, error) {
	for i, cfg := range s.cells {
		if !cfg.resume {
			continue
		}
		h, err := headerOf(ctx, s.paths[i])
		if err != nil {
			return nil, err
		}
		if d := h.Dataset; d.Version != "" {
			return tracking.ReopenDataset(s.lf.Client, d.ID, d.Name, d.Version)
		}
	}
	return nil, nil
}

// headerOf reads the header of a run file.
func headerOf(ctx context.Context, path string) (h outcome.Header, err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Header(ctx)
}

// checkNames finds names that Langfuse knows already.
func (s *sweepJob) checkNames(ctx context.Context, headers []outcome.Header) (problems []error) {
	for i, cfg := range s.cells {
		if cfg.resume || cfg.pin == nil {
			continue
		}
		h := headers[i]
		h.Dataset.ID = cfg.pin.ID()
		where, err := (&job{cfg: cfg, lf: s.lf}).whereTaken(ctx, h, h.Name)
		switch {
		case err != nil:
			return append(problems, err)
		case where != "":
			problems = append(problems, cli.Usage("the run name %q is taken (%s): use another --name", h.Name, where))
		}
	}
	return problems
}

// checkSystems opens what every run measures and closes it again.
func (s *sweepJob) checkSystems(ctx context.Context) (problems []error) {
	for _, cfg := range s.cells {
		opened, err := openSystem(ctx, s.lf, cfg.system, cfg.concurrency, s.env.Getenv)
		if err == nil {
			err = opened.close()
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}
