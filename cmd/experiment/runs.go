package main

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
)

func runsCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "runs",
		Usage:     "list the runs of this folder",
		UsageText: "experiment runs [--json]",
		Flags:     []urfave.Flag{settings.JSONFlag()},
		Action: func(c *urfave.Context) error {
			if err := settings.NoWords(c); err != nil {
				return err
			}
			return runsAction(c, env)
		},
	}
}

// runsAction lists the runs, the newest first. What cannot be read is an error
// beside the list of the rest.
func runsAction(c *urfave.Context, env cli.Env) error {
	listed, err := runs.Rows(c.Context)
	if err != nil {
		return err
	}
	var problems []error
	rows := []report.RunRow{}
	for _, l := range listed {
		problems = append(problems, l.Err)
		if l.Row != nil {
			rows = append(rows, *l.Row)
		}
	}
	if c.Bool("json") {
		problems = append(problems, runs.PrintJSON(env, rows))
	} else {
		problems = append(problems, cli.Written(report.Runs(env.Stdout, rows, runs.TextOptions(env, nil))))
	}
	return errors.Join(problems...)
}
