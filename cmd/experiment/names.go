package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// madeName is the name of a run that was given none: it ends in the time.
func madeName(beginning string) string {
	return beginning + "-" + time.Now().UTC().Format("20060102-150405.000")
}

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
			hint := ""
			if where != inLangfuse {
				hint = ", or --resume to go on with it"
			}
			if where != inLangfuse && h.Harness == answers.Name {
				hint += ", or --overwrite to replace it"
			}
			return cli.Usage("the run name %q is taken (%s): use --name %s%s", h.Name, where, free, hint)
		}
	}
}

// inLangfuse says that only Langfuse knows a run.
const inLangfuse = "in Langfuse"

func (j *job) whereTaken(ctx context.Context, h outcome.Header, name string) (string, error) {
	path := runstore.Path(connect.Folder, h.Project, h.Dataset.Name, name)
	if _, err := os.Stat(path); err == nil && !(j.cfg.overwrite && path == j.path) {
		return path, nil
	}
	h.Name = name
	for trial := 1; trial <= h.Trials; trial++ {
		known, err := tracking.RunExists(ctx, j.lf.Client, j.lf.Server, h.Dataset.ID, tracking.RunName(h, trial))
		if err != nil || known {
			return inLangfuse, err
		}
	}
	return "", nil
}

// replaceable checks with --overwrite that the run of the name, if there is one,
// may go: nobody is writing it, and it is in no Langfuse but that of this folder,
// where runs of one name do not meet.
func (j *job) replaceable(ctx context.Context, h outcome.Header) (err error) {
	if !j.cfg.overwrite {
		return nil
	}
	run, err := runstore.Open(j.path)
	if errors.Is(err, runstore.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	counts, err := run.Counts(ctx)
	published := counts.Published > 0
	for trial := 1; err == nil && !published && trial <= h.Trials; trial++ {
		_, published, err = run.Experiment(ctx, trial)
	}
	if err == nil && published && !j.lf.Embedded {
		err = cli.Usage("the run %q is published to Langfuse (%s), and --overwrite replaces no such run: use another --name", h.Name, j.lf.Client.BaseURL())
	}
	return err
}
