package main

import (
	"context"
	"errors"
	"io"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/runstore"
)

func exportCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "export",
		Usage:     "write a run as plain JSONL: header, items, outcomes, footer",
		UsageText: "experiment export RUN [--output FILE]",
		ArgsUsage: "RUN",
		Description: "Of a damaged run everything is written that can still be read; what is missing is named, and the\n" +
			"exit code is 74.",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "`FILE` to write; - is standard output"},
		},
		Action: func(c *urfave.Context) (err error) {
			named, err := oneRun(c)
			if err != nil {
				return err
			}
			path, err := runs.Find(c.Context, named, c.String("dataset"))
			if err != nil {
				return err
			}
			run, err := runstore.Salvage(c.Context, path)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, run.Close()) }()
			return exportTo(c.Context, env, run, c.String("output"))
		},
	}
}

// exportTo writes the run as JSONL; "-" is standard output.
func exportTo(ctx context.Context, env cli.Env, run *runstore.Reader, path string) error {
	if path == "-" {
		return cli.Written(run.Export(ctx, env.Stdout))
	}
	if cli.SameFile(path, run.Path()) {
		return cli.Usage("%s is the run itself: name another file", path)
	}
	var loss *runstore.Loss // what can be read of a damaged run is a file too
	err := cli.WriteFile(path, func(w io.Writer) error {
		err := run.Export(ctx, w)
		if errors.As(err, &loss) {
			return nil
		}
		return err
	})
	if err == nil && loss != nil {
		return loss
	}
	return err
}
