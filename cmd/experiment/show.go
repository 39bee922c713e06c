package main

import (
	"context"
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

func showCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "show",
		Usage:     "show a run, or one item of it with its matches and near misses",
		UsageText: "experiment show RUN [ITEM] [--json]",
		ArgsUsage: "RUN [ITEM]",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			settings.JSONFlag(),
			&urfave.IntFlag{Name: "trial", Value: 1, Usage: "`N` shows the item of this trial"},
			&urfave.BoolFlag{Name: "full", Usage: "show the whole document", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return showAction(c, env) },
	}
}

func showAction(c *urfave.Context, env cli.Env) (err error) {
	words := c.Args().Slice()
	if len(words) < 1 || len(words) > 2 {
		return cli.Usage("show takes the name or file of a run, and the id of an item if one is wanted; experiment runs lists the runs")
	}
	run, err := runs.Open(c.Context, words[0], c.String("dataset"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if len(words) == 1 {
		return showRun(c, env, run)
	}
	view, err := runs.Item(c.Context, run, words[1], c.Int("trial"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return runs.PrintJSON(env, view)
	}
	where, err := otherTrials(c.Context, run, words[0], words[1], view.Outcome.Trial)
	if err != nil {
		return err
	}
	opt := runs.TextOptions(env, where)
	if c.Bool("full") {
		opt.Document = -1
	}
	return cli.Written(report.Item(env.Stdout, view, opt))
}

// otherTrials names the commands that show the item's other trials.
func otherTrials(ctx context.Context, run *runstore.Reader, named, id string, shown int) (lines []string, err error) {
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Item: id}) {
		if err != nil {
			return nil, err
		}
		if o.Trial != shown && len(lines) < 9 {
			lines = append(lines, fmt.Sprintf("experiment show %s %s --trial %d", cli.Quote(named), cli.Quote(id), o.Trial))
		}
	}
	return lines, nil
}

func showRun(c *urfave.Context, env cli.Env, run *runstore.Reader) error {
	if err := run.Check(c.Context); err != nil {
		return err
	}
	summary, err := runs.Summarise(c.Context, run)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return runs.PrintJSON(env, summary)
	}
	return cli.Written(report.Text(env.Stdout, summary, runs.TextOptions(env, nil)))
}
