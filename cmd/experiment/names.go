package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"

	"extraction-experiment/cmd/internal/connect"
)

// nameIsFree checks that neither a run file nor Langfuse knows the run's name;
// else it proposes one that is free.
func (j *job) nameIsFree(ctx context.Context, h outcome.Header) error {
	where, err := j.whereTaken(ctx, h, h.Name)
	if err != nil || where == "" {
		return err
	}
	for i := 2; ; i++ {
		free := fmt.Sprintf("%s-%d", h.Name, i)
		taken, err := j.whereTaken(ctx, h, free)
		if err != nil {
			return err
		}
		if taken == "" {
			return cli.Usage("the run name %q is taken (%s): use --name %s, or --resume to go on with it", h.Name, where, free)
		}
	}
}

func (j *job) whereTaken(ctx context.Context, h outcome.Header, name string) (string, error) {
	path := runstore.Path(connect.Folder, h.Project, h.Dataset.Name, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	known, err := tracking.RunExists(ctx, j.lf.Client, j.lf.Server, h.Dataset.ID, name)
	if known {
		return "in Langfuse", err
	}
	return "", err
}

// resume opens the run of that name and checks that it is the same experiment.
func (j *job) resume(h outcome.Header, filter dataset.Filter, file bool) error {
	if _, err := os.Stat(j.path); err != nil {
		return cli.Usage("there is no run %q of %s to resume (%s is missing)", h.Name, h.Dataset.Name, j.path)
	}
	run, err := runstore.Open(j.path)
	if err != nil {
		return err
	}
	j.run = run
	began, err := run.Header(context.Background())
	if err == nil {
		err = sameExperiment(began, h)
	}
	if err != nil {
		return closing(run, err)
	}
	var source experiment.Source = experiment.File(j.cfg.dataset)
	if !file {
		pinned, err := tracking.ReopenDataset(j.lf.Client, began.Dataset.ID, began.Dataset.Name, began.Dataset.Version)
		if err != nil {
			return closing(run, err)
		}
		source = pinned
	}
	j.source = experiment.Selected{Source: source, Filter: filter}
	return nil
}

// sameExperiment refuses to go on with a run under other settings: its numbers
// would be a mixture.
func sameExperiment(began, now outcome.Header) error {
	for _, d := range []struct{ what, began, now string }{
		{"model", began.System.Provider + "/" + began.System.Model, now.System.Provider + "/" + now.System.Model},
		{"selection of items", began.Dataset.Selection, now.Dataset.Selection},
		{"scorer version", began.Scorer.Version, now.Scorer.Version},
		{"scoring options", string(began.Scorer.Options), string(now.Scorer.Options)},
		{"harness", began.Harness, now.Harness},
	} {
		if d.began != d.now {
			return cli.Usage("the run %q began with another %s (%q, now %q): resume with the same settings, or use another name such as %s-%s",
				began.Name, d.what, d.began, d.now, began.Name, time.Now().UTC().Format("0102-1504"))
		}
	}
	return nil
}

// closing closes a run on the way out with an error.
func closing(run *runstore.Run, err error) error {
	if closed := run.Close(); closed != nil {
		return fmt.Errorf("%w (and closing the run: %v)", err, closed)
	}
	return err
}
