package main

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/cli"
)

func exportCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:         "export",
		Usage:        "write a run as plain JSONL: header, items, outcomes, footer",
		UsageText:    "experiment export RUN [--output FILE]",
		ArgsUsage:    "RUN",
		OnUsageError: flags.UsageError,
		Flags: []urfave.Flag{
			datasetFlag(),
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "`FILE` to write; - is standard output"},
		},
		Action: func(c *urfave.Context) (err error) {
			if c.NArg() != 1 {
				return cli.Usage("export takes the name or file of one run; experiment runs lists them")
			}
			run, err := openRun(c.Context, c.Args().First(), c.String("dataset"))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, run.Close()) }()
			return exportTo(c.Context, env, run, c.String("output"))
		},
	}
}
