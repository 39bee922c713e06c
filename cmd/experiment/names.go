package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"extraction-experiment/cmd/internal/connect"
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
			return cli.Usage("the run name %q is taken (%s): use --name %s%s", h.Name, where, free, hint)
		}
	}
}

// inLangfuse says that only Langfuse knows a run.
const inLangfuse = "in Langfuse"

func (j *job) whereTaken(ctx context.Context, h outcome.Header, name string) (string, error) {
	path := runstore.Path(connect.Folder, h.Project, h.Dataset.Name, name)
	if _, err := os.Stat(path); err == nil {
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
